"""Crossover M: per shape with what is verified about it, the median over shapes, and the threshold that costs least."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from ....analysis.crossover.across_shapes import MedianCrossover, Threshold
from ....analysis.crossover.curve import MEANINGS, CrossoverStatus
from ... import formatting as fmt
from ...cells import interval_text, median_text, position_cell
from ...model import (
    Block,
    Column,
    HowToRead,
    Section,
    Table,
    TableCell,
    Text,
    Tone,
    integer,
    number_columns,
    text_columns,
    texts,
)
from ...view import Row, Slice, View, anchors, shape_of, sliced

HOW = (
    "The crossover is the M at which the challenger stops being faster than {baseline}: the zero of a monotone fit "
    "of the log ratio, interpolated on log2 M. The interval runs from the last M at which the challenger is verified "
    "faster to the first M beyond it at which {baseline} is; verified means that the 95% interval excludes 1 and the "
    "difference exceeds 1%."
)

FURTHER = "Further M: sizes that a refinement added between those of the sweep to narrow the interval."


def crossover(view: View) -> Section | None:
    """Build the medians of all pairs, then one table per slice and challenger."""
    told = [median for median in view.medians if median.is_informative]
    if not told:
        return Section("crossover", "Crossover M", (Text(_nothing(view)),))
    blocks: list[Block] = [HowToRead((HOW.format(baseline=view.baseline),)), _median_table(view, told)]
    if rules := [(median, median.threshold) for median in told if median.threshold is not None]:
        blocks.append(_threshold_table(view, rules))
    return sliced("crossover", "Crossover M", view.slices, partial(_slice, view), blocks)


def _nothing(view: View) -> str:
    """Say in one sentence why there is no crossover in the whole run."""
    if not view.challengers:
        return "No challenger is named in this run, so there is no crossover to look for."
    if view.uncompared:
        return f"No crossover: {view.uncompared}."
    return "No crossover: every shape was measured at one M, and a crossover needs two: sweep M with the option -a."


def _slice(view: View, part: Slice) -> Iterator[Block]:
    for challenger, table_id in anchors(f"crossover-{part.id}", view.challengers):
        rows = view.rows(view.crossovers, part, challenger=challenger)
        if not rows:
            continue
        statuses = [CrossoverStatus(row["status"]) for row in rows]
        if not any(status.is_informative for status in statuses):
            yield Text(f"{challenger}: {'; '.join(dict.fromkeys(MEANINGS[status] for status in statuses))}.")
            continue
        refined = any(row["refined"] for row in rows)
        columns = (
            *text_columns("shape"),
            *number_columns("N×K", "crossover", "interval"),
            *text_columns("status", "verified"),
            *((Column("further M"),) if refined else ()),
        )
        yield Table(
            table_id,
            f"{challenger} against {rows[0]['incumbent']}",
            columns,
            tuple(_shape_row(row, refined) for row in rows),
            reading=f"{challenger} is faster below the crossover, unless its status says above. {_counted(rows)}",
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


def _shape_row(row: Row, refined: bool) -> tuple[TableCell, ...]:
    shape = shape_of(row)
    side = " (faster above)" if row["challenger_wins"] == "above" else ""
    return (
        *texts(shape.label, shape.size),
        position_cell(row),
        TableCell(fmt.m_interval(row["low_M"], row["high_M"])),
        TableCell(f"{row['status']}{side}", str(row["status"])),
        TableCell("yes" if row["verified"] else "no"),
        *((integer(int(row["refined"])),) if refined else ()),
    )


def _median_table(view: View, medians: Sequence[MedianCrossover]) -> Table:
    used = [status for status in CrossoverStatus if any(status in median.statuses for median in medians)]
    columns = (
        *text_columns("challenger", "operands"),
        *number_columns("median M", "95% interval", "quartiles", "shapes", "censored"),
        *(Column(status) for status in used),
    )
    rows = tuple(_median_row(view, median, used) for median in medians)
    reading = (
        f"The median over shapes of the crossover with {medians[0].incumbent}, and how many shapes have which status."
    )
    how = (
        "Quartiles: between which the middle half of the shapes cross. Censored: cross beyond the last M or before the "
        f"first, if at all. {_defined(used)} Beyond the last M (always, right_censored) and before the first (never) "
        "count in the median; parity, one_m, unmeasured and shapes where the challenger wins above the crossover do "
        "not. A median is not a dispatch rule: see the constant threshold."
    )
    arch = view.run.device.arch
    title = f"Median crossover over shapes{f', {arch}' if arch else ''}"
    return Table("median-crossover", title, columns, rows, reading, stub=2, how_to_read=how)


def _median_row(view: View, median: MedianCrossover, used: Sequence[CrossoverStatus]) -> tuple[TableCell, ...]:
    counts = [median.statuses.get(status.value, 0) for status in used]
    places = _places(view.rows(view.crossovers, view.slice_of(median.setting), challenger=median.challenger))
    censored = sum(place in (0.0, math.inf) for place in places)
    return (
        *texts(median.challenger, view.slice_of(median.setting).title),
        TableCell(median_text(median), median.median_M, note="; ".join(median.warnings), tone=Tone.BEST),
        *texts(interval_text(median), _quartiles(median, places)),
        integer(median.shapes),
        TableCell(fmt.count(censored, median.shapes), censored),
        *(integer(count) for count in counts),
    )


def _places(rows: Iterable[Row]) -> list[float]:
    """Return where the shapes in a median cross, ascending: inf beyond the last M, 0 before the first."""
    places = []
    for row in rows:
        status = CrossoverStatus(row["status"])
        if row["challenger_wins"] == "above":
            continue
        if status.is_beyond or status is CrossoverStatus.NEVER:
            places.append(0.0 if status is CrossoverStatus.NEVER else math.inf)
        elif fmt.known(row["crossover_M"]):
            places.append(float(row["crossover_M"]))
    return sorted(places)


def _quartiles(median: MedianCrossover, places: Sequence[float]) -> str:
    """Write the lower and the upper quartile, each the crossover of a shape; "" for fewer than four."""
    if len(places) < 4:
        return ""
    low, high = (places[math.ceil(share * len(places)) - 1] for share in (0.25, 0.75))
    return f"[{median.as_text(low)}, {median.as_text(high)}]"


def _threshold_table(view: View, rules: Sequence[tuple[MedianCrossover, Threshold]]) -> Table:
    columns = (
        *text_columns("challenger", "operands", "use it for"),
        Column("mean loss", unit="%"),
        Column("worst loss", unit="%"),
        *text_columns("worst at"),
        Column("cells"),
    )
    rows = tuple(_threshold_row(view, median, rule) for median, rule in rules)
    reading = "The one threshold for all shapes with the least mean loss (geometric)."
    how = (
        "Loss: time of the provider that the "
        "rule takes over the faster one of the two, minus 1, over the measured cells; in the mean, each weighs as much "
        "as the stretch of log2 M that it stands for."
    )
    return Table("threshold", "Best constant threshold", columns, rows, reading, stub=2, how_to_read=how)


def use_of(rule: Threshold) -> str:
    """Say at which M a rule takes the challenger."""
    return "no M" if rule.M == 0 else "every M" if math.isinf(rule.M) else f"M ≤ {rule.M:g}"


def _threshold_row(view: View, median: MedianCrossover, rule: Threshold) -> tuple[TableCell, ...]:
    mean, worst = math.expm1(rule.mean_regret), math.expm1(rule.worst_regret)
    return (
        *texts(median.challenger, view.slice_of(median.setting).title),
        TableCell(use_of(rule), rule.M),
        TableCell(fmt.signed_percent(mean), mean),
        TableCell(fmt.signed_percent(worst), worst),
        TableCell(f"{fmt.shape(rule.worst_shape)}, M={rule.worst_M}" if rule.worst_shape else "nowhere"),
        integer(rule.cells),
    )
