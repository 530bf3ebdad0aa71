"""What a 2x2 replay of configurations needs: tables that pin each version's choices, and the cells to run again."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...shapes.device import Device
from ...shapes.files.csv_file import csv_text
from ...shapes.run_folder.columns import TUNING
from ..plan.plan import MODEL_FIELDS, Cell
from ..storage.tables import fields, replace

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


def keep_only(cells: tuple[Cell, ...], rows: Iterable[Sequence[Any]]) -> tuple[Cell, ...]:
    """Return the cells that `rows` name, by their `COORDINATES`."""
    wanted = set(map(tuple, rows))

    def is_named(cell: Cell) -> bool:
        place = cell.fields
        return any(tuple(one[name] for name in COORDINATES) in wanted for one in (place, {**place, "provider": None}))

    return tuple(cell for cell in cells if is_named(cell))
