"""A kernel beside the one that it replaces and beside a reference: times, rates, and ratios named by what they are."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import pandas as pd

from ....analysis.roofline.ceilings import Ceilings
from ....shapes.problem import Op, Pass
from ... import formatting as fmt
from ...cells import is_impossible, over_peak, rate_cell, rate_text, rate_unit, ratio_cell, time_cell
from ...model import Cells, Column, Scale, Section, Table, TableCell, Text, table
from ...view import Row, Slice, View, chapter, shape_of
from .sides import Sides, ratios_over, sides
from .sizes import averaged, counting, size_cells, size_names

Problem: TypeAlias = Mapping[str, Row]
"""A row of the cells by what it is of: the provider of a side, or a pass."""


@dataclass(frozen=True, slots=True, eq=False)
class Trio:
    """The rows of one slice: each problem with the rows of its sides, in the order of the suite.

    problems    {side: row of the cells}, sides without a time left out
    over        ratio rows of `new` over another side, by its cell_id
    limits      of the device
    """

    part: Slice
    sides: Sides
    problems: tuple[Problem, ...]
    over: Mapping[str, Mapping[Any, Row]]
    limits: Ceilings

    @property
    def rows(self) -> list[Row]:
        """All rows with a time."""
        return [row for problem in self.problems for row in problem.values()]

    def has(self, side: str) -> bool:
        """True where a side has a time."""
        return any(side in problem for problem in self.problems)

    def with_both(self, side: str) -> list[Problem]:
        """Problems in which the new kernel and another side have a time."""
        return [problem for problem in self.problems if self.sides.new in problem and side in problem]

    def ratios_over(self, side: str) -> list[Row]:
        """Ratios of the new kernel over another side, of times that the device allows."""
        ratios = self.over.get(side, {})
        possible = (
            problem[self.sides.new]["cell_id"]
            for problem in self.with_both(side)
            if not any(self.is_out(problem[name]) for name in (side, self.sides.new))
        )
        return [ratios[cell] for cell in possible if cell in ratios and fmt.known(ratios[cell]["ratio"])]

    def is_out(self, row: Row) -> bool:
        """True for a time that is shorter than the device allows."""
        return is_impossible(row) or bool(over_peak(row, self.limits))


def three_way(view: View) -> Section | None:
    """Build the tables of every slice; None where there are no two sides."""
    trios = trios_of(view)
    if not trios:
        return None
    named = trios[0].sides
    parts = tuple(_slice(view, trio, number) for number, trio in enumerate(trios))
    return chapter("three-way", _title(named), (Text(_who(view, named)),), parts)


def trios_of(view: View) -> list[Trio]:
    """Return one per slice in which the new kernel has a time; none where there are no two sides."""
    named = sides(view)
    if named is None:
        return []
    ratios = {name: ratios_over(view, name) for name in (named.old, named.reference) if name}
    found = []
    for part in view.slices:
        by_side = {name: view.by_cell(view.cells, part, name) for name in named.named}
        places = [(shape, m) for shape in view.shapes for m in view.Ms if (shape, m) in by_side[named.new]]
        problems = []
        for place in places:
            rows = {name: rows[place] for name, rows in by_side.items() if place in rows}
            problems.append({name: row for name, row in rows.items() if fmt.known(row["time_s"])})
        trio = Trio(
            part,
            named,
            tuple(problem for problem in problems if problem),
            {name: _by_cell(view, frame, part, named.new) for name, frame in ratios.items()},
            Ceilings.of(view.analysis.ceilings),
        )
        if trio.has(named.new):
            found.append(trio)
    return found


def _by_cell(view: View, ratios: pd.DataFrame, part: Slice, new: str) -> dict[Any, Row]:
    return {row["cell_id"]: row for row in view.rows(ratios, part, provider=new)} if len(ratios) else {}


def _title(named: Sides) -> str:
    old, reference = ("Old and new" if named.old else "New"), (" beside a reference" if named.reference else "")
    return f"{old}{reference}"


def _who(view: View, named: Sides) -> str:
    def what(name: str) -> str:
        role = view.run.role(name)
        said = [role if role != name else "", "the baseline" if name == view.baseline else ""]
        return f"{name} ({', '.join(filter(None, said))})" if any(said) else name

    texts = [f"New: {what(named.new)}."]
    if named.old:
        texts.insert(0, f"Old: {what(named.old)}.")
    if named.reference:
        texts.append(f"Reference: {what(named.reference)}, on operands that are in the activation type already.")
    return " ".join(texts)


def _slice(view: View, trio: Trio, number: int) -> Section:
    blocks: list[Table | Text] = [_beside(view, trio)]
    blocks += [Text(text) for text in _impossible(trio)]
    if (sums := _fwd_and_bwd(view, trio)) is not None:
        blocks.append(sums)
    return Section(f"three-way-{trio.part.id}", trio.part.title, tuple(blocks), folded=number > 0)


def _tabulated(
    problems: Sequence[Problem],
    unit: str,
    times: Mapping[str, str],
    ratios: Mapping[str, Callable[[Problem], TableCell]],
    rates: Mapping[str, str],
    limits: Ceilings | None,
) -> list[Cells]:
    """Rows of a table of `problems`: by their headers times of sides, ratios, and rates of sides."""
    names = size_names(row for problem in problems for row in problem.values())
    heads = [next(iter(problem.values())) for problem in problems]  # all sides are of one shape and M
    return [
        {
            "shape": shape_of(head).label,
            **size_cells(head, names),
            **{Column(header, key="time"): time_cell(problem.get(side)) for header, side in times.items()},
            **{Column(header, scale=Scale.DIVERGING): ratio(problem) for header, ratio in ratios.items()},
            **{Column(header, unit): rate_cell(problem.get(side), unit, limits) for header, side in rates.items()},
        }
        for head, problem in zip(heads, problems, strict=True)
    ]


def _ratio(ratios: Mapping[Any, Row], new: str, problem: Problem) -> TableCell:
    found = ratios.get(problem[new]["cell_id"])
    return TableCell("") if found is None else ratio_cell(found)


def _beside(view: View, trio: Trio) -> Table:
    """Times and rates of all sides, and the ratios of the new kernel over the others."""
    new = trio.sides.new
    words = zip(trio.sides._fields, trio.sides, strict=True)
    present = {word: name for word, name in words if name and trio.with_both(name)}
    problems = [problem for problem in trio.problems if new in problem]
    rows = [row for problem in problems for row in problem.values()]
    ratios = {
        f"{word} {fmt.DIVIDE} new": partial(_ratio, trio.over[name], new)
        for word, name in present.items()
        if name != new
    }
    rates = present if any(row["op"] != Op.QUANTIZE for row in rows) else {}
    lines = _tabulated(problems, rate_unit(rows), present, ratios, rates, trio.limits)
    named = ", ".join(f"{word} {name}" for word, name in present.items())
    left = len(trio.problems) - len(problems)
    lacks = {name: len(problems) - len(trio.with_both(name)) for name in present.values() if name != new}
    reading = (
        f"Sides: {named}. Ratios are of times, > 1: {new} is faster. {fmt.plural(len(problems), 'problem')}"
        f"{f'; {left} without a time of {new} excluded' if left else ''}"
        f"{''.join(f'; {count} without a ratio to {name}' for name, count in lacks.items() if count)}."
    )
    beside = " and ".join(name for name in present.values() if name != new)
    title = view.titled(f"{new} beside {beside}" if beside else new, trio.part)
    how = (
        f"Time: {averaged(view.cells)} of the round's median; ratio: geometric mean of the ratios of "
        f"the rounds, and so the ratio of the times. {counting(rows)}"
    )
    return table(f"three-{trio.part.id}", title, lines, reading, key=bool(ratios), how_to_read=how)


def _fwd_and_bwd(view: View, trio: Trio) -> Table | None:
    """Sum forward and backward of the new kernel, where the whole step was not measured."""
    part, new = trio.part, trio.sides.new
    if part.pass_ != Pass.BWD:
        return None
    alike = {other.pass_: other for other in view.slices if other.setting[1:] == part.setting[1:]}
    if Pass.STEP in alike or Pass.FWD not in alike:
        return None
    forward, backward = (view.by_cell(view.cells, alike[name], new) for name in (Pass.FWD, Pass.BWD))
    both = [(at, forward[at], row) for at, row in backward.items() if at in forward]
    both = [(at, fwd, bwd) for at, fwd, bwd in both if fmt.known(fwd["time_s"]) and fmt.known(bwd["time_s"])]
    timed = len(both)
    both = [(at, fwd, bwd) for at, fwd, bwd in both if not is_impossible(fwd) and not is_impossible(bwd)]
    if not both:
        return None
    left = f"; {timed - len(both)} excluded, faster than the device allows" if timed > len(both) else ""
    problems = [{"forward": fwd, "backward": bwd, "sum": _sum(fwd, bwd)} for _, fwd, bwd in both]
    sides_of = {name: name for name in ("forward", "backward", "sum")}
    unit = rate_unit(problem["sum"] for problem in problems)
    lines = _tabulated(problems, unit, sides_of, {}, {"rate": "sum"}, None)
    reading = (
        "Sum of the two times, measured apart: nothing that runs in both is saved in it. FLOPs of all three products "
        f"(6 M N K) over that sum. {fmt.plural(len(lines), 'problem')}{left}."
    )
    return table(f"sums-{part.id}", f"{new}, forward and backward", lines, reading)


def _sum(forward: Row, backward: Row) -> Row:
    """A row of both passes: their times and FLOPs added."""
    added = {name: forward[name] + backward[name] for name in ("time_s", "time_low_s", "time_high_s", "flops")}
    rate = added["flops"] / added["time_s"] if added["flops"] else math.nan
    return {**forward, **added, "flops_per_s": rate}


def _impossible(trio: Trio) -> list[str]:
    """Say how many times of each side cannot be, with the rates that they would mean."""
    told = []
    for name in trio.sides.named:
        mine = [problem[name] for problem in trio.problems if name in problem]
        bad = [row for row in mine if trio.is_out(row)]
        if bad:
            rates = ", ".join(filter(None, map(rate_text, bad)))
            told.append(
                f"{fmt.count(len(bad), len(mine))} times of {name} are shorter than the device allows"
                f"{f': they would be {rates}' if rates else ''}. Footnotes name the suspects; use no ratio with them."
            )
    return told
