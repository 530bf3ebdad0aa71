"""How the changes are distributed: quantiles, and cases beyond lines against what chance gives."""

from ....analysis.comparison.breakdown import COUNTED, ChangeDistribution, Count
from ....analysis.comparison.effects import Order
from ....analysis.comparison.parts import Part, parts
from ....analysis.comparison.result import Result
from ... import formatting as fmt
from ...model import Column, Section, Table, TableCell, integer, number_columns, text_columns
from .words import SIGN, group_cells, group_columns, pass_cell, share_text

LEAST = 4
"""Cases of a distribution."""


def spread(result: Result) -> Section | None:
    """Build the chapter; None where no part has the cases that quartiles take."""
    found = [part for part in parts(result) if len(part.cases) >= LEAST]
    if not found:
        return None
    return Section("compared-spread", "Distribution over the cases", (_quantiles(result, found), _lines(result, found)))


def _quantiles(result: Result, found: list[Part]) -> Table:
    columns = (
        *group_columns(result),
        *text_columns("pass"),
        *number_columns("cases", "median", "mean", "p25", "p75", "min", "max"),
    )
    rows = tuple(
        (*group_cells(result, part), pass_cell(part), *_row(spread, part))
        for part in found
        if (spread := part.distribution()) is not None
    )
    return Table(
        "compared-distribution",
        "Distribution of the changes",
        columns,
        rows,
        how_to_read=f"Over the cases that both versions pass, each one vote. {SIGN} mean: arithmetic mean of the "
        "percentages, which is neither the geometric mean above nor a ratio of sums.",
        stub=len(columns) - 7,
    )


def _row(spread: ChangeDistribution, part: Part) -> tuple[TableCell, ...]:
    values = (spread.median, spread.mean, spread.p25, spread.p75, spread.least, spread.most)
    cells = (TableCell(share_text(one, part.cases), one) for one in values)
    return (integer(spread.cases), *cells)


def _lines(result: Result, found: list[Part]) -> Table:
    order = sorted(COUNTED, key=lambda line: line[0] * line[1])
    imported = result.order is Order.IMPORTED
    columns = (
        *group_columns(result),
        *(*text_columns("pass"), Column("cases")),
        *(Column(f"≥ +{step * 100:g}%" if side > 0 else f"≤ {fmt.MINUS}{step * 100:g}%") for side, step in order),
    )
    rows = []
    for part in found:
        if counted := part.distribution():
            by_step = {count.step: count for count in counted.counts}
            cells = (_counted(by_step[side * step], imported) for side, step in order)
            rows.append((*group_cells(result, part), pass_cell(part), integer(counted.cases), *cells))
    how = (
        "How many cases have so large a change of time, by the printed times."
        if imported
        else "How many cases have so large a change of time: seen / verified / by chance. seen: by point estimates; "
        "verified: of those, called slower (faster) as well; by chance: as many would be seen if nothing had changed."
    )
    return Table("compared-lines", "Cases beyond a line", columns, tuple(rows), how_to_read=how, stub=len(columns) - 5)


def _counted(count: Count, imported: bool) -> TableCell:
    if imported:
        return integer(count.seen)
    chance = "unknown" if count.expected is None else f"{count.expected:.1f}"
    return TableCell(f"{count.seen} / {count.verified} / {chance}", count.seen)
