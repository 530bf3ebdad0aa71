"""Cells that were not in the plan of a sweep: the same shapes, storage and caches at further M."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..shapes.errors import UsageError
from .plan import MODEL_FIELDS, Cell

PLACE = tuple(name for name in MODEL_FIELDS if name not in ("suite", "provider", "M"))
"""What of a cell's fields says where it stands, besides M."""


class Surroundings:
    """What can be added to the plan `cells`.

    A row names what is wanted: the values of `PLACE` by name, `M`, and names of `providers`. Nothing can be added where
    the plan has nothing like it (it is of another filter, say), where it has the very cell, and at an M that the scheme
    cannot store.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._known = set(cells)
        self._alike: dict[tuple[Any, ...], dict[str, Cell]] = {}
        self._order: dict[tuple[Any, ...], int] = {}
        for number, cell in enumerate(cells):
            fields = cell.fields
            self._alike.setdefault(tuple(fields[name] for name in PLACE), {}).setdefault(cell.provider, cell)
            self._order.setdefault(_weight(cell), number)

    def cells_of(self, row: Mapping[str, Any]) -> tuple[Cell, ...]:
        """Return the cells of one row, one per provider."""
        like = self._alike.get(tuple(row[name] for name in PLACE), {})
        found = []
        for name in row["providers"]:
            if name not in like:
                continue
            try:
                problem = replace(like[name].problem, M=int(row["M"]))
                like[name].scheme.check(problem)
            except UsageError:
                continue
            if (cell := replace(like[name], problem=problem)) not in self._known:
                found.append(cell)
        return tuple(found)

    def cells(self, rows: Iterable[Mapping[str, Any]]) -> tuple[Cell, ...]:
        """Return the cells of all rows: problems of one weight are neighbours, and so are cells of one problem."""
        found = dict.fromkeys(cell for row in rows for cell in self.cells_of(row))
        return tuple(sorted(found, key=lambda cell: (self._order[_weight(cell)], cell.problem.M)))


def _weight(cell: Cell) -> tuple[Any, ...]:
    return cell.shape, cell.scheme, cell.problem.pass_
