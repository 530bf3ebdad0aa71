"""What a column of printed numbers was rounded to, from its texts: a fixed number of decimals, or of digits.

A source that prints `1.39` may have measured anything from 1.385 to 1.395; a change of less than that step is not in
the file. Only the texts tell: as floats, `1.50` and `1.5` are one number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

FULL_DIGITS = 12
"""Numbers with so many significant digits were not rounded by anybody; a double prints with up to 17."""

PROOF = 3
"""Zeros that must be missing before the other explanation is dropped: one in a thousand by chance."""


class RoundingKind(StrEnum):
    """How numbers were rounded."""

    DECIMALS = "decimals"
    DIGITS = "significant digits"
    NONE = "not rounded"
    EACH = "its own last digit"


@dataclass(frozen=True, slots=True)
class Rounding:
    """`places` decimals or significant digits; 0 when the numbers are not rounded."""

    kind: RoundingKind
    places: int = 0

    def step(self, text: str) -> float:
        """Distance of two neighbouring numbers at the one that is printed as `text`, in its unit; 0: not rounded."""
        if self.kind is RoundingKind.NONE:
            return 0.0
        if self.kind is RoundingKind.EACH:
            return float(Decimal(1).scaleb(-_decimals(Decimal(text))))
        if self.kind is RoundingKind.DECIMALS:
            return float(Decimal(1).scaleb(-self.places))
        return float(Decimal(1).scaleb(Decimal(text).adjusted() - self.places + 1))

    def __str__(self) -> str:
        return str(self.kind) if self.kind in (RoundingKind.NONE, RoundingKind.EACH) else f"{self.places} {self.kind}"


def detect(texts: Sequence[str]) -> Rounding:
    """Say how the numbers of one column, as printed, were rounded.

    Both explanations always fit: decimals d = the most that are printed, digits p = the most that are printed. A number
    with fewer must have ended in zeros that were not printed (as pandas prints floats), which happens to one in ten
    per zero. So the explanation that needs fewer missing zeros is the likelier one. Decimals are believed unless digits
    are proven, because they are the finer step where it matters, at the large numbers: a column is never called coarser
    than what it shows.
    """
    numbers = [Decimal(text) for text in texts]
    numbers = [number for number in numbers if number.is_finite() and number]
    if not numbers:
        return Rounding(RoundingKind.NONE)
    decimals = [_decimals(number) for number in numbers]
    digits = [number.adjusted() + places + 1 for number, places in zip(numbers, decimals, strict=True)]
    most_decimals, most_digits = max(decimals), max(digits)
    without_decimals = sum(most_decimals - places for places in decimals)
    without_digits = sum(most_digits - places for places in digits)
    keeps_zeros = any("." in text and text.rstrip().endswith("0") for text in texts)
    proven = without_digits + PROOF <= without_decimals or (keeps_zeros and not without_digits and without_decimals)
    if most_digits >= FULL_DIGITS:
        return Rounding(RoundingKind.NONE)
    return Rounding(RoundingKind.DIGITS, most_digits) if proven else Rounding(RoundingKind.DECIMALS, most_decimals)


def _decimals(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)  # finite
    return -exponent
