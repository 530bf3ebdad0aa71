"""Sentences that sum a table up, held against its rows: "up to 1.8x", "1.2-1.8x", "geomean 1.3x"."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ....shapes.errors import quote
from ...imports.consistency import ValueRange, gain, reduction
from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need, Severity
from ..evidence.near import Near, joined, quotients_of
from ..evidence.pairs import ratio
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from ..reading.document import Paragraph
from ..reading.printed import Printed, read_printed

# every repetition ends: what may begin at each of many digits or stars takes quadratic time
_FACTOR = r"(?P<number>(?:[~≈]\s*)?\d{1,15}(?:\.\d{1,15})?)\s*[x×](?![\w×])"

_NUMBER = r"(?:[~≈]\s*)?(?<!\d)(?<!\d[.,])\d{1,15}(?:,\d{3}){0,5}(?:\.\d{1,15})?"

_STARS = r"\*{0,3}"

_UNIT = r"(?P<unit>[x×%]|[TPG]FLOPS?(?:/s)?|[TG]B/s)(?![\w×])"

_UP_TO = re.compile(rf"(?i)\b(?:up to|as high as|peak(?:s|ing) at)\s+{_STARS}(?P<number>{_NUMBER})\s*{_UNIT}")

_AVERAGE = re.compile(
    rf"(?i)\b(?:average|avg\.?|mean|averaging)\s+(?:speed-?up|improvement|reduction|gain)?\s*(?:of|is|:|=)?\s*{_STARS}"
    rf"(?P<number>{_NUMBER})\s*{_UNIT}|(?P<before>{_NUMBER})\s*(?P<its>[x×%]){_STARS}\s+"
    r"(?:(?:faster\s+|speed-?up\s+)?on average\b|(?:average|mean|avg)\s+(?:speed-?up|improvement|reduction|gain)\b)"
)
"""A mean of either kind: who says "on average" rarely says which."""

_MEAN = re.compile(
    rf"(?i)\bgeo(?:metric)?[\s-]*mean\b[^.\n\d]{{0,40}}?{_STARS}{_FACTOR}|"
    r"(?<!\d)(?<!\d[.,])(?P<before>\d{1,15}(?:\.\d{1,15})?)\s*[x×]\*{0,3}\s+geo(?:metric)?[\s-]*mean\b"
)

_FASTER = re.compile(
    r"(?i)\b(?:faster|wins?|ahead|better)\s+(?:in|on|for|at)?\s*\*{0,3}(?P<count>\d{1,9})\*{0,3}\s*(?:/|of|out of)\s*"
    r"(?:the\s+|all\s+)?(?P<cases>\d{1,9})"
)

_RANGE = re.compile(
    rf"(?i)(?<![\w.,/-]){_STARS}(?P<low>{_NUMBER})\s*[x×%]?{_STARS}\s*(?:-|\u2013|\u2014|to|\.\.\.)\s*{_STARS}"
    rf"(?P<number>{_NUMBER})\s*{_UNIT}"
)
"""A range with its unit: "1.2-1.4x", "308 to 334 TFLOPS"."""

_EXACTLY = re.compile(
    r"(?i)(?<![\w.,/-])\*{0,3}(?P<number>\d{1,15}\.\d{2,15})\s*[x×]\*{0,3}\s+"
    r"(?:faster|slower|speed-?up|quicker|as fast)\b"
)
"""A factor with two decimals: nobody rounds a guess so."""

_MEASURE = r"[mnuµμ]?s|[TGP]FLOPS?|[TG]B/s|tok/s"

_ARROW = re.compile(
    rf"(?i)(?P<begin>\bfrom\s+{_STARS})?(?P<base>{_NUMBER})\s*(?P<one>{_MEASURE})?\s*(?P<arrow>->|→|⟶|\bto\b)\s*"
    rf"{_STARS}(?P<head>{_NUMBER})\s*(?P<two>{_MEASURE})?{_STARS}\s*\(\*{{0,3}}(?P<sign>[-+\u2212]?)(?P<number>{_NUMBER})\s*"
    r"(?P<unit>[x×%])"
)
"""One number, another, and their ratio or change: "0.107 ms → 0.060 ms (1.78x faster)"."""

_LEAST = re.compile(
    rf"(?i)\b(?:minimum|lowest|smallest|worst(?:[- ]case)?)\s+speed-?up\s*(?:of|is|was|:|=|\|)?\s*{_STARS}{_FACTOR}"
)

_CALLED = re.compile(
    rf"(?i)(?:\bspeed-?up\s*(?:of|is|was|:|=)\s*{_STARS}{_FACTOR}|(?<![\w.,/-])\*{{0,3}}(?P<before>\d{{1,15}}\.\d{{1,15}})"
    r"\s*[x×]\*{0,3}\s+(?:faster|slower|speed-?up|quicker|as fast)\b)"
)
"""A factor of one thing to another, where a table has no ratios."""

_ELSEWHERE = re.compile(
    r"(?i)\b(memory|vram|end[- ]to[- ]end|e2e|run[- ]to[- ]run|noise|gpus|nodes|scale|theoretical|ideal|https?)\b"
)
"""Words of a sentence about something else than the rows."""

_HEADING = re.compile(r"^#{1,6}\s", re.MULTILINE)

_EVENTS = re.compile(
    r"(?i)(?<![\d./x×%-])\b(?P<count>\d{1,9})\s+(?P<kind>(?:[a-z-]{1,40}\s+){0,2}?)"
    r"(?P<what>regression|improvement|slowdown|failure|loss|win)(?:s|es)?\b"
    r"(?P<beyond>[^.;,\n]{0,12}?(?:[<>≥≤]=?|above|below|over|beyond)\s*[-+\u2212]?[\d.]{1,15}\s*%?)?"
)


def check(case: Case) -> Iterator[Finding]:
    """Hold each sentence against the ratios of the tables under its own heading, and counts against each other."""
    headings: dict[str, list[int]] = defaultdict(list)
    for paragraph in case.paragraphs:
        lines = (paragraph.line_of(found.start()) for found in _HEADING.finditer(paragraph.text))
        headings[paragraph.where].extend(lines)
    for lines_of_text in headings.values():
        lines_of_text.sort()

    def section(where: str, line: int) -> tuple[str, int]:
        above = bisect_right(headings[where], line)
        return where, headings[where][above - 1] if above else 0

    columns: dict[tuple[tuple[str, int], ColumnRole], list[tuple[Sheet, AnnotatedColumn]]] = defaultdict(list)
    for sheet in case.sheets:
        if len(sheet) >= 2:
            place = section(sheet.titled.table.where, sheet.titled.line)
            for column in sheet.of(
                ColumnRole.RATIO, ColumnRole.RATE, ColumnRole.BANDWIDTH, ColumnRole.CHANGE, ColumnRole.PEAK_SHARE
            ):
                role = ColumnRole.CHANGE if column.role is ColumnRole.PEAK_SHARE else column.role
                columns[place, role].append((sheet, column))
    beside = {place: Near(found) for place, found in columns.items()}
    quotients = dict(quotients_of(case.sheets, section))
    for paragraph in case.paragraphs:
        sentences = _Sentences(paragraph.text)
        for pattern, judge in _PATTERNS:
            for found in pattern.finditer(paragraph.text):
                line = paragraph.line_of(found.start())
                near = beside.get((section(paragraph.where, line), _role(found)))
                if near is None or sentences.is_about_something_else(found):
                    continue
                if (allowed := judge(found, near)) is not None:
                    may_be_of_others = pattern in (_RANGE, _EXACTLY, _AVERAGE)
                    is_sure = len(near.columns) == 1 and not may_be_of_others
                    severity = Severity.CONTRADICTION if is_sure else Severity.QUESTION
                    against = f"{near.names} of the table beside it: {allowed}"
                    yield _finding(paragraph, line, found[0], against, severity)
        yield from _arrows(paragraph)
        place = section(paragraph.where, paragraph.line)
        if place in quotients and (place, ColumnRole.RATIO) not in beside and (place, ColumnRole.CHANGE) not in beside:
            names, near_by = quotients[place]
            for found in _CALLED.finditer(paragraph.text):
                printed = _factor(found)
                if (
                    printed is not None
                    and not sentences.is_about_something_else(found)
                    and not near_by.meet(printed.span)
                ):
                    against = f"no two numbers of {names} in the table beside it have this ratio"
                    yield _finding(paragraph, paragraph.line_of(found.start()), found[0], against, Severity.QUESTION)
    yield from _twice(case.paragraphs)


def _role(found: re.Match[str]) -> ColumnRole:
    """Columns that a match speaks of."""
    groups = found.groupdict()
    unit = (groups.get("unit") or groups.get("its") or "x").lower()
    if unit == "%":
        return ColumnRole.CHANGE
    return ColumnRole.RATIO if unit in "x×" else ColumnRole.BANDWIDTH if "b/s" in unit else ColumnRole.RATE


class _Sentences:
    """The sentences of a text; each is searched once, however many numbers it has."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [found.start() for found in re.finditer(r"\. |\n\n", text)]
        self._stops = [at for at in self._ends if text[at] == "."]
        self._known: dict[tuple[int, int], bool] = {}

    def is_about_something_else(self, found: re.Match[str]) -> bool:
        """True where the sentence of a match has one of the words of `_ELSEWHERE`."""
        before = bisect_right(self._ends, found.start() - 2)  # both marks have two characters
        after = bisect_left(self._stops, found.end())
        start = self._ends[before - 1] + 1 if before else 0
        end = self._stops[after] if after < len(self._stops) else len(self._text)
        if (start, end) not in self._known:
            self._known[start, end] = bool(_ELSEWHERE.search(self._text[start:end]))
        return self._known[start, end]


