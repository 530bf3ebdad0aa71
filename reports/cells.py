"""Results as table cells, for chapters and commands alike: times, rates, ratios and crossovers.

A number has as many digits as its interval leaves.
"""

import math
from collections.abc import Iterable

import pandas as pd

from ..analysis.crossover.across_shapes import MedianCrossover
from ..analysis.crossover.curve import CrossoverStatus
from ..analysis.frames.speedup import geometric_means
from ..analysis.roofline.bounds import Bound
from ..analysis.roofline.ceilings import Ceilings
from . import formatting as fmt
from .model import TableCell, Tone
from .view import Row

NOT_TO_BE_USED = "faster than the device allows, so no ratio with this time is to be used"


def is_impossible(row: Row) -> bool:
    """True for a time that no limit of the device allows."""
    return bool(row["bound_class"] == Bound.IMPOSSIBLE)


def time_cell(row: Row | None, tone: Tone = Tone.PLAIN, note: str = "") -> TableCell:
    """Show the time of a cell; one that cannot be has a footnote with its suspects."""
    if row is None or not fmt.known(row["time_s"]):
        return TableCell("", tone=Tone.MISSING)
    if is_impossible(row):
        tone, note = Tone.FAILED, "; ".join(filter(None, (f"{NOT_TO_BE_USED}: {row['bound_note']}", note)))
    return TableCell(time_text(row), float(row["time_s"]), note=note, tone=tone)


def time_text(row: Row) -> str:
    """Write the time of a cell."""
    return fmt.time(row["time_s"], row["time_low_s"], row["time_high_s"])


def rate_unit(rows: Iterable[Row]) -> str:
    """Choose the unit of a column of the rates of `rows`, of which some may have none."""
    return fmt.flops_unit(float(row["flops_per_s"]) for row in rows if fmt.known(row["flops_per_s"]))


def rate_cell(row: Row | None, unit: str, limits: Ceilings | None = None) -> TableCell:
    """Show FLOP/s in the unit of the column; empty for an operation without FLOPs.

    A rate above the published peak of its type, as far as `limits` know it, has a footnote.
    """
    if row is None or not fmt.known(row["flops_per_s"]):
        return TableCell("")
    note = over_peak(row, limits) if limits else ""
    tone = Tone.FAILED if note else Tone.PLAIN
    return TableCell(
        fmt.flops_in(unit, *_per_time(row, "flops_per_s")), float(row["flops_per_s"]), note=note, tone=tone
    )


def over_peak(row: Row, limits: Ceilings) -> str:
    """Say by how much a rate exceeds the published peak of its type; "" where it does not, or none is known."""
    dtype = str(row["math_dtype"] or row["dtype"])
    peak = limits.published_peak(dtype)
    if peak is None or not fmt.known(row["flops_per_s"]) or float(row["flops_per_s"]) <= peak.value:
        return ""
    many = row["E"] > 1 or row["top_k"] > 1
    suspect = f", or M counts differently (E={int(row['E'])}, top_k={int(row['top_k'])})" if many else ""
    return (
        f"{float(row['flops_per_s']) / peak.value:.3g} times the published peak of {dtype}, {fmt.flops(peak.value)} "
        f"({peak.source}): the time, the type or the clock is not what it seems{suspect}"
    )


def rate_text(row: Row) -> str:
    """Write FLOP/s with its unit; "" for an operation without FLOPs."""
    return fmt.flops(*_per_time(row, "flops_per_s")) if fmt.known(row["flops_per_s"]) else ""


def traffic_cell(row: Row | None) -> TableCell:
    """Show compulsory bytes over time, in GB/s."""
    if row is None:
        return TableCell("")
    return TableCell(fmt.gigabytes(*_per_time(row, "bandwidth_bytes_per_s")), float(row["bandwidth_bytes_per_s"]))


def traffic_text(row: Row) -> str:
    """Write compulsory bytes over time, with the unit."""
    return fmt.bandwidth(*_per_time(row, "bandwidth_bytes_per_s"))


