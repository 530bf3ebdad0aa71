"""Chunks: the parts of a suite that a comparison hands out, each with both arms in all rounds for one device. Pure."""

import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

from ...shapes.run_folder.manifest import Manifest
from ..compare.replay import COORDINATES, Row
from ..plan.plan import MODEL_FIELDS, Cell
from .jobs import PROBLEM, Coordinates, Listener, Told

PER_DEVICE = 2
"""Chunks per device: more would hold up the end less, but every round of every chunk starts a process."""

_OF_A_PROBLEM = [at for at, name in enumerate(COORDINATES) if name not in ("provider", "cache")]
_OF_A_WEIGHT = [at for at, name in enumerate(COORDINATES) if name not in ("provider", "cache", "pass", "M")]
_SIZES = [COORDINATES.index(name) for name in ("M", "N", "K")]


@dataclass(frozen=True)
class Chunk:
    """Whole problems for one device: a job of a comparison.

    `rows` are cells as `replay.keep_only` reads them. A unit is a round of an arm.
    """

    rows: tuple[Row, ...]
    suite: str
    rounds: int
    arms: int

    @cached_property
    def key(self) -> str:
        """See `AnyJob`: the first problem, and a hash of all cells."""
        digest = hashlib.sha256(json.dumps([self.suite, self.rows]).encode()).hexdigest()[:12]
        return f"chunk-{'-'.join(f'{name}{size}' for name, size in self._first)}-{digest}"

    def __str__(self) -> str:
        more = len(self._problems) - 1
        return " ".join(f"{name}={size}" for name, size in self._first) + (f" and {more} more" if more else "")

    @property
    def weight(self) -> Hashable:
        """See `AnyJob`: that of its first problem."""
        return tuple(self.rows[0][at] for at in _OF_A_WEIGHT)

    @property
    def kind(self) -> Hashable:
        """See `AnyJob`: by far the most of its time goes by the number of cells."""
        return len(self.rows)

    @property
    def units(self) -> int:
        """See `AnyJob`."""
        return self.rounds * self.arms

    def planned(self, manifest: Manifest | None) -> int:
        """See `AnyJob`. How many providers an arm has is known once a shard says it; until then one is counted."""
        if manifest is None:
            return len(self.rows) * self.rounds
        return (manifest.planned_units or 0) // (manifest.rounds or 1) * self.rounds

    def holds(self, place: Coordinates) -> bool:
        """See `AnyJob`."""
        return tuple(place[at] for at in PROBLEM) in self._problems

    def missing(self, stored: Told) -> int:
        """See `AnyJob`: counted from the round that an arm has not finished, so that all arms say the same."""
        return max(0, self.rounds - (stored.manifest.of_station.rounds or 0)) * self.arms

    def tell(self, stored: Told, listener: Listener) -> None:
        """See `AnyJob`."""
        listener.home(stored.manifest.of_station.steps or 0)

    @property
    def _first(self) -> list[tuple[str, object]]:
        return [(COORDINATES[at], self.rows[0][at]) for at in _SIZES]

    @cached_property
    def _problems(self) -> frozenset[Coordinates]:
        """Texts as they stand in stored rows."""
        texts = [dict(zip(COORDINATES, row, strict=True)) | {"suite": self.suite} for row in self.rows]
        names = [MODEL_FIELDS[at] for at in PROBLEM]
        return frozenset(tuple("" if row[name] is None else str(row[name]) for name in names) for row in texts)


def rows_of(cells: Iterable[Cell]) -> tuple[Row, ...]:
    """Return what `cells` are of, each once, whatever the provider: an arm may have others than this plan."""
    places = ({**cell.fields, "provider": None} for cell in cells)
    return tuple(dict.fromkeys(tuple(place[name] for name in COORDINATES) for place in places))


def problems(rows: Iterable[Row]) -> int:
    """Count the problems of rows."""
    return len({_of(row, _OF_A_PROBLEM) for row in rows})


def chunks_of(rows: Sequence[Row], count: int, suite: str, rounds: int, arms: int) -> tuple[Chunk, ...]:
    """Divide rows into `count` chunks of whole problems, or fewer: by nothing but rows and count.

    Neighbours stay together, and a cut moves to where the weight changes if that is near. No chunk is empty.
    """
    members: dict[Row, list[Row]] = {}
    for row in rows:
        members.setdefault(_of(row, _OF_A_PROBLEM), []).append(row)
    groups = list(members.values())
    count = min(count, len(groups))
    starts = [0]
    for _, group in groupby(groups, key=lambda group: _of(group[0], _OF_A_WEIGHT)):
        starts.append(starts[-1] + len(list(group)))
    cuts = {_cut(len(groups), number, count, starts) for number in range(count + 1)}
    parts = (groups[begin:end] for begin, end in pairwise(sorted(cuts)))
    return tuple(Chunk(tuple(row for group in part for row in group), suite, rounds, arms) for part in parts)


def _cut(total: int, number: int, count: int, starts: Sequence[int]) -> int:
    """Place of a cut: an equal part, or the change of weight within a quarter of a chunk of it."""
    even = total * number // count
    nearest = min(starts, key=lambda start: abs(start - even))
    return nearest if abs(nearest - even) * 4 * count <= total else even


def _of(row: Row, at: Iterable[int]) -> Row:
    return tuple(row[one] for one in at)
