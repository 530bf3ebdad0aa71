"""A number as somebody printed it: its digits, its unit, and whether it is only about right."""

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

from .consistency import ValueRange, span

_MARKS = "*†‡¹²³⁴⁵⁶⁷⁸⁹⁰`"
"""Footnote marks and markdown around a number."""

_ASCII = {0x2212: "-", 0xFF08: "(", 0xFF09: ")", 0xFF5E: "~", 0xFF05: "%"} | dict.fromkeys(
    [*range(0x2600, 0x27C0), *range(0x2B00, 0x2C00), *range(0x1F300, 0x1FB00), 0xFE0F]
)
"""Signs of other keyboards as ASCII; check marks, stars and pictures are no part of a number."""

SECONDS = {"s": "1", "ms": "0.001", "us": "0.000001", "ns": "0.000000001"}
"""Unit of time: its seconds, as exact decimal text."""

UNITS = {
    "%": "%",
    "pct": "%",
    "percent": "%",
    "x": "x",
    "×": "x",
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec"), "ms"),
    **dict.fromkeys(("us", "µs", "μs", "usec"), "us"),
    "ns": "ns",
    **{
        f"{prefix}{rest}": f"{prefix}flops"
        for prefix in "gtp"
        for rest in ("flops", "flop", "flop/s", "flops/s", "f/s", "f")
    },
    **dict.fromkeys(("gb/s", "gb/sec", "gbps"), "gb/s"),
    **dict.fromkeys(("tb/s", "tb/sec", "tbps"), "tb/s"),
    **{unit: unit for unit in ("kb", "mb", "gb", "kib", "mib", "gib")},
    "k": "k",
}

EMPHASIS = re.compile(r"\*\*|(?<!\w)__|__(?!\w)|`|</?(?:b|i|u|em|strong|code|sub|sup|span|br)\b[^<>]*>", re.IGNORECASE)
"""Markdown and HTML that only changes how a text looks."""

_NUMBER = re.compile(
    r"(?P<about>(?:[~≈≥≤]|>=|<=)\s*)?(?P<digits>[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?|[+-]?\.\d+)\s*"
    r"(?P<unit>[A-Za-z%×µμ][A-Za-z/]*(?:\s[a-z]+/s(?:ec(?:ond)?)?)?)?"
    r"(?:\s*(?:±|\+/-|\+-|\s_\s)\s*\d[\d.,]*\s*(?P<after>[A-Za-z%×µμ][A-Za-z/]*)?)?(?:\s*\([^()]*\))?(?:(?<=[x×])\s+faster)?"
)
"""A number, its unit, and what may follow: by how much it varies, a remark in parentheses, and "faster"."""

_PER_SECOND = re.compile(r"(?:(?P<prefix>[KkMGB])\s+)?(?![TGMK]i?B/s)[A-Za-z]{1,12}/s(?:ec(?:ond)?)?")
"""Things per second, in thousands or millions: "12.5K tok/s", "0.9M paths/sec", "37,000 img/s"; not bytes."""

_PER_THING = re.compile(r"^([mnuµμ]?s)/(?:tok|token|iter|iteration|step|call|op|run)$")
"""A time of each of many things ("ms/token")."""

SMALLEST, LARGEST = 1e-60, 1e60
"""Beyond these no number was measured; products of several still are what floating point can hold."""

MOST_PLACES = 200
"""Decimals that somebody may have printed of such a number, or of 0."""

MISSING = frozenset(("", "-", "--", "—", "–", "n/a", "na", "nan", "none", "null", "inf"))
"""Texts of a cell that has no number."""

FAILED = frozenset(("fail", "failed", "error", "oom", "skip", "skipped", "timeout", "unsupported", "crash"))
"""Words that stand where a number should."""

ABOUT = 0.025
"""What "about" allows beside the rounding, relative to the number."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A number and its text; `digits` is what `Decimal` reads, `unit` one of the values of `UNITS` or empty."""

    text: str
    digits: str
    unit: str = ""
    about: bool = False

    @property
    def value(self) -> float:
        """The number itself, in its printed unit."""
        return float(self.digits)

    @property
    def step(self) -> float:
        """One of its last digit, in its printed unit."""
        exponent = Decimal(self.digits).as_tuple().exponent
        assert isinstance(exponent, int)  # finite
        return float(Decimal(1).scaleb(exponent))

    def in_unit(self, power: int) -> "Printed":
        """Return the same number for a unit that is 10**-power of its own; its digits stay those that are printed."""
        return replace(self, digits=str(Decimal(self.digits).scaleb(power)))

    @property
    def span(self) -> ValueRange:
        """Numbers that are printed like this one, by its own digits."""
        return self.within(None)

    def within(self, step: float | None) -> ValueRange:
        """Numbers that are printed like this one, where neighbours are `step` apart (0: exact; None: by its digits)."""
        if step is None:
            low, high = span(self.digits)
        else:
            low, high = self.value - step / 2, self.value + step / 2
        more = ABOUT * abs(self.value) if self.about else 0.0
        return ValueRange(low - more, high + more)


@lru_cache(1 << 14)
def read_printed(text: str) -> Printed | None:
    """Read "+15.11%", "~1.0×*", "1,234.5", "1.2k", "**1747** GB/s", "80.0 ± 0.2 us", "0.995 (same)"; else None."""
    clean = " ".join(EMPHASIS.sub("", text).split()).translate(_ASCII).strip(_MARKS).strip()
    found = _NUMBER.fullmatch(clean)
    if found is None:
        return None
    name = found["unit"] or found["after"] or ""
    digits = found["digits"].replace(",", "")
    if (value := abs(float(digits))) and not SMALLEST < value < LARGEST:
        return None
    if abs(int(Decimal(digits).as_tuple().exponent)) > MOST_PLACES:  # 0e999999999
        return None
    unit = UNITS.get(_PER_THING.sub(r"\1", name.lower()))
    if unit is None and (many := _PER_SECOND.fullmatch(name)):
        unit = "/s"
        digits = str(Decimal(digits).scaleb({"": 0, "K": 3, "M": 6, "G": 9, "B": 9}[(many["prefix"] or "").upper()]))
    if name and unit is None:
        return None
    if unit == "k":
        digits, unit = str(Decimal(digits).scaleb(3)), ""
    return Printed(text.strip(), str(Decimal(digits)) if digits.endswith(".") else digits, unit or "", bool(found[1]))


def read_size(text: str) -> int | None:
    """Read a size: "4096", "4,096", "4k" (4096: of powers of two, k is 1024); None for "7k", 7000 or 7168."""
    found = re.fullmatch(r"([1-9]\d{0,2}(?:,\d{3})+|\d{1,15})([kK]?)", text.strip())
    if found is None:
        return None
    size = int(found[1].replace(",", ""))
    if not found[2]:
        return size
    return size * 1024 if size and size & (size - 1) == 0 else None


def is_blank(text: str) -> bool:
    """True for a cell that stands for a number that is not there."""
    word = text.strip().strip(_MARKS).lower()
    return word in MISSING or word in FAILED