def _arrows(paragraph: Paragraph) -> Iterator[Finding]:
    """Find ratios and changes that the two numbers before them, in one unit, do not give in any reading."""
    for found in _ARROW.finditer(paragraph.text):
        if found["arrow"].lower() == "to" and not found["begin"]:  # a range
            continue
        base, head, printed = (read_printed(found[name]) for name in ("base", "head", "number"))
        units = {(found[name] or "").lower() for name in ("one", "two")} - {""}
        if base is None or head is None or printed is None or min(base.span.low, head.span.low) <= 0 or len(units) > 1:
            continue
        ends = [ratio(base.span, head.span), ratio(head.span, base.span)]
        if found["unit"] == "%":
            ends = [gain(base.span, head.span), gain(head.span, base.span), reduction(base.span, head.span)]
            ends += [ValueRange(-one.high, -one.low) for one in ends]
        if not any(printed.span.meets(one) for one in ends):
            line = paragraph.line_of(found.start())
            against = f"the two numbers allow {ends[0].low:.4g} to {ends[0].high:.4g}"
            yield _finding(paragraph, line, found[0], against, Severity.CONTRADICTION)


def _factor(found: re.Match[str]) -> Printed | None:
    groups = found.groupdict()
    return read_printed(groups.get("number") or groups.get("before") or "")


