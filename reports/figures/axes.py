"""Axes: limits and ticks from data, shared by every renderer."""

import math
from collections.abc import Callable, Sequence

from ..formatting import tick_elapsed, tick_time
from .chart import Axis, Spacing, Tick

_BASES = (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)

_DENSITIES = ({*_BASES}, {1, 2, 3, 5, 7}, {1, 2, 5}, {1, 5}, {1})
"""Bases that may bear a tick, from dense to sparse; the first that is not too many is taken."""

CHARACTER = 8.0
"""Width of a character of a label, in pixels, in the widest of the usual fonts, bold."""

PLOT = 800.0
"""Width of the plot area of a single chart, in pixels."""


FULL_HEIGHT = 0.05
"""Least change, as a share, that a trend shows at full height, so that noise does not look like a trend."""


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
    low, high = room(axis.low, axis.high, left, right)
    return Axis(axis.label, low, high, axis.ticks)


def room(low: float, high: float, left: int, right: int) -> tuple[float, float]:
    """Widen a range so that labels of `left` and `right` characters fit beside it on a logarithmic axis."""
    share_left, share_right = (
        min(0.3, (characters * CHARACTER + 14) / PLOT if characters else 0.0) for characters in (left, right)
    )
    span = math.log(high / low) / (1 - share_left - share_right)
    return low / math.exp(span * share_left), high * math.exp(span * share_right)


def time_axis(low: float, high: float, decades: float, label: str = "time") -> Axis:
    """Axis of `decades` centred on the data from `low` to `high` (seconds), so that panels share one scale."""
    centre = math.log10(low * high) / 2
    half = max(decades, math.log10(high / low), 0.3) / 2 * 1.06
    return decade_axis(10 ** (centre - half), 10 ** (centre + half), tick_time, label)


def decade_axis(low: float, high: float, text: Callable[[float], str], label: str, labels: int = 4) -> Axis:
    """Axis from `low` to `high` with about `labels` ticks at most: powers of ten, and as many between them as fit."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    inside = [
        (base * 10.0**power, base)
        for power in range(first, last + 1)
        for base in _BASES
        if low <= base * 10.0**power <= high
    ]
    kept = next((bases for bases in _DENSITIES if sum(base in bases for _, base in inside) <= labels), {1})
    return Axis(label, low, high, tuple(Tick(value, text(value)) for value, base in inside if base in kept))


def octave_axis(low: float, high: float, text: Callable[[float], str], label: str) -> Axis:
    """Axis from `low` to `high` with ticks at powers of two, about six of them."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    every = max(1, math.ceil((last - first + 1) / 7))
    powers = [power for power in range(first, last + 1) if power % every == 0]
    return Axis(label, low, high, tuple(Tick(2.0**power, text(2.0**power)) for power in powers))


_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Seconds between the ticks of elapsed time."""


def linear_axis(low: float, high: float, text: Callable[[float], str], label: str, labels: int = 5) -> Axis:
    """Axis from `low` to `high` with at most about `labels` ticks, at 1, 2 or 5 times a power of ten."""
    least = (high - low) / labels
    power = 10.0 ** math.floor(math.log10(least))
    step = next(base * power for base in (1, 2, 5, 10) if base * power >= least * 0.999)
    return Axis(label, low, high, _every(low, high, step, text), Spacing.LINEAR)


def size_axis(sizes: Sequence[int], label: str, labels: int = 10) -> Axis:
    """Axis over sizes of a scan, with ticks at the multiples of a power of two."""
    low, high = float(min(sizes)), float(max(sizes))
    step = 2.0 ** math.ceil(math.log2((high - low) / labels))
    edge = 0.02 * (high - low)
    return Axis(label, low - edge, high + edge, _every(low, high, step, lambda value: f"{value:.0f}"), Spacing.LINEAR)


def elapsed_axis(high: float, label: str, labels: int = 9) -> Axis:
    """Axis of seconds from 0 to `high` with ticks at whole seconds, minutes or hours."""
    days = 86400 * math.ceil(high / labels / 86400)
    step = next((step for step in _STEPS if step * labels >= high), days)
    return Axis(label, 0.0, high, _every(0.0, high, step, tick_elapsed), Spacing.LINEAR)


def bands(labels: Sequence[str], label: str = "", down: bool = False) -> Axis:
    """Axis of one band per label: from left to right, or `down` from the top (see `band`)."""
    count = len(labels)
    ticks = tuple(Tick(band(count, index, down) + 0.5, text) for index, text in enumerate(labels))
    return Axis(label, 0.0, float(count), ticks, Spacing.BANDS)


def band(count: int, index: int, down: bool = False) -> float:
    """Where band `index` of `count` begins."""
    return float(count - 1 - index if down else index)


def _every(low: float, high: float, step: float, text: Callable[[float], str]) -> tuple[Tick, ...]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(Tick(number * step, text(number * step)) for number in range(first, last + 1))


def position(axis: Axis, value: float) -> float:
    """Where `value` lies on the axis: 0 at `low`, 1 at `high`."""
    if axis.spacing is not Spacing.LOG:
        return (value - axis.low) / (axis.high - axis.low)
    return math.log(value / axis.low) / math.log(axis.high / axis.low)
