"""The sizes of a problem as columns of a flat table, what M counts in it, and over how many rounds."""

from collections.abc import Iterable

import pandas as pd

from ....shapes.problem import Op, Pass
from ... import formatting as fmt
from ...model import Cells, Column
from ...view import Row, ShapeKey

_MANY = ("B", "E", "top_k")
"""Sizes that most problems do not have; they are 1 then."""


def size_names(rows: Iterable[Row]) -> list[str]:
    """Return the sizes that tell the problems of `rows` apart: no batch, experts or N that none has."""
    listed = list(rows)
    only_quantizes = all(row["op"] == Op.QUANTIZE for row in listed)
    return [
        name
        for name in (*_MANY, "M", "N", "K")
        if not (name in _MANY and all(row[name] == 1 for row in listed)) and not (name == "N" and only_quantizes)
    ]


def size_cells(row: Row, names: Iterable[str]) -> Cells:
    """Return the sizes of one row."""
    return {Column(name): int(row[name]) for name in names}


def label_and_size(shape: ShapeKey) -> Cells:
    """Head a row with model and layer in one, and sizes in one."""
    return {"shape": shape.label, Column("N×K"): shape.size}


def shape_names(shapes: Iterable[ShapeKey]) -> list[str]:
    """Return the sizes besides M that a grid of `shapes` has a column for: K, then N, as a layer is read."""
    listed = list(shapes)
    only_quantizes = all(shape.op == Op.QUANTIZE for shape in listed)
    many = [name for name in ("B", "E") if any(getattr(shape, name) != 1 for shape in listed)]
    return [*many, "K"] if only_quantizes else [*many, "K", "N"]


def counting(rows: Iterable[Row]) -> str:
    """Say what M counts and which FLOPs are counted, in one sentence per operation and pass of `rows`."""
    said = dict.fromkeys((str(row["op"]), str(row["pass"]), int(row["B"]) > 1) for row in rows)
    return " ".join(dict.fromkeys(_counting(Op(op), Pass(pass_), batched) for op, pass_, batched in said))


def _counting(op: Op, pass_: Pass, batched: bool) -> str:
    factor = 2 * pass_.products
    if op is Op.QUANTIZE:
        return "M counts rows; a quantization has no FLOPs that count."
    if op is Op.GROUPED_GEMM:
        return f"M counts the rows of all E groups together: the FLOPs are {factor} M N K, not times E."
    if op is Op.MOE_GEMM:
        return f"M counts tokens, and each goes to top_k experts: the FLOPs are {factor} M top_k N K."
    if batched:
        return f"M counts the rows of one batch entry: the FLOPs are {factor} B M N K."
    return f"M counts rows of the activations: the FLOPs are {factor} M N K."


def averaged(cells: pd.DataFrame, number: str = "time_s") -> str:
    """Say what `number` is made of: geometric mean over 3 rounds, over 3 to 5 rounds.

    For all cells of a report, so that the tables of a chapter share a definition.
    """
    counts = sorted({int(count) for count in cells.loc[cells[number].notna(), "rounds"].unique()} - {0})
    most = fmt.plural(counts[-1], "round") if counts else "no round"
    return f"geometric mean over {f'{counts[0]} to ' if len(counts) > 1 else ''}{most}"