def _unit(found: re.Match[str]) -> float:
    """Base units per unit of the sentence."""
    return _SCALES.get((found.groupdict().get("unit") or "x").lower()[:1], 1.0)


def _highest(found: re.Match[str], near: Near) -> str | None:
    """Say what the largest number is, if the sentence has a larger one."""
    printed, unit = _factor(found), _unit(found)
    if printed is None or near.top is None or printed.span.low * unit <= near.top:
        return None
    what = "ratio is" if near.role is ColumnRole.RATIO else "is"
    return f"the largest {what} {near.top / unit:.4g}"


def _lowest(found: re.Match[str], near: Near) -> str | None:
    """Say what the smallest ratio is, if the sentence has another one."""
    printed, lows = _factor(found), [min(spans) for spans in near.rows if len(spans) > 1]
    if printed is None or not lows or any(low.meets(printed.span) for low in lows):
        return None
    return f"the smallest ratio is {joined((f'{low.low:.4g} to {low.high:.4g}' for low in lows), ' or ')}"


def _average(found: re.Match[str], near: Near) -> str | None:
    """Say what the means are, if the sentence has another one."""
    printed, unit = _factor(found), _unit(found)
    if printed is None or not near.means:
        return None
    if near.sizes_of_means.meet(ValueRange(printed.span.low * unit, printed.span.high * unit)):
        return None
    return f"the mean is {near.means[0].low / unit:.4g} to {near.means[0].high / unit:.4g}"


