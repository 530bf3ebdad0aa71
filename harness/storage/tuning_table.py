"""Searches in tuning.csv: all rows of one are appended together, and count when they are all there."""

from typing import Any

from ...shapes.errors import UsageError
from ...shapes.files.csv_file import csv_text
from ...shapes.run_folder.columns import TUNING
from ..plan.plan import Cell
from ..worker.messages import Ready
from .store import RunStore
from .tables import replace, reported

SearchUnit = tuple[str, int]
"""(cell_id, search)."""


def tuning_columns(cell: Cell, ready: Ready) -> dict[str, Any]:
    """Columns of TUNING that follow from the cell and the device alone."""
    columns = {name: value for name, value in cell.fields.items() if name in TUNING.names}
    device = {"arch": ready.device.arch, "compute_units": ready.device.compute_units}
    return columns | device | {"source": ready.providers[cell.provider].source}


def recover(store: RunStore) -> set[SearchUnit]:
    """Return the searches that are stored as a whole, and cut off the rows of one that an interrupted writer left."""
    groups: dict[SearchUnit, list[dict[str, str]]] = {}
    path = store.folder / TUNING.file
    for line, row in enumerate(store.rows(TUNING), start=2):
        if not all(row[name].isdecimal() for name in ("search", "candidates")):
            raise UsageError(f"{path} line {line}: not a row of {path.name}; repair it or delete the line")
        groups.setdefault((row["cell_id"], int(row["search"])), []).append(row)
    whole = {unit for unit, rows in groups.items() if len(rows) == int(rows[0]["candidates"])}
    if len(whole) < len(groups):
        kept = ([row[name] for name in TUNING.names] for unit in groups if unit in whole for row in groups[unit])
        with reported(store.folder):
            replace(path, csv_text(TUNING.names, kept))
    return whole
