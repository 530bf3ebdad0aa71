"""Time, rate and traffic of one cell as table cells: as many digits as the interval of the time leaves."""

import math

from ....analysis.roofline.bounds import Bound
from ....analysis.roofline.ceilings import Ceilings
from ... import formatting as fmt
from ...model import Cell, Tone
from ...view import Row

NOT_TO_BE_USED = "faster than the device allows, so no ratio with this time is to be used"


def is_impossible(row: Row) -> bool:
    """True for a time that no limit of the device allows."""
    return bool(row["bound_class"] == Bound.IMPOSSIBLE)


def time_cell(row: Row | None, tone: Tone = Tone.PLAIN, note: str = "") -> Cell:
    """Show the time of a cell; one that cannot be has a footnote with its suspects."""
    if row is None or not fmt.known(row["time_s"]):
        return Cell("", tone=Tone.MISSING)
    if is_impossible(row):
        tone, note = Tone.FAILED, "; ".join(filter(None, (f"{NOT_TO_BE_USED}: {row['bound_note']}", note)))
    return Cell(time_text(row), float(row["time_s"]), note=note, tone=tone)


def time_text(row: Row) -> str:
    """Write the time of a cell."""
    return fmt.time(row["time_s"], row["time_low_s"], row["time_high_s"])


def rate_cell(row: Row | None, unit: str, limits: Ceilings | None = None) -> Cell:
    """Show FLOP/s in the unit of the column; empty for an operation without FLOPs.

    A rate above the published peak of its type, as far as `limits` know it, has a footnote.
    """
    if row is None or not fmt.known(row["flops_per_s"]):
        return Cell("")
    note = over_peak(row, limits) if limits else ""
    tone = Tone.FAILED if note else Tone.PLAIN
    return Cell(fmt.flops_in(unit, *_per_time(row, "flops_per_s")), float(row["flops_per_s"]), note=note, tone=tone)


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


def traffic_cell(row: Row) -> Cell:
    """Show compulsory bytes over time, in GB/s."""
    return Cell(fmt.gigabytes(*_per_time(row, "bandwidth_bytes_per_s")), float(row["bandwidth_bytes_per_s"]))


def _per_time(row: Row, name: str) -> tuple[float, float, float]:
    """A quantity per time with its interval: the longest time gives its lower end."""
    value, time = float(row[name]), float(row["time_s"])
    low, high = (float(row[end]) if fmt.known(row[end]) else math.nan for end in ("time_low_s", "time_high_s"))
    return value, value * time / high, value * time / low
