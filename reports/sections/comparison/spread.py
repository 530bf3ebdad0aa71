"""How the changes are distributed: quantiles, and how many cases lie beyond a line."""

from ....analysis.comparison.breakdown import ChangeDistribution
from ....analysis.comparison.parts import Part, parts
from ....analysis.comparison.result import Result
from ... import formatting as fmt
from ...model import Cells, Column, Section, TableCell, table
from .words import SIGN, part_cells, share_text

LEAST = 4
"""Cases of a distribution."""


def spread(result: Result) -> Section | None:
    """Build the chapter; None where no part has the cases that quartiles take."""
    found = [(part, spread) for part in parts(result) if (spread := part.distribution()) and spread.cases >= LEAST]
    if not found:
        return None
    rows = [part_cells(result, part) | _row(spread, part) for part, spread in found]
    how = (
        f"Over the cases that both versions pass, each one vote. {SIGN} mean: arithmetic mean of the percentages, "
        "which is neither the geometric mean above nor a ratio of sums. Last, how many cases change by so much or "
        "more, by point estimates."
    )
    stub = len(part_cells(result, found[0][0]))
    listed = table("compared-distribution", "Distribution of the changes", rows, how_to_read=how, stub=stub)
    return Section("compared-spread", "Distribution over the cases", (listed,))


def _row(spread: ChangeDistribution, part: Part) -> Cells:
    values = {name: getattr(spread, name) for name in ("median", "mean", "p25", "p75")}
    values |= {"min": spread.least, "max": spread.most}
    shares: Cells = {Column(name): TableCell(share_text(value, part.cases), value) for name, value in values.items()}
    counts: Cells = {
        Column(_line(count.step)): count.seen for count in sorted(spread.counts, key=lambda count: count.step)
    }
    return {Column("cases"): spread.cases, **shares, **counts}


def _line(step: float) -> str:
    return f"≥ +{step * 100:g}%" if step > 0 else f"≤ {fmt.MINUS}{-step * 100:g}%"
