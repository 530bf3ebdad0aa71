"""The numbers that head the report of one question: rates, means over shapes, means over two sides, a threshold."""

import math
from collections.abc import Callable, Iterator, Sequence

from ....analysis.roofline.ceilings import Ceiling, Ceilings
from ....shapes.problem import Op
from ... import formatting as fmt
from ...cells import is_impossible, mean_cell, mean_over, rate_text, traffic_text
from ...model import KeyNumber
from ...terms import CEILING_KINDS
from ...view import Row, Slice, View, shape_of
from ..speedups.crossover import use_of
from ..speedups.three_way import trios_of


def highest_rates(view: View) -> Iterator[KeyNumber]:
    """Say how fast the first challenger gets in the first slice, and what share of the device's limits that is."""
    names = dict.fromkeys((*view.challengers, *view.providers))
    found = ((part, rows) for part in view.slices for name in names if (rows := _timed(view, part, name)))
    part, mine = next(found, (None, []))
    if part is None:
        return
    first, limits = mine[0]["provider"], Ceilings.of(view.analysis.ceilings)
    counted = [row for row in mine if row["op"] != Op.QUANTIZE]
    if counted:
        fast = max(counted, key=lambda row: float(row["flops_per_s"]))
        dtype, rate = str(fast["math_dtype"] or fast["dtype"]), float(fast["flops_per_s"])
        peak = limits.published_peak(dtype) or limits.peak(dtype)
        detail = f"at {_where(fast, part)}{_share(rate, peak, fmt.flops)}"
        yield KeyNumber(f"Highest rate of {first}", rate_text(fast), detail, rate, note=_source(peak))
    wide = max(mine, key=lambda row: float(row["bandwidth_bytes_per_s"]))
    traffic = float(wide["bandwidth_bytes_per_s"])
    memory = limits.bandwidth("dram") if part.cache == "cold" else None
    detail = f"at {_where(wide, part)}{_share(traffic, memory, fmt.bandwidth)}; compulsory bytes"
    yield KeyNumber(f"Highest bandwidth of {first}", traffic_text(wide), detail, traffic, note=_source(memory))


def _share(rate: float, limit: Ceiling | None, text: Callable[[float], str]) -> str:
    if limit is None:
        return ""
    return f", {fmt.share(rate / limit.value)} of {text(limit.value)}, {limit.name}, {CEILING_KINDS[limit.kind]}"


def _source(limit: Ceiling | None) -> str:
    return f"{limit.name}: {limit.source}" if limit else ""


def _timed(view: View, part: Slice, provider: str) -> list[Row]:
    rows = view.rows(view.cells, part, provider=provider)
    return [row for row in rows if fmt.known(row["time_s"]) and not is_impossible(row)]


def _where(row: Row, part: Slice) -> str:
    shape = shape_of(row)
    return f"{shape.label} {shape.size}, M={int(row['M'])}, {part.title}"


def means_over_sides(view: View) -> Iterator[KeyNumber]:
    """Geometric means of a kernel over the one that it replaces and over the reference, each in its first slice."""
    trios = trios_of(view)
    if not trios:
        return
    named = trios[0].sides
    for base, what in ((named.old, ""), (named.reference, " (reference)")):
        found = ((trio.part, trio.ratios_over(base)) for trio in trios)
        for part, rows in [(part, rows) for part, rows in found if rows][:1]:
            yield _mean_of(rows, f"{base}{what} {fmt.DIVIDE} {named.new}", part, len(view.slices) > 1)


def _mean_of(rows: Sequence[Row], label: str, part: Slice, several: bool) -> KeyNumber:
    mean = mean_over(rows)
    low, high = float(mean["ratio_low"]), float(mean["ratio_high"])
    interval = "no interval" if math.isnan(low) else f"95% interval {fmt.ratio_interval(low, high)}"
    where = f", {part.title}" if several else ""
    detail = (
        f"geometric mean over {fmt.plural(int(mean['gemms']), 'GEMM')}{where}, {interval}; > 1: the new one is faster"
    )
    return KeyNumber(f"{label} (time)", mean_cell(mean).text, detail, float(mean["ratio"]))


def best_constant(view: View) -> Iterator[KeyNumber]:
    """The one threshold for all shapes that loses least, of the leading challenger."""
    lead = view.headline.lead
    if lead is not None and lead.crossover is not None and (rule := lead.crossover.threshold) is not None:
        loss = f"mean loss {fmt.signed_percent(math.expm1(rule.mean_regret))}%"
        detail = f"use {lead.challenger} there, {view.baseline} elsewhere; {loss} over the measured cells"
        yield KeyNumber("Best constant threshold", use_of(rule), detail, rule.M)
