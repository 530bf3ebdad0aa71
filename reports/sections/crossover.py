"""Crossover M: per shape with what is verified about it, the median over shapes, and the threshold that costs least."""

import math

from ...analysis.crossover import Status
from ...analysis.median_crossover import MedianCrossover, Threshold
from .. import formatting as fmt
from ..model import Align, Cell, Column, Section, Table, Text, Tone
from ..view import Row, Slice, View, anchors, chapter, shape_of

WORDS = {
    Status.SINGLE: "single",
    Status.MULTIPLE: "multiple",
    Status.ALWAYS: "always faster",
    Status.NEVER: "never faster",
    Status.RIGHT_CENSORED: "right-censored",
    Status.PARITY: "parity",
    Status.UNMEASURED: "not measured",
}

HOW = (
    "The crossover is the M at which the challenger stops being faster than {baseline}: the zero of a monotone fit "
    "of the log ratio, interpolated on log2 M. The interval runs from the last M at which the challenger is verified "
    "faster to the first M beyond it at which {baseline} is; verified means that the 95% interval excludes 1 and the "
    "difference exceeds 1%."
)


def crossover(view: View) -> Section:
    """Build the medians of all pairs, then one table per slice and challenger."""
    if not view.medians:
        text = (
            f"No crossover: neither of {', '.join(view.challengers) or 'the challengers'} was measured beside "
            f"{view.baseline}."
            if view.challengers
            else "No challenger is named in this run, so there is no crossover to look for."
        )
        return Section("crossover", "Crossover M", (Text(text),))
    blocks = (
        Text(HOW.format(baseline=view.baseline)),
        _median_table(view.medians),
        _threshold_table(view.medians),
    )
    parts = tuple(_slice(view, part, number) for number, part in enumerate(view.slices))
    return chapter("crossover", "Crossover M", blocks, parts)


def position_cell(row: Row) -> Cell:
    """Show where the crossover of one shape lies."""
    status = Status(row["status"])
    note = "; ".join(row["warnings"])
    if status.is_beyond:
        return Cell(fmt.beyond(row["M_max"]), math.inf, note=note)
    if status is Status.NEVER:
        return Cell(fmt.before(row["M_min"]), 0.0, note=note)
    if fmt.known(row["crossover_M"]):
        return Cell(fmt.crossover(row["crossover_M"]), float(row["crossover_M"]), note=note)
    return Cell("none", note=note)


def _slice(view: View, part: Slice, number: int) -> Section:
    tables = []
    for challenger, table_id in anchors(f"crossover-{part.id}", view.challengers):
        rows = view.rows(view.crossovers, part, challenger=challenger)
        if not rows:
            continue
        columns = (
            Column("shape", align=Align.LEFT),
            Column("N×K"),
            Column("crossover"),
            Column("interval"),
            Column("status", align=Align.LEFT),
            Column("verified", align=Align.LEFT),
        )
        tables.append(
            Table(
                table_id,
                f"{challenger} against {rows[0]['incumbent']}",
                columns,
                tuple(_shape_row(row) for row in rows),
                reading=f"{challenger} is faster below the crossover, unless the status says above.",
                detail=number > 0,
            )
        )
    return Section(f"crossover-{part.id}", part.title, tuple(tables), folded=number > 0)


def _shape_row(row: Row) -> tuple[Cell, ...]:
    shape = shape_of(row)
    side = " (faster above)" if row["challenger_wins"] == "above" else ""
    return (
        Cell(shape.label),
        Cell(shape.size),
        position_cell(row),
        Cell(fmt.m_interval(row["low_M"], row["high_M"])),
        Cell(WORDS[Status(row["status"])] + side, str(row["status"])),
        Cell("yes" if row["verified"] else "no"),
    )


def _median_table(medians: tuple[MedianCrossover, ...]) -> Table:
    columns = (
        Column("challenger", align=Align.LEFT),
        Column("operands", align=Align.LEFT),
        Column("median M"),
        Column("95% interval"),
        Column("shapes"),
        Column("once"),
        Column("several"),
        Column("beyond"),
        Column("before"),
        Column("parity"),
    )
    rows = tuple(_median_row(median) for median in medians)
    reading = (
        f"The median over shapes of the crossover with {medians[0].incumbent}. Shapes that cross once, several "
        "times, beyond the last measured M (censored) or before the first are all in it. Those at parity are apart, "
        "and so are those where the challenger wins above the crossover. A median is not a dispatch rule: see the "
        "constant threshold below."
    )
    return Table("median-crossover", "Median crossover over shapes", columns, rows, reading=reading, stub=2)


def _median_row(median: MedianCrossover) -> tuple[Cell, ...]:
    count = {status: median.statuses.get(status.value, 0) for status in Status}
    beyond = count[Status.ALWAYS] + count[Status.RIGHT_CENSORED]
    return (
        Cell(median.challenger),
        Cell(" · ".join(median.setting_words)),
        Cell(median_text(median), median.median_M, note="; ".join(median.warnings), tone=Tone.BEST),
        Cell(interval_text(median)),
        Cell(str(median.shapes), median.shapes),
        Cell(str(count[Status.SINGLE]), count[Status.SINGLE]),
        Cell(str(count[Status.MULTIPLE]), count[Status.MULTIPLE]),
        Cell(str(beyond), beyond),
        Cell(str(count[Status.NEVER]), count[Status.NEVER]),
        Cell(str(count[Status.PARITY]), count[Status.PARITY]),
    )


def median_text(median: MedianCrossover) -> str:
    """Write a median crossover: M~622, > 2048, < 1 or none."""
    size = median.median_M
    return fmt.crossover(size) if size is not None and 0 < size < math.inf else median.text


def interval_text(median: MedianCrossover) -> str:
    """Write the interval of a median crossover: [31, 63], [512, > 2048]; empty when there is none."""
    if median.low_M is None or median.high_M is None:
        return ""
    return f"[{median.as_text(median.low_M)}, {median.as_text(median.high_M)}]"


def _threshold_table(medians: tuple[MedianCrossover, ...]) -> Table:
    columns = (
        Column("challenger", align=Align.LEFT),
        Column("operands", align=Align.LEFT),
        Column("use it for", align=Align.LEFT),
        Column("mean loss", unit="%"),
        Column("worst loss", unit="%"),
        Column("worst at", align=Align.LEFT),
        Column("cells"),
    )
    rows = tuple(_threshold_row(median, median.threshold) for median in medians if median.threshold is not None)
    reading = (
        "The one threshold for all shapes with the least mean loss (geometric). Loss: time of the provider that the "
        "rule takes over the faster one of the two, minus 1, over the measured cells."
    )
    return Table("threshold", "Best constant threshold", columns, rows, reading=reading, stub=2)


def _threshold_row(median: MedianCrossover, rule: Threshold) -> tuple[Cell, ...]:
    use = "no M" if rule.M == 0 else "every M" if math.isinf(rule.M) else f"M ≤ {rule.M:g}"
    mean, worst = math.expm1(rule.mean_regret), math.expm1(rule.worst_regret)
    return (
        Cell(median.challenger),
        Cell(" · ".join(median.setting_words)),
        Cell(use, rule.M),
        Cell(fmt.signed_percent(mean), mean),
        Cell(fmt.signed_percent(worst), worst),
        Cell(f"{fmt.shape(rule.worst_shape)}, M={rule.worst_M}" if rule.worst_shape else "nowhere"),
        Cell(str(rule.cells), rule.cells),
    )