def _per_time(row: Row, name: str) -> tuple[float, float, float]:
    """A quantity per time with its interval: the longest time gives its lower end."""
    value, time = float(row[name]), float(row["time_s"])
    low, high = (float(row[end]) if fmt.known(row[end]) else math.nan for end in ("time_low_s", "time_high_s"))
    return value, value * time / high, value * time / low


def share_cell(fraction: float | None, note: str = "") -> TableCell:
    """Show a share of a whole, as its bar does; nothing where it is unknown."""
    known = fraction if fmt.known(fraction) else None
    return TableCell(fmt.share(known), known, known, note)


def ratio_cell(row: Row | None) -> TableCell:
    """Show the ratio of one cell with its note: a tie, an undecided, a decided one, or why there is none."""
    if row is None:
        return TableCell("", tone=Tone.MISSING)
    value = float(row["ratio"])
    if math.isnan(value):
        reason = str(row["reason"])
        return TableCell(_word(reason), note=reason, tone=Tone.FAILED)
    write, tone = (fmt.undecided, Tone.UNDECIDED) if row["verdict"] == "undecided" else (fmt.ratio, Tone.PLAIN)
    return TableCell(write(value, row["ratio_low"], row["ratio_high"]), value, math.log2(value), str(row["note"]), tone)


def ratio_text(value: float, low: float | None, high: float | None) -> str:
    """Write a ratio or a geometric mean; one whose interval includes 1, or that has none, with ~."""
    decided = low is not None and high is not None and (low > 1 or high < 1)
    return fmt.ratio(value, low, high) if decided else fmt.undecided(value, low, high)


def _word(reason: str) -> str:
    """Return the verdict that a reason begins with, or a dash when the other side is missing."""
    word = reason.split(":")[0].strip()
    return word if word and " " not in word else "no ratio"


def mean_over(rows: Iterable[Row]) -> Row:
    """Return the geometric mean of the ratios of one provider, as `geometric_means` does."""
    mean: Row = geometric_means(pd.DataFrame(list(rows)), by=("provider",)).to_dict("records")[0]
    return mean


def mean_cell(row: Row | None) -> TableCell:
    """Show a geometric mean as its cells are shown; nothing where no cell has a ratio."""
    if row is None or math.isnan(row["ratio"]):
        return TableCell("")
    value, excluded = float(row["ratio"]), int(row["excluded"])
    note = f"excludes {fmt.plural(excluded, 'cell')} in which a side has no time" if excluded else ""
    text = ratio_text(value, row["ratio_low"], row["ratio_high"])
    tone = Tone.UNDECIDED if text.startswith("~") else Tone.PLAIN
    return TableCell(text, value, math.log2(value), note, tone)


def position_cell(row: Row) -> TableCell:
    """Show where one shape crosses, about; the status where it does not cross once."""
    note = "; ".join(row["warnings"])
    if fmt.known(row["crossover_M"]):
        return TableCell(fmt.crossover(row["crossover_M"]), float(row["crossover_M"]), note=note)
    if CrossoverStatus(row["status"]).is_informative:
        return TableCell(row["status"], note=note)
    return TableCell("needs two M" if len(row["Ms"]) else row["status"], note=note, tone=Tone.FAILED)


def wins_text(row: Row) -> str:
    """Write at which measured M the challenger is verified faster: M ≤ 4; 8 ≤ M ≤ 16; every M but 32; no M.

    Empty where fewer than two M say nothing of a range.
    """
    if not CrossoverStatus(row["status"]).is_informative:
        return ""
    regions = [region for region in row["regions"] if region.winner == "challenger"]
    doubtful = [str(M) for M in row["undecided"] if any(one.first_M < M < one.last_M for one in regions)]
    wins = [
        fmt.m_range(
            region.first_M if region.first_M > row["M_min"] else None,
            region.last_M if region.last_M < row["M_max"] else None,
        )
        for region in regions
    ]
    return ("; ".join(wins) or "no M") + (f" but {', '.join(doubtful)}" if doubtful else "")


def median_text(median: MedianCrossover) -> str:
    """Write a median crossover: M~622, > 2048, < 1, none, or needs two M."""
    size = median.median_M
    return fmt.crossover(size) if size is not None and 0 < size < math.inf else median.text
