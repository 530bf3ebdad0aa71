"""Where the problems come from: the shapes, how tensor parallelism divides them, and why these M."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ....shapes.problem import Op
from ... import formatting as fmt
from ...model import Bullets, Cells, Column, Section, table
from ...view import ShapeKey, View
from ..speedups.sizes import shape_names

_TP = re.compile(r"\b[Tt][Pp]\s?=?(\d+)\b")
_SIZE = re.compile(r"\b[BEMNK]\s?=?\d+\b")
"""Parts of a layer's name that say degree and sizes."""

_DIVIDED = ("B", "E", "N", "K")


class _Family(NamedTuple):
    """Shapes of one layer under several degrees of tensor parallelism, by rising degree."""

    name: str
    degrees: tuple[int, ...]
    shapes: tuple[ShapeKey, ...]


def legend(view: View) -> Section:
    """List the families of shapes, and say where M comes from."""
    families = families_of(view.shapes)
    with_tp = any(family.degrees for family in families)
    sizes = [name for name in _DIVIDED if name in shape_names(view.shapes)]
    lines: list[Cells] = [
        {
            "layer": family.name,
            **({Column("TP"): ", ".join(map(str, family.degrees))} if with_tp else {}),
            **{Column(name): _values(family, name) for name in sizes},
            **({"divided by TP": divided(family.shapes, family.degrees)} if with_tp else {}),
        }
        for family in families
    ]
    reading = f"{fmt.plural(len(view.shapes), 'shape')}, sizes as each device computes them." + (
        " TP: degree of tensor parallelism that the name of the layer states." if with_tp else ""
    )
    listed = table("legend-table", "Shapes", lines, reading, detail=len(lines) > 20)
    return Section("legend", "Shapes and sizes", (listed, Bullets(tuple(_why(view)))))


def families_of(shapes: Sequence[ShapeKey]) -> list[_Family]:
    """Group shapes whose names differ in their degree and sizes only; without a degree each is its own."""
    groups: dict[str, list[tuple[int, ShapeKey]]] = {}
    for shape in shapes:
        degree = _TP.search(shape.layer)
        stem = _SIZE.sub("", _TP.sub("", shape.layer)) if degree else shape.layer
        name = f"{shape.model} {' '.join(stem.split())}"
        groups.setdefault(name, []).append((int(degree[1]) if degree else 0, shape))
    found = []
    for name, members in groups.items():
        ordered = sorted(members, key=lambda member: member[0])
        degrees = tuple(degree for degree, _ in ordered if degree)
        found.append(_Family(name, degrees, tuple(shape for _, shape in ordered)))
    return found


def divided(shapes: Sequence[ShapeKey], degrees: Sequence[int]) -> str:
    """Say which sizes the degree divides, as B × TP = 128; "" for one degree, or none."""
    if len(degrees) != len(shapes) or len(set(degrees)) < 2:
        return ""
    constant = []
    for name in _DIVIDED:
        sizes = [getattr(shape, name) for shape in shapes]
        whole = {size * degree for size, degree in zip(sizes, degrees, strict=True)}
        if len(whole) == 1:
            constant.append(f"{name} {fmt.TIMES} TP = {whole.pop()}")
    return ", ".join(constant) or "not by the same factor"


def _values(family: _Family, name: str) -> int | str:
    values = [int(getattr(shape, name)) for shape in family.shapes]
    return values[0] if len(set(values)) == 1 else ", ".join(map(str, values))


def _why(view: View) -> list[str]:
    manifest = view.manifest
    asked = [axis for axis in (manifest.request or {}).get("axes") or () if axis.startswith("M=")]
    sizes = fmt.sizes(view.Ms)
    where = f"the command line asked for {asked[-1]}" if asked else f"as the suite {manifest.suite} lists them"
    items = [f"M = {sizes}: {where}. {_stands_for(view)}"]
    if manifest.description:
        items.append(f"The suite {manifest.suite}: {manifest.description}.")
    if manifest.refine:
        items.append("Further M around each crossover were added by a refinement; they are in the crossovers only.")
    return items


def _stands_for(view: View) -> str:
    """Say what an M of one and the largest M are like."""
    ops = {shape.op for shape in view.shapes}
    if ops == {Op.MOE_GEMM}:
        return "They count tokens, before each goes to its experts."
    if ops == {Op.GROUPED_GEMM}:
        return "They count the rows of all groups together."
    return "M = 1 is one token of one sequence." if 1 in view.Ms and Op.QUANTIZE not in ops else ""
