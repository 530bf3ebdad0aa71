"""Changes of level: between which commits, of which cells, and the command that decides."""

from collections.abc import Sequence

from ....analysis.statistics.change_points import LEAST_RUNS
from ....reports import formatting as fmt
from ....reports.model import Block, CodeBlock, Column, Section, Table, TableCell, Text, text_columns
from ....shapes.run_folder.manifest import SHORT
from ..history import Gap, Proposal
from ..terms import between, run_name
from .subject import Trend

OPEN = 3
"""Places of changes that stand open, the newest; others are folded."""

NONE = (
    f"No change of level is proposed. A proposal takes a series of {LEAST_RUNS} runs or more, two on each side of the "
    "change: what only the latest run shows is none yet."
)

PROPOSED = (
    "A proposal is where stored runs look different before and after. The command under it measures both commits in "
    "turn, where they are known, and decides; without commits it compares the stored runs, of which only large changes "
    "can be verified."
)


def changes(trend: Trend, title: str) -> Section:
    """Describe every place at which levels change, the newest first."""
    places = tuple(_place(trend, gap, number >= OPEN) for number, gap in enumerate(trend.gaps))
    lead = Text(PROPOSED) if places else Text(NONE)
    return Section(f"{trend.anchor}-changes", title, (lead,), places)


def what_changed(proposals: Sequence[Proposal]) -> str:
    """Count the cells, and name the largest change: "2 cells slower, largest +8.05% [+7.9%, +8.2%]"."""
    slower = sum(one.change > 0 for one in proposals)
    counts = {"slower": slower, "faster": len(proposals) - slower}
    counted = ", ".join(f"{fmt.plural(count, 'cell')} {word}" for word, count in counts.items() if count)
    largest = max(proposals, key=lambda one: abs(one.change))
    low, high = 1 + largest.low, 1 + largest.high
    return f"{counted}, largest {fmt.change(1 + largest.change, low, high)} {fmt.change_interval(low, high)}"


def _place(trend: Trend, gap: Gap, folded: bool) -> Section:
    runs = trend.history.runs
    before, after = runs[gap.before], runs[gap.after]
    name = f"{trend.anchor}-change-{gap.before}-{gap.after}"
    blocks: list[Block] = [Text(f"Between the runs {run_name(before)} and {run_name(after)}.")]
    if (gap.earliest, gap.latest) != (gap.before, gap.after):
        first, last = run_name(runs[gap.earliest]), run_name(runs[gap.latest])
        blocks.append(Text(f"With 95 % confidence, all of it lies between {first} and {last}."))
    if after.code.subject:
        blocks.append(Text(f"Commit {after.code.commit[:SHORT]}: “{after.code.subject}”"))
    blocks += [Text(f"{gap.remark[0].upper()}{gap.remark[1:]}.")] if gap.remark else []
    blocks += [_cells(trend, gap, name), CodeBlock(trend.decide(trend.history, gap))]
    title = f"{after.created_at[:10]}, {between(before, after)}: {what_changed(gap.proposals)}"
    return Section(name, title, tuple(blocks), folded=folded)


def _cells(trend: Trend, gap: Gap, name: str) -> Table:
    columns = (
        *text_columns("cell"),
        Column("change", "% of time"),
        *text_columns("95 % interval"),
        Column("as measured", "%"),
        *text_columns("remark"),
    )
    rows: tuple[tuple[TableCell, ...], ...] = tuple(
        (
            TableCell(trend.cell_label(trend.history.series.loc[one.series].to_dict())),
            TableCell(fmt.signed_percent(one.change, one.low, one.high), one.change),
            TableCell(fmt.change_interval(1 + one.low, 1 + one.high)),
            TableCell(fmt.signed_percent(one.raw_change), one.raw_change),
            TableCell("; ".join(one.remarks)),
        )
        for one in sorted(gap.proposals, key=lambda one: -abs(one.change))
    )
    if not any(row[-1].text for row in rows):
        columns, rows = columns[:-1], tuple(row[:-1] for row in rows)
    reading = "Above 0: slower. “As measured” is the change without the canary of the run."
    return Table(f"{name}-cells", "Cells that change here", columns, rows, reading=reading)
