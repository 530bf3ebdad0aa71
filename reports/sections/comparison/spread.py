"""How the changes are distributed: quantiles, and cases beyond lines against what chance gives."""

from ....analysis.comparison.breakdown import ChangeDistribution, Count
from ....analysis.comparison.effects import Order
from ....analysis.comparison.parts import Part, parts
from ....analysis.comparison.result import Result
from ... import formatting as fmt
from ...model import Cells, Column, Section, Table, TableCell, table
from .words import SIGN, part_cells, share_text

LEAST = 4
"""Cases of a distribution."""


def spread(result: Result) -> Section | None:
    """Build the chapter; None where no part has the cases that quartiles take."""
    found = [part for part in parts(result) if len(part.cases) >= LEAST]
    if not found:
        return None
    return Section("compared-spread", "Distribution over the cases", (_quantiles(result, found), _lines(result, found)))


def _quantiles(result: Result, found: list[Part]) -> Table:
    rows = [
        part_cells(result, part) | _row(spread, part) for part in found if (spread := part.distribution()) is not None
    ]
    how = (
        f"Over the cases that both versions pass, each one vote. {SIGN} mean: arithmetic mean of the percentages, "
        "which is neither the geometric mean above nor a ratio of sums."
    )
    title = "Distribution of the changes"
    return table("compared-distribution", title, rows, how_to_read=how, stub=len(rows[0]) - 7)


def _row(spread: ChangeDistribution, part: Part) -> Cells:
    values = {name: getattr(spread, name) for name in ("median", "mean", "p25", "p75")}
    values |= {"min": spread.least, "max": spread.most}
    shares: Cells = {Column(name): TableCell(share_text(value, part.cases), value) for name, value in values.items()}
    return {Column("cases"): spread.cases, **shares}


def _lines(result: Result, found: list[Part]) -> Table:
    imported = result.order is Order.IMPORTED
    rows: list[Cells] = []
    for part in found:
        if spread := part.distribution():
            counts = sorted(spread.counts, key=lambda count: count.step)
            cells: Cells = {Column(_line(count.step)): _counted(count, imported) for count in counts}
            rows.append({**part_cells(result, part), Column("cases"): spread.cases, **cells})
    how = (
        "How many cases have so large a change of time, by the printed times."
        if imported
        else "How many cases have so large a change of time: seen / verified / by chance. seen: by point estimates; "
        "verified: of those, called slower (faster) as well; by chance: as many would be seen if nothing had changed."
    )
    return table("compared-lines", "Cases beyond a line", rows, how_to_read=how, stub=len(rows[0]) - 5)


def _line(step: float) -> str:
    return f"≥ +{step * 100:g}%" if step > 0 else f"≤ {fmt.MINUS}{-step * 100:g}%"


def _counted(count: Count, imported: bool) -> TableCell | int:
    if imported:
        return count.seen
    chance = "unknown" if count.expected is None else f"{count.expected:.1f}"
    return TableCell(f"{count.seen} / {count.verified} / {chance}", count.seen)
