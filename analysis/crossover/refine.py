"""Which further M would narrow a crossover: the measuring side asks, after each batch that it has measured.

The bracket of a crossover runs from the last M at which one side is verified faster to the first at which the other is;
where the winner changes several times, each change has one.
It is narrowed by bisection in log2 M, on whole numbers. Where a tile of either provider is wide, its edge that is
nearest to the middle is taken in place of the middle, with the M after it: the time of a tiled kernel steps there, so
that the winner is likely to change between just these two. A shape is done when its bracket is narrow and holds no such
edge, when neither end can come nearer to the undecided M between them, or when it has had all its further M.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from ...shapes.problem import Op, Pass
from ...shapes.protocol import Protocol
from ...shapes.run_folder.manifest import StoredRefinement
from ..frames.coordinates import SETTING, SHAPE

RATIO = 1 + Protocol().refine_to
"""Width of a bracket (its last M over its first) that is narrow enough."""

MOST = Protocol().refine_most
"""Further M for one shape and setting."""

PLACE = (*SHAPE, *SETTING)
"""What one crossover is of."""

Place = tuple[Any, ...]
"""Values of `PLACE`."""

_TILED = (Pass.FWD, Pass.DGRAD)
"""Passes whose output has M rows; a tile of the others has no edge along M."""


class Further(NamedTuple):
    """One M to add: where, and how many rows."""

    place: Place
    M: int


def further(
    crossings: pd.DataFrame,
    cells: pd.DataFrame,
    added: Iterable[Further],
    ratio: float = RATIO,
    most: int = MOST,
    can: Callable[[Further], bool] = lambda one: True,
) -> list[Further]:
    """Return the next M of every shape that has a verified change of the winner; empty when all are done.

    `crossings` is what `per_shape.crossovers` found, `cells` the summary it found it in. `added` are the M that were
    requested already: they count towards `most`, and none is requested twice, whatever its outcome. `can` says what
    can be measured at all: a grouped product needs whole groups of rows, for example.
    """
    asked: dict[Place, set[int]] = {}
    for one in added:
        asked.setdefault(one.place, set()).add(one.M)
    pair = set(crossings["challenger"]) | set(crossings["incumbent"])
    tiles = _tiles(cells.loc[cells["provider"].isin(pair)])
    wanted = []
    for row in crossings.to_dict("records"):
        place = tuple(row[name] for name in PLACE)
        taken = asked.get(place, set())

        def free(size: int, place: Place = place, taken: Collection[int] = taken) -> bool:
            return size not in taken and can(Further(place, size))

        sizes: list[int] = []
        for before, after in pairwise(row["regions"]):
            low, high = int(before.last_M), int(after.first_M)
            wide = [size for at in (low, high) for size in tiles.get((place, at), ())]
            sizes += next_sizes(low, high, row["Ms"], free, wide, ratio)
        wanted += [Further(place, size) for size in sizes[: max(0, most - len(taken))]]
    return wanted


def next_sizes(
    low: int,
    high: int,
    measured: Iterable[int],
    free: Callable[[int], bool],
    tiles: Collection[int],
    ratio: float = RATIO,
) -> Sequence[int]:
    """Return one or two whole M inside of the bracket `low`..`high`, or none when it is as narrow as it gets.

    `measured` are all M with a result, those inside of the bracket undecided; `free` says whether an M may be
    requested. `tiles` are the rows of the providers' tiles; one counts as wide when it is wider than the bracket is to
    become.
    """
    inside = sorted({size for size in measured if low < size < high})
    gaps = [(low, inside[0]), (inside[-1], high)] if inside else [(low, high)]
    for begin, end in sorted(gaps, key=lambda gap: gap[0] / gap[1]):
        middle = math.sqrt(begin * end)
        pairs = [
            [size for size in (edge, edge + 1) if begin < size < end and free(size)]
            for edge in _edges(middle, begin, end, [size for size in tiles if size > (ratio - 1) * middle])
        ]
        if first := next(filter(None, pairs), None):
            return first
        if end > ratio * begin and (size := _nearest(middle, begin, end, free)):
            return [size]
    return []


def _nearest(middle: float, begin: int, end: int, free: Callable[[int], bool]) -> int | None:
    """Whole number strictly inside that is nearest to the middle and free; None when none is."""
    first = round(middle)
    for step in range(end - begin):
        for size in (first - step, first + step):
            if begin < size < end and free(size):
                return size
    return None


def _edges(middle: float, begin: int, end: int, tiles: Iterable[int]) -> list[int]:
    """Last rows of tiles at the middle, before and after it, the nearest first; the row after one may be inside too."""
    found = {count * size for size in tiles for count in (math.floor(middle / size), math.ceil(middle / size))}
    return sorted(
        (edge for edge in found if begin <= edge < end), key=lambda edge: abs(math.log2((edge + 0.5) / middle))
    )


def _tiles(cells: pd.DataFrame) -> dict[tuple[Place, int], set[int]]:
    """Rows of the tiles per (place, M): the stored `tile_M`, or BLOCK_M of the configuration in runs without it."""
    tiled = cells.loc[(cells["op"] == Op.GEMM) & cells["pass"].isin(_TILED)]
    found: dict[tuple[Place, int], set[int]] = {}
    stored = tiled["tile_M"] if "tile_M" in tiled else pd.Series(math.nan, index=tiled.index)
    for row, size, config in zip(
        tiled[[*PLACE, "M"]].itertuples(index=False, name=None), stored, tiled["config"], strict=True
    ):
        rows = _block(config) if pd.isna(size) else int(size)
        if rows > 1:
            found.setdefault((row[:-1], int(row[-1])), set()).add(rows)
    return found


def _block(config: str) -> int:
    value = json.loads(config).get("BLOCK_M", 0) if config else 0
    return value if isinstance(value, int) else 0


def is_added(cells: pd.DataFrame, refinements: Iterable[StoredRefinement]) -> "pd.Series[bool]":
    """Per row of `cells`, True where its M was added by a refinement: it was not swept over all shapes."""
    added = {
        (*(row[name] for name in PLACE), row["M"], provider)
        for part in refinements
        for row in part.added
        for provider in row["providers"]
    }
    if not added:
        return pd.Series(False, index=cells.index)
    rows = cells[[*PLACE, "M", "provider"]].itertuples(index=False, name=None)
    return pd.Series([row in added for row in rows], index=cells.index)


def refined_pair(refinements: Iterable[StoredRefinement]) -> tuple[str, str] | None:
    """Return the challenger and the incumbent whose crossover was refined; None without one pair, known by name."""
    pairs = {part.pair for part in refinements}
    return pairs.pop() if len(pairs) == 1 else None


def swept(cells: pd.DataFrame) -> pd.DataFrame:
    """Exclude what a refinement added, which exists for single shapes: no column of a table over all, no mean."""
    return cells.loc[~cells["refined"]] if cells["refined"].any() else cells
