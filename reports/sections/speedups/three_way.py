"""A kernel beside the one that it replaces and beside a reference: times, rates, and ratios named by what they are."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ....analysis.roofline.ceilings import Ceilings
from ....shapes.problem import Op, Pass
from ... import formatting as fmt
from ...cells import is_impossible, over_peak, rate_cell, rate_text, rate_unit, ratio_cell, time_cell, time_text
from ...model import Column, Scale, Section, Table, TableCell, Text, number_columns, text_columns
from ...view import Row, Slice, View, chapter, shape_of
from .sides import Sides, ratios_over, sides
from .sizes import averaged, counting, size_cells, size_columns, size_names

OLD_NEW = f"old {fmt.DIVIDE} new"
REFERENCE_NEW = f"reference {fmt.DIVIDE} new"
"""Headers of the ratios: both are of times."""


@dataclass(frozen=True, slots=True, eq=False)
class Trio:
    """The rows of one slice: each problem with the rows of its sides, in the order of the suite.

    problems    {side: row of the cells}, sides without a time left out
    over_old, over_reference   ratio rows of `new`, by its cell_id
    limits      of the device
    """

    part: Slice
    sides: Sides
    problems: tuple[Mapping[str, Row], ...]
    over_old: Mapping[Any, Row]
    over_reference: Mapping[Any, Row]
    limits: Ceilings

    @property
    def rows(self) -> list[Row]:
        """All rows with a time."""
        return [row for problem in self.problems for row in problem.values()]

    def has(self, side: str) -> bool:
        """True where a side has a time."""
        return any(side in problem for problem in self.problems)

    def with_both(self, side: str) -> list[Mapping[str, Row]]:
        """Problems in which the new kernel and another side have a time."""
        return [problem for problem in self.problems if self.sides.new in problem and side in problem]

    def ratios_over(self, side: str) -> list[Row]:
        """Ratios of the new kernel over another side, of times that the device allows."""
        ratios = self.over_old if side == self.sides.old else self.over_reference
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
    named = sides(view)
    if named is None:
        return None
    trios = trios_of(view, named)
    parts = tuple(_slice(view, trio, number) for number, trio in enumerate(trios))
    return chapter("three-way", _title(named), (Text(_who(view, named)),), parts)


def trios_of(view: View, named: Sides) -> list[Trio]:
    """Return one per slice in which the new kernel has a time."""
    over_old = ratios_over(view, named.old) if named.old else pd.DataFrame()
    over_reference = ratios_over(view, named.reference) if named.reference else pd.DataFrame()
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
            _by_cell(view, over_old, part, named.new),
            _by_cell(view, over_reference, part, named.new),
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
    blocks: list[Table | Text] = []
    named = trio.sides
    if trio.with_both(named.old):
        blocks.append(_versus(view, trio))
    if trio.with_both(named.reference):
        blocks.append(_three(view, trio))
    elif not blocks or trio.part.pass_ != Pass.FWD:
        blocks.append(_alone(view, trio))
    blocks += [Text(text) for text in _impossible(trio)]
    if (sums := _fwd_and_bwd(view, trio)) is not None:
        blocks.append(sums)
    return Section(f"three-way-{trio.part.id}", trio.part.title, tuple(blocks), folded=number > 0)


def _heads(problems: Sequence[Mapping[str, Row]]) -> tuple[list[str], tuple[Column, ...]]:
    names = size_names(row for problem in problems for row in problem.values())
    return names, (*text_columns("shape"), *size_columns(names))


def _head(row: Row, names: Sequence[str]) -> tuple[TableCell, ...]:
    return (TableCell(shape_of(row).label), *size_cells(row, names))


def _ratio(ratios: Mapping[Any, Row], row: Row) -> TableCell:
    found = ratios.get(row["cell_id"])
    return TableCell("") if found is None else ratio_cell(found)


def _versus(view: View, trio: Trio) -> Table:
    old, new = trio.sides.old, trio.sides.new
    problems = trio.with_both(old)
    rows = [problem[name] for problem in problems for name in (old, new)]
    unit = rate_unit(rows)
    rates = any(row["op"] != Op.QUANTIZE for row in rows)
    names, heads = _heads(problems)
    columns = (
        *heads,
        *number_columns("old", "new"),
        Column(OLD_NEW, scale=Scale.DIVERGING),
        *((Column("old", unit=unit), Column("new", unit=unit)) if rates else ()),
    )
    lines = tuple(
        (
            *_head(problem[new], names),
            time_cell(problem[old]),
            time_cell(problem[new]),
            _ratio(trio.over_old, problem[new]),
            *(
                (rate_cell(problem[old], unit, trio.limits), rate_cell(problem[new], unit, trio.limits))
                if rates
                else ()
            ),
        )
        for problem in problems
    )
    reading = (
        f"Sides: old {old}, new {new}. {fmt.ratio_header(old, new)}."
        f"{_left_out(trio, len(problems), f'{old} and {new}')}"
    )
    return Table(
        f"versus-{trio.part.id}",
        view.titled(f"{old} against {new}", trio.part),
        columns,
        lines,
        reading=reading,
        key=True,
        how_to_read=_how(view, rows),
    )


def _three(view: View, trio: Trio) -> Table:
    old, new, reference = trio.sides
    problems = trio.with_both(reference)
    names, heads = _heads(problems)
    rows = [row for problem in problems for row in problem.values()]
    unit = rate_unit(rows)
    with_old = bool(old) and any(old in problem for problem in problems)
    columns = (
        *heads,
        *((Column("old"),) if with_old else ()),
        *number_columns("new", "reference"),
        *((Column(OLD_NEW, scale=Scale.DIVERGING),) if with_old else ()),
        Column(REFERENCE_NEW, scale=Scale.DIVERGING),
        Column("reference", unit=unit),
    )
    lines = tuple(
        (
            *_head(problem[new], names),
            *((time_cell(problem.get(old)),) if with_old else ()),
            time_cell(problem[new]),
            time_cell(problem[reference]),
            *((_ratio(trio.over_old, problem[new]),) if with_old else ()),
            _ratio(trio.over_reference, problem[new]),
            rate_cell(problem[reference], unit, trio.limits),
        )
        for problem in problems
    )
    who = f"{f'old {old}, ' if with_old else ''}new {new}, reference {reference}"
    both = f"{OLD_NEW} and {REFERENCE_NEW}, each" if with_old else f"{REFERENCE_NEW},"
    reading = (
        f"Sides: {who}. {both} a ratio of times, > 1: {new} is faster."
        f"{_left_out(trio, len(problems), f'{new} and {reference}')}"
    )
    title = view.titled(f"{new} beside {f'{old} and ' if with_old else ''}{reference}", trio.part)
    return Table(f"three-{trio.part.id}", title, columns, lines, reading=reading, how_to_read=_how(view, rows))


def _alone(view: View, trio: Trio) -> Table:
    new = trio.sides.new
    problems = [problem for problem in trio.problems if new in problem]
    rows = [problem[new] for problem in problems]
    names, heads = _heads(problems)
    unit = rate_unit(rows)
    columns = (*heads, Column(new), Column("rate", unit=unit))
    lines = tuple((*_head(row, names), time_cell(row), rate_cell(row, unit, trio.limits)) for row in rows)
    reading = "One side, nothing to compare it with here."
    return Table(
        f"alone-{trio.part.id}", f"{new}, end to end", columns, lines, reading=reading, how_to_read=_how(view, rows)
    )


def _fwd_and_bwd(view: View, trio: Trio) -> Table | None:
    """Sum forward and backward of the new kernel, where the whole step was not measured."""
    part, new = trio.part, trio.sides.new
    if part.pass_ != Pass.BWD:
        return None
    alike = {
        other.pass_: other
        for other in view.slices
        if (other.dtype, other.scheme, other.cache) == (part.dtype, part.scheme, part.cache)
    }
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
    names = size_names(row for _, row, _ in both)
    added = ("time_s", "time_low_s", "time_high_s", "flops")
    sums: list[Row] = [{name: fwd[name] + bwd[name] for name in added} for _, fwd, bwd in both]
    sums = [{**row, "flops_per_s": row["flops"] / row["time_s"] if row["flops"] else math.nan} for row in sums]
    unit = rate_unit(sums)
    columns = (
        *text_columns("shape"),
        *size_columns(names),
        *number_columns("forward", "backward", "sum"),
        Column("rate", unit=unit),
    )
    lines = tuple(
        (
            *_head(fwd, names),
            time_cell(fwd),
            time_cell(bwd),
            TableCell(time_text(both_passes), float(both_passes["time_s"])),
            rate_cell(both_passes, unit),
        )
        for (_, fwd, bwd), both_passes in zip(both, sums, strict=True)
    )
    reading = (
        "Sum of the two times, measured apart: nothing that runs in both is saved in it. FLOPs of all three products "
        f"(6 M N K) over that sum. {fmt.plural(len(lines), 'problem')}{left}."
    )
    return Table(f"sums-{part.id}", f"{new}, forward and backward", columns, lines, reading=reading)


def _how(view: View, rows: Sequence[Row]) -> str:
    return (
        f"Time: {averaged(view.cells)} of the round's median; ratio: geometric mean of the ratios of "
        f"the rounds, and so the ratio of the times. {counting(rows)}"
    )


def _left_out(trio: Trio, shown: int, who: str) -> str:
    missing = len(trio.problems) - shown
    n = f" {fmt.plural(shown, 'problem')}"
    return f"{n}; {missing} without a time of both {who} excluded." if missing else f"{n}, all included."


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
