"""The plan of a scan: every cell once for each variant of its shape."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ..shapes.errors import UsageError
from ..shapes.scan import Scan
from .plan import Cell


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
                    raise UsageError(f"--scan {scan.text!r}: shape {variant.label}: {error}") from None
                found[replace(cell, shape=variant, problem=problem)] = cell
    return found


def described(scan: Scan, varied: Mapping[Cell, Cell]) -> dict[str, Any]:
    """Return what run.json keeps of a scan: axis, what the user wrote, all sizes, and the shapes that it is of."""
    bases = dict.fromkeys(cell.shape for cell in varied.values())
    return {
        "axis": scan.axis,
        "text": scan.text,
        "sizes": sorted({int(getattr(cell.problem, scan.axis)) for cell in varied}),
        "of": [{"model": one.model, "layer": one.layer, "N": one.N, "K": one.K} for one in bases],
    }
