"""What a 2x2 replay of configurations needs: tables that pin each version's choices, and the cells to run again."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from ...shapes.device import Device
from ...shapes.files.csv_file import csv_text
from ...shapes.run_folder.columns import TUNING
from ..plan.plan import MODEL_FIELDS, Cell
from ..storage.tables import fields, replace
from ..sweep.part_queue import Item

COORDINATES = tuple(name for name in MODEL_FIELDS if name != "suite")
"""What names a cell."""

Row = tuple[Any, ...]
"""Values of `COORDINATES`; a provider that is None is any."""


def write_table(path: Path, rows: Iterable[Mapping[Hashable, Any]], side: str, device: Device) -> Path:
    """Write a tuned table that pins the configuration `<side>_config` (JSON text) of each row."""
    found = []
    for number, row in enumerate(rows):
        known = {name: row[name] for name in TUNING.names if name in row}
        known |= {
            "cell_id": f"{side}-{number}", "search": 0, "candidate": 0, "arch": device.arch,
            "compute_units": device.compute_units, "config": json.loads(row[f"{side}_config"]), "verdict": "passed",
            "time_s": row[f"{side}_time_s"], "winner": True, "near_tie": False, "candidates": 1,
            "source": row[f"{side}_source"],
        }  # fmt: skip
        found.append(fields(TUNING, known))
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, csv_text(TUNING.names, found))
    return path


def coordinates(rows: Iterable[Mapping[Hashable, Any]]) -> list[Row]:
    """Return what `keep_only` needs of rows that name cells."""
    return [tuple(row[name] for name in COORDINATES) for row in rows]


_PROBLEM = [at for at, name in enumerate(COORDINATES) if name not in ("provider", "cache")]


def rows_of(cells: Iterable[Cell]) -> tuple[Row, ...]:
    """Return the distinct coordinates of `cells` for any provider: an arm may have others than this plan."""
    places = ({**cell.fields, "provider": None} for cell in cells)
    return tuple(dict.fromkeys(tuple(place[name] for name in COORDINATES) for place in places))


def problems(rows: Iterable[Row]) -> int:
    """Number of problems in rows."""
    return len({_problem(row) for row in rows})


def divided(rows: Iterable[Sequence[Any]], count: int) -> tuple[Item, ...]:
    """Divide rows into at most `count` parts of whole problems, neighbours together; none is empty.

    Each has a weight of its own: every round starts a process, which keeps no operands of another part.
    """
    members: dict[Row, list[Row]] = {}
    for row in rows:
        members.setdefault(_problem(row), []).append(tuple(row))
    groups = list(members.values())
    count = min(count, len(groups))
    cuts = pairwise(len(groups) * number // count for number in range(count + 1))
    parts = (tuple(chain.from_iterable(groups[begin:end])) for begin, end in cuts)
    return tuple(Item(number, number, _named(rows), rows) for number, rows in enumerate(parts))


def _named(rows: Sequence[Row]) -> str:
    sizes = (f"{name}={rows[0][COORDINATES.index(name)]}" for name in ("M", "N", "K"))
    more = problems(rows) - 1
    return " ".join(sizes) + (f" and {more} more" if more else "")


def _problem(row: Sequence[Any]) -> Row:
    return tuple(row[at] for at in _PROBLEM)


def is_of(stored: Mapping[str, str], rows: Sequence[Row]) -> bool:
    """Tell whether a stored row is of a problem among `rows`; none: of any."""
    return not rows or any(all(str(row[at] or "") == stored[COORDINATES[at]] for at in _PROBLEM) for row in rows)


def keep_only(cells: tuple[Cell, ...], rows: Iterable[Sequence[Any]]) -> tuple[Cell, ...]:
    """Return the cells that `rows` name, by their `COORDINATES`."""
    wanted = set(map(tuple, rows))

    def is_named(cell: Cell) -> bool:
        place = cell.fields
        return any(tuple(one[name] for name in COORDINATES) in wanted for one in (place, {**place, "provider": None}))

    return tuple(cell for cell in cells if is_named(cell))
