"""Which printed numbers cannot follow from other printed numbers, by interval arithmetic.

A number printed as 1.39 stands for anything from 1.385 to 1.395. What is computed from such numbers lies in an
interval; a printed result outside of it was computed from something else, or is wrong.
"""

from decimal import Decimal
from typing import NamedTuple

SLACK = 1e-9
"""Relative: for the rounding of this arithmetic itself, and ends that are exactly half a step away."""


class ValueRange(NamedTuple):
    """Everything from `low` to `high`."""

    low: float
    high: float

    def meets(self, other: "ValueRange") -> bool:
        """Return whether the two overlap."""
        slack = SLACK * max(1.0, *(abs(end) for end in (*self, *other)))
        return self.low <= other.high + slack and other.low <= self.high + slack


def span(text: str) -> ValueRange:
    """Numbers that are printed as `text`: half a step of its last digit on both sides."""
    number = Decimal(text)
    half = Decimal(5).scaleb(int(number.as_tuple().exponent) - 1)
    return ValueRange(float(number - half), float(number + half))


def rate_of(flops: float, time: ValueRange, unit_s: float) -> ValueRange:
    """TFLOPS of `flops` done in a time of so many units."""
    low, high = (max(end, 1e-300) * unit_s for end in (time.low, time.high))  # a table may print a time of 0
    return ValueRange(flops / high / 1e12, flops / low / 1e12)


def gain(base: ValueRange, head: ValueRange) -> ValueRange:
    """By how much `head` exceeds `base`, in percent: of rates."""
    return ValueRange(100 * (head.low / base.high - 1), 100 * (head.high / base.low - 1))


def reduction(base: ValueRange, head: ValueRange) -> ValueRange:
    """By how much a time fell from `base` to `head`, in percent."""
    return ValueRange(100 * (1 - head.high / base.low), 100 * (1 - head.low / base.high))
