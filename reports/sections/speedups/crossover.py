"""Crossover M: per shape what is verified about it, the median over shapes, and the threshold that costs least."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from ....analysis.crossover.across_shapes import MedianCrossover, Threshold
from ....analysis.crossover.curve import MEANINGS, CrossoverStatus
from ... import formatting as fmt
from ...cells import median_text, position_cell, wins_text
from ...model import Block, Cells, Column, HowToRead, Section, Table, TableCell, Text, Tone, table
from ...view import Row, Slice, View, anchors, shape_of, sliced
from .sizes import label_and_size

BETWEEN = (
    "Nothing between the measured M is known, and a kernel can be slow at a single size there: rooflens run measures "
    "further M around the crossover with --refine crossover, and any others with -a M=32,33,48."
)

HOW = (
    "At a measured M, one of the two is verified faster if the 95% interval of the ratio excludes 1 and the difference "
    "exceeds 1%. The crossover lies between the last M at which one is, and the first at which the other is. Estimates "
    f"assume a smooth curve. {BETWEEN}"
)

FURTHER = "Further M: sizes that a refinement added between those of the sweep to narrow the interval."


def crossover(view: View) -> Section | None:
    """Build the medians of all pairs, then one table per slice and challenger."""
    told = [median for median in view.analysis.medians if median.is_informative]
    if not told:
        return Section("crossover", "Crossover M", (Text(_nothing(view)),))
    blocks: list[Block] = [HowToRead((HOW,)), _median_table(view, told)]
    if rules := [(median, median.threshold) for median in told if median.threshold is not None]:
        blocks.append(_threshold_table(view, rules))
    return sliced("crossover", "Crossover M", view.slices, partial(_slice, view), blocks)


def _nothing(view: View) -> str:
    """Say in one sentence why there is no crossover in the whole run."""
    if not view.challengers:
        return "No challenger is named in this run, so there is no crossover to look for."
    if view.uncompared:
        return f"No crossover: {view.uncompared}."
    return f"No crossover: every shape was measured at one M, and a crossover needs two: {view.way_out(one_M=True)}."


def _slice(view: View, part: Slice) -> Iterator[Block]:
    for challenger, table_id in anchors(f"crossover-{part.id}", view.challengers):
        rows = view.rows(view.analysis.crossovers, part, challenger=challenger)
        if not rows:
            continue
        statuses = [CrossoverStatus(row["status"]) for row in rows]
        if not any(status.is_informative for status in statuses):
            yield Text(f"{challenger}: {'; '.join(dict.fromkeys(MEANINGS[status] for status in statuses))}.")
            continue
        refined = any(row["refined"] for row in rows)
        yield table(
            table_id,
            f"{challenger} against {rows[0]['incumbent']}",
            (_shape_row(row, challenger, refined) for row in rows),
            f"At which measured M {challenger} is verified faster, and where that changes. {_counted(rows)}",
            how_to_read=FURTHER if refined else "",
            detail=part.is_later,
        )


def _counted(rows: Sequence[Row]) -> str:
    missing = sum(int(row["missing"]) for row in rows)
    left_out = f"; {fmt.plural(missing, 'cell')} without a ratio excluded" if missing else ""
    return f"{fmt.plural(len(rows), 'shape')}{left_out}."


def _defined(statuses: Iterable[CrossoverStatus]) -> str:
    """Define the statuses that occur, in their usual order."""
    used = set(statuses)
    return "; ".join(f"{status}: {meaning}" for status, meaning in MEANINGS.items() if status in used) + "."


def _shape_row(row: Row, challenger: str, refined: bool) -> Cells:
    return {
        **label_and_size(shape_of(row)),
        Column("estimate"): position_cell(row),
        Column("between"): fmt.m_interval(row["low_M"], row["high_M"]),
        "status": row["status"],
        f"{challenger} wins at": wins_text(row),
        "undecided at": ", ".join(map(str, row["undecided"])),
        **({Column("further M"): int(row["refined"])} if refined else {}),
    }


def _median_table(view: View, medians: Sequence[MedianCrossover]) -> Table:
    used = [status for status in CrossoverStatus if any(status in median.statuses for median in medians)]
    reading = (
        f"The median over shapes of the crossover with {medians[0].incumbent}, and how many shapes have which status."
    )
    how = (
        "The 95% interval ends at measured M, so it holds whatever the curves do between them. Quartiles: "
        "between which the middle half of the shapes cross. Censored: cross beyond the last M or before the first, if "
        f"at all. {_defined(used)} Shapes ahead and behind count in the median; those that cross to the other side, "
        "several times, or are undecided do not. A median is not a dispatch rule: see the constant threshold."
    )
    arch = view.run.device.arch
    title = f"Median crossover over shapes{f', {arch}' if arch else ''}"
    rows = (_median_row(view, median, used) for median in medians)
    return table("median-crossover", title, rows, reading, stub=2, how_to_read=how)


def _median_row(view: View, median: MedianCrossover, used: Sequence[CrossoverStatus]) -> Cells:
    censored, count = sum(place in (0.0, math.inf) for place in median.places), len(median.places)
    note = "; ".join(median.warnings)
    return {
        "challenger": median.challenger,
        "operands": view.slice_of(median.setting).title,
        "faster": median.side or "",
        Column("median M"): TableCell(median_text(median), median.median_M, note=note, tone=Tone.BEST),
        Column("between"): fmt.m_interval(*median.between or (None, None)),
        Column("95% interval"): median.interval_text,
        Column("quartiles"): _quartiles(median),
        Column("shapes"): count,
        Column("censored"): TableCell(fmt.count(censored, count), censored),
        **{Column(status): median.statuses.get(status.value, 0) for status in used},
    }


def _quartiles(median: MedianCrossover) -> str:
    """Write the lower and the upper quartile, each the crossover of a shape; "" for fewer than four."""
    places = median.places
    if len(places) < 4:
        return ""
    low, high = (places[math.ceil(share * len(places)) - 1] for share in (0.25, 0.75))
    return f"[{median.as_text(low)}, {median.as_text(high)}]"


def _threshold_table(view: View, rules: Sequence[tuple[MedianCrossover, Threshold]]) -> Table:
    rows = (_threshold_row(view, median, rule) for median, rule in rules)
    reading = "The one threshold for all shapes with the least mean loss (geometric)."
    how = (
        "Loss: time of the provider that the "
        "rule takes over the faster one of the two, minus 1, over the measured cells; in the mean, each weighs as much "
        "as the stretch of log2 M that it stands for."
    )
    return table("threshold", "Best constant threshold", rows, reading, stub=2, how_to_read=how)


def use_of(rule: Threshold) -> str:
    """Say at which M a rule takes the challenger."""
    if rule.side is CrossoverStatus.BEHIND:
        return "no M"
    below = rule.side is CrossoverStatus.BELOW
    return fmt.m_range(None if below else rule.M, rule.M if below else None)


def _threshold_row(view: View, median: MedianCrossover, rule: Threshold) -> Cells:
    mean, worst = math.expm1(rule.mean_regret), math.expm1(rule.worst_regret)
    return {
        "challenger": median.challenger,
        "operands": view.slice_of(median.setting).title,
        "use it for": TableCell(use_of(rule), rule.M),
        Column("mean loss", unit="%"): TableCell(fmt.signed_percent(mean), mean),
        Column("worst loss", unit="%"): TableCell(fmt.signed_percent(worst), worst),
        "worst at": f"{fmt.shape(rule.worst_shape)}, M={rule.worst_M}" if rule.worst_shape else "nowhere",
        Column("cells"): rule.cells,
    }