def _mean(found: re.Match[str], near: Near) -> str | None:
    """Say what the geometric means are, if none is that of the sentence."""
    printed, means = _factor(found), near.spans_of_geometric_means
    if printed is None or not means or not printed.value:
        return None
    turned = ValueRange(1 / printed.span.high, 1 / printed.span.low) if printed.span.low > 0 else printed.span
    if means.meet(printed.span) or means.meet(turned):
        return None
    texts = (f"{mean.low:.4g} to {mean.high:.4g}" for mean in near.geometric_means)
    return f"the geometric mean is {joined(texts, ' or ')}"


def _count(found: re.Match[str], near: Near) -> str | None:
    """Say how many ratios are above 1, if the sentence counts as many cases as there are rows, and others."""
    count, cases = int(found["count"]), int(found["cases"])
    sizes, wins = near.wins
    if sizes != {cases} or any(one.low <= count <= one.high for both in wins for one in both):
        return None
    texts = (f"{one.low:.0f}" if one.low == one.high else f"{one.low:.0f} to {one.high:.0f}" for one, _ in wins)
    return f"{joined(texts, ' or ')} of {cases} are above 1"


def _ends(found: re.Match[str], near: Near) -> str | None:
    """Say which end of a range no row has."""
    low, high = read_printed(found["low"]), read_printed(found["number"])
    if low is None or high is None or low.value >= high.value:
        return None
    missing = [end.text for end in (low, high) if not _is_there(end, found, near)]
    return f"no row has {' or '.join(missing)}" if missing else None


def _exactly(found: re.Match[str], near: Near) -> str | None:
    """Say so if no row has a factor, and no mean is it."""
    printed = read_printed(found["number"])
    return None if printed is None or _is_there(printed, found, near) else f"no row has {printed.text}"


def _is_there(printed: Printed, found: re.Match[str], near: Near) -> bool:
    """True where a number is that of a row or a summary, its reciprocal if it is a ratio, or a mean."""
    unit = _unit(found)
    return near.there.meet(ValueRange(printed.span.low * unit, printed.span.high * unit)) or not any(near.rows)


_SCALES = {"g": 1e9, "t": 1e12, "p": 1e15}

_PATTERNS = (
    (_UP_TO, _highest),
    (_LEAST, _lowest),
    (_MEAN, _mean),
    (_AVERAGE, _average),
    (_FASTER, _count),
    (_RANGE, _ends),
    (_EXACTLY, _exactly),
)


def _twice(paragraphs: Sequence[Paragraph]) -> Iterator[Finding]:
    """Find a number of regressions, failures, ... that a text states twice, differently."""
    said: dict[tuple[str, ...], list[tuple[int, Paragraph, int, str]]] = defaultdict(list)
    for paragraph in paragraphs:
        for found in _EVENTS.finditer(paragraph.text):
            kind = " ".join(word for word in found["kind"].lower().split() if word not in _ARTICLES)
            beyond = "".join((found["beyond"] or "").split())
            key = (paragraph.where, kind, found["what"].lower(), beyond)
            said[key].append((int(found["count"]), paragraph, paragraph.line_of(found.start()), found[0]))
    for counts in said.values():
        values = {count for count, *_ in counts}
        if len(values) == 2:  # with more of them, each is of something else
            first = counts[0]
            other = next(one for one in counts if one[0] != first[0])
            yield _finding(other[1], other[2], other[3], f"line {first[2]} says {first[0]}", Severity.QUESTION)


_ARTICLES = frozenset(("the", "all", "only", "just", "of", "these", "those", "and"))


def _finding(paragraph: Paragraph, line: int, said: str, against: str, severity: Severity) -> Finding:
    text = " ".join(said.split())
    return RULE.said(paragraph.where, line, f"{quote(text)}: {against}", severity=severity)


RULE = Rule(
    "stated-summary",
    "a sentence states a largest ratio, a geometric mean, a range or a count that the table under the same heading, or "
    "another sentence, contradicts",
    "compute every number of a text from the table beside it, and say of which rows it is",
    check,
    ((Need.SENTENCES,),),
)
