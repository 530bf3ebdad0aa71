"""Minima, medians and other quantiles of one row that do not ascend."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from ..reading.words import QUANTILES

_MEANS = frozenset(("mean", "average", "avg"))
"""Words of one that stands between the extremes, and anywhere there."""

AGREEING = 2
"""Rows that ascend for each that does not."""


def check(case: Case) -> Iterator[Finding]:
    """Compare neighbouring statistics of one quantity in every row."""
    for sheet in case.stacked:
        groups: dict[tuple[object, ...], list[tuple[float, AnnotatedColumn]]] = defaultdict(list)
        for column in sheet.of(
            ColumnRole.TIME, ColumnRole.RATE, ColumnRole.THROUGHPUT, ColumnRole.STATISTIC, ColumnRole.OTHER
        ):
            words = column.core & {*QUANTILES, *_MEANS}
            if len(words) == 1:
                (word,) = words
                rest = frozenset(column.side.split()) - {*QUANTILES, *_MEANS}
                groups[rest, column.pass_, *column.fixed.items()].append((QUANTILES.get(word, -1.0), column))
        for ranked in groups.values():
            units = {column.unit for _, column in ranked if column.role is ColumnRole.TIME}
            if len(units) <= 1:
                yield from _disordered(sheet, ranked)


def _disordered(sheet: Sheet, ranked: Sequence[tuple[float, AnnotatedColumn]]) -> Iterator[Finding]:
    pairs = [
        (lower, upper)
        for rank, lower in ranked
        for other, upper in ranked
        if (0 <= rank < other) or (rank == 0 and other < 0) or (rank < 0 and other == 1)
    ]
    wrong: dict[int, tuple[AnnotatedColumn, AnnotatedColumn]] = {}
    told = set()
    for lower, upper in pairs:
        for row, (low, high) in sheet.spans(lower, upper):
            told.add(row)
            if low.low > high.high:
                wrong.setdefault(row, (lower, upper))
    if len(told) - len(wrong) < AGREEING * len(wrong):
        return
    for row, (lower, upper) in wrong.items():
        message = f"{lower.name} {sheet.quoted(row, lower)} is above {upper.name} {sheet.quoted(row, upper)}"
        yield RULE.at(sheet, row, message, lower)


RULE = Rule(
    "order",
    "a minimum, mean or quantile above one that cannot be below it, where most rows ascend",
    "print the statistics of one set of samples",
    check,
    ((Need.MEASURED, Need.SUMMARIES),),
)
