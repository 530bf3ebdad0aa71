"""Claims in words: a rate that is so many percent of peak, and counts of changes beyond a threshold."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ....analysis.imports.consistency import ValueRange
from .printed import Printed, read_printed
from .words import DTYPES, PASSES, dtypes_in

# numbers begin at their first digit and end in time: what may begin at each digit of a long one, or each blank before
# it, takes quadratic time
_NUMBER = r"(?:[~≈]\s*)?(?<!\d)(?<!\d[,.])\d[\d,]{0,20}(?:\.\d{1,20})?"

_RATE = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>[TPG])FLOP(?:S|s|/s)?\b")

_SHARE = re.compile(
    rf"(?P<number>{_NUMBER})\s*(?:%|percent)\+?\s*(?:of\s+)?(?:(?:the|its|theoretical|hardware|device|dense|spec|compute|"
    r"advertised|vendor|machine|fp32|tf32|bf16|fp16|fp8|mxfp8|mxfp4|int8|MI\d+X|H\d+|B\d+)[\s-]+)*peak",
    re.IGNORECASE,
)

_PEAK_ITSELF = re.compile(
    r"(\b(spec|peak|theoretical|dense|roof|roofline|limit)\b[^.;,]{0,24}|FLOP(S|/s)?\s+(out\s+)?of\s*)$", re.IGNORECASE
)
"""Words before a rate which say that it is the peak, not what was reached."""

_BEFORE = 60
"""Characters that these words have at most."""

_OF_PEAK = re.compile(r"\s+(out\s+)?of\s+[\d,.]+\s*[TPG]FLOP")
"""Words after a rate that name its peak ("540 TFLOPS of 989 TFLOPS")."""

_IS_PEAK = re.compile(r"\s*(?:[\w-]+\s+){0,2}peak\b", re.IGNORECASE)
"""Words after it that say so ("2614.9 TFLOPS dense peak")."""

_COUNT = re.compile(
    r"(?<!\d)(?P<count>\d{1,9})\s*/\s*(?P<cases>\d{1,9})\s+(?:shapes?|cases?|problems?|rows?|configs?|configurations?|kernels?|are|of|at|"
    r"them|is|\s)*(?P<how>>=|<=|≥|≤)\s*(?P<sign>[+\-\u2212]?)\s*(?P<size>\d{1,9}(?:\.\d{1,20})?)\s*%"
    r"(?:\s+(?:on|in|for)\s+(?:the\s+)?(?P<pass>[A-Za-z]+))?"
)

_TOTAL = re.compile(r"(?<!\d)(\d{1,9})\s+(?:shapes|cases|problems|configurations)\b", re.IGNORECASE)

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Statement:
    """What somebody says, with single blanks, and where: on the command line, or in a cell."""

    where: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class StatedPeak:
    """A rate in FLOP/s that a claim calls the peak of a type."""

    where: str
    line: int
    text: str
    rate: Printed
    unit: float
    dtype: str

    @property
    def span(self) -> ValueRange:
        """What the rate may be, in FLOP/s."""
        return ValueRange(self.rate.span.low * self.unit, self.rate.span.high * self.unit)


@dataclass(frozen=True, slots=True)
class PeakClaim(StatedPeak):
    """A rate in FLOP/s that a claim calls a percentage of some peak."""

    percent: Printed


@dataclass(frozen=True, slots=True)
class CountClaim:
    """So many of all cases at or beyond a threshold in percent: above a positive one, below a negative one."""

    where: str
    line: int
    text: str
    count: int
    cases: int
    threshold: float
    pass_: str


def peak_claims(claims: Iterable[Statement]) -> Iterator[PeakClaim]:
    """Find sentences of claims with a rate and a percentage of a peak."""
    scale = {"G": 1e9, "T": 1e12, "P": 1e15}
    for claim in claims:
        for sentence in _SENTENCE_END.split(claim.text):
            shares = list(_SHARE.finditer(sentence))
            rates = [
                one
                for one in _RATE.finditer(sentence)
                if _OF_PEAK.match(sentence, one.end())
                or not (
                    _PEAK_ITSELF.search(sentence, max(0, one.start() - _BEFORE), one.start())
                    or _IS_PEAK.match(sentence, one.end())
                )
            ]
            if not shares or not rates:
                continue
            starts = [one.start() for one in rates]
            words = sentence.lower()
            dtype = next((name for name in DTYPES if re.search(rf"\b{name}\b", words)), "")
            for share in shares:
                after = bisect_left(starts, share.start())
                rate = min(rates[max(0, after - 1) : after + 1], key=lambda one: abs(one.start() - share.start()))
                number, percent = read_printed(rate["number"]), read_printed(share["number"])
                if number is None or percent is None or not number.value or not percent.value:
                    continue
                yield PeakClaim(claim.where, claim.line, sentence, number, scale[rate["unit"]], dtype, percent)


_STATED_PEAK = re.compile(
    rf"(?i)\b(?:spec|peak|theoretical|dense)\b[^.;,0-9]{{0,24}}(?P<number>{_NUMBER})\s*(?P<unit>[TP])FLOP(?:S|/s)?\b"
)


def stated_peaks(claims: Iterable[Statement]) -> Iterator[StatedPeak]:
    """Find what sentences call the peak of one type, where they do not speak of sparsity."""
    for claim in claims:
        for sentence in _SENTENCE_END.split(claim.text):
            types = dtypes_in(sentence)
            if len(types) != 1 or "spars" in sentence.lower():
                continue
            for found in _STATED_PEAK.finditer(sentence):
                number = read_printed(found["number"])
                if number is not None and number.value:
                    scale = {"T": 1e12, "P": 1e15}[found["unit"].upper()]
                    yield StatedPeak(claim.where, claim.line, sentence, number, scale, types[0])


def count_claims(claims: Iterable[Statement]) -> Iterator[CountClaim]:
    """Find counts such as "8/84 shapes <= -1% on bwd"."""
    for claim in claims:
        for found in _COUNT.finditer(claim.text):
            size = float(found["size"]) * (-1 if found["sign"] in ("-", "\u2212") else 1)
            above = found["how"] in (">=", "≥")
            if not size or above != (size > 0):
                continue
            yield CountClaim(
                claim.where,
                claim.line,
                found[0],
                int(found["count"]),
                int(found["cases"]),
                size,
                PASSES.get((found["pass"] or "").lower(), ""),
            )


def total_in(title: str) -> int | None:
    """Return the number of cases that a title states ("over the same 83 shapes"); None with none or several."""
    found = {int(number) for number in _TOTAL.findall(title)}
    return found.pop() if len(found) == 1 else None
