"""Logarithmic axes: limits and ticks from data, shared by every renderer."""

import math
from collections.abc import Callable, Sequence

from .chart import Axis, Tick
from .formatting import tick_time

_ONE_TWO_FIVE = (1, 2, 5)


def m_axis(values: Sequence[float], label: str = "M (rows of activations)", labels: int = 5) -> Axis:
    """Axis over the measured M: a tick at every one, at most `labels` labels, the last one if it fits."""
    measured = sorted(set(values))
    few = max(1, math.ceil(len(measured) / labels))
    every = next((step for step in range(few, few + 2) if (len(measured) - 1) % step == 0), few)
    labelled = set(measured[::every])
    ticks = tuple(Tick(m, f"{m:g}" if m in labelled else "") for m in measured)
    return Axis(label, measured[0] / 2**0.4, measured[-1] * 2**0.4, ticks)


def with_room(axis: Axis, left: int = 0, right: int = 0) -> Axis:
    """Widen an axis so that labels of `left` and `right` characters fit beside the data of a single chart."""
    share_left, share_right = (
        min(0.3, (characters * 7.2 + 14) / 800 if characters else 0.0) for characters in (left, right)
    )
    span = math.log(axis.high / axis.low) / (1 - share_left - share_right)
    low = axis.low / math.exp(span * share_left)
    return Axis(axis.label, low, axis.high * math.exp(span * share_right), axis.ticks)


def time_axis(low: float, high: float, decades: float, label: str = "time") -> Axis:
    """Axis of `decades` centred on the data from `low` to `high` (seconds), so that panels share one scale."""
    centre = math.log10(low * high) / 2
    half = max(decades, math.log10(high / low), 0.3) / 2 * 1.06
    return decade_axis(10 ** (centre - half), 10 ** (centre + half), tick_time, label)


def decade_axis(low: float, high: float, text: Callable[[float], str], label: str, labels: int = 4) -> Axis:
    """Axis from `low` to `high` with about `labels` ticks: at powers of ten, and at 5 or 2 and 5 if they fit."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    inside = [
        (base * 10.0**power, base)
        for power in range(first, last + 1)
        for base in _ONE_TWO_FIVE
        if low <= base * 10.0**power <= high
    ]
    sets = ({1, 2, 5}, {1, 5}, {1})
    kept = next((bases for bases in sets if sum(base in bases for _, base in inside) <= labels), {1})
    return Axis(label, low, high, tuple(Tick(value, text(value)) for value, base in inside if base in kept))


def octave_axis(low: float, high: float, text: Callable[[float], str], label: str) -> Axis:
    """Axis from `low` to `high` with ticks at powers of two, about six of them."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    every = max(1, math.ceil((last - first + 1) / 7))
    powers = [power for power in range(first, last + 1) if power % every == 0]
    return Axis(label, low, high, tuple(Tick(2.0**power, text(2.0**power)) for power in powers))


def position(axis: Axis, value: float) -> float:
    """Where `value` lies on the axis: 0 at `low`, 1 at `high`."""
    return math.log(value / axis.low) / math.log(axis.high / axis.low)
