"""Cells that follow from others: the same shapes at further M, and the variants of each shape in a scan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ...shapes.errors import UsageError, quote
from ...shapes.run_folder.manifest import StoredScan
from ...shapes.scan import Scan
from .plan import MODEL_FIELDS, Cell


def scanned(cells: Sequence[Cell], scan: Scan) -> dict[Cell, Cell]:
    """Map each cell of the scan to the one that it varies, in the order of the plan: a shape's variants by rising size.

    Raises UsageError for a size that the scheme cannot store.
    """
    found: dict[Cell, Cell] = {}
    for shape, group in groupby(cells, key=lambda cell: cell.shape):
        members = list(group)
        for variant in scan.variants(shape, members[0].problem.op):
            for cell in members:
                try:
                    problem = replace(cell.problem, N=variant.N, K=variant.K)
                    cell.scheme.check(problem)
                except UsageError as error:
                    raise UsageError(f"--scan {quote(scan.text)}: shape {variant.label}: {error}") from None
                found[replace(cell, shape=variant, problem=problem)] = cell
    return found


def described(scan: Scan, varied: Mapping[Cell, Cell]) -> StoredScan:
    """Return what run.json keeps of a scan."""
    bases = dict.fromkeys(cell.shape for cell in varied.values())
    return StoredScan(
        axis=scan.axis,
        text=scan.text,
        sizes=sorted({int(getattr(cell.problem, scan.axis)) for cell in varied}),
        of=[{"model": one.model, "layer": one.layer, "N": one.N, "K": one.K} for one in bases],
    )


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
