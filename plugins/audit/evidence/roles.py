"""The columns of a table as a whole: what its title, the cells above and the labels of rows add to each of them."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ....analysis.imports import words as known
from ....analysis.imports.columns import AnnotatedColumn, ColumnRole, Override
from ....analysis.imports.printed import SECONDS, is_blank, read_printed, read_size
from ....analysis.imports.recognition import read_column
from ....analysis.imports.table import ImportedTable
from .assumptions import PER_EXPERT, TOTAL, Assumptions
from .sheet import Sheet, sizes_in


def understand(table: ImportedTable, setting: Assumptions, overrides: Sequence[Override] = ()) -> Sheet:
    """Say what the columns of a table are. Rows that sum others up, or whose output was wrong, are taken out of it."""
    table = _without_summaries(table)
    if wrong := table.wrong([one.name for one in overrides]):
        said = f"rows left out, as {next(iter(wrong.values()))} says that their output was wrong: {len(wrong)}"
        kept = table.of_rows([row for row in range(len(table)) if row not in wrong])
        table = replace(kept, notes=(*table.notes, said))
    given = {one.name: one for one in overrides}
    lower = {"n", "k"} <= set(table.header) and not {"N", "K"} & set(table.header)
    columns = [
        read_column(index, name, [row[index] for row in table.rows], lower, given.get(name))
        for index, name in enumerate(table.header)
    ]
    title_passes = known.passes_in(known.words_of(table.title))
    return Sheet(
        table,
        tuple(_in_said_unit(columns, table)),
        setting,
        setting.m_is or _said_m(table.header),
        title_passes.pop() if len(title_passes) == 1 else "",
        _title_sizes(table.title),
    )


_SAID_UNIT = re.compile(
    r"(?i)\b(?:times?|latency|latencies|runtimes?|durations?|numbers|values|results|all|measured|reported)\b[^.|\n]{0,40}?"
    r"(?:\b(?:in|by|are)\s+|[(\[])(?:(?P<time>[mnuµμ]s|(?:micro|milli|nano)seconds?)\b|(?P<bytes>[TG]B/s))"
    r"|\b(?P<rate>[TGP]FLOPS?)(?:/s)?\b(?=\s*[):\]]|\s*$|\s*\([^()]{0,20}\)\s*$)"
)
"""A unit that the words before it make one of all numbers, or a rate that ends a title or the text above a table."""

_SPELLED = {"microsecond": "us", "millisecond": "ms", "nanosecond": "ns", "µs": "us", "μs": "us"}


def _said_units(text: str) -> set[str]:
    return {(one["time"] or one["rate"] or one["bytes"]).lower() for one in _SAID_UNIT.finditer(text)}


def _in_said_unit(columns: list[AnnotatedColumn], table: ImportedTable) -> list[AnnotatedColumn]:
    """Columns whose header gives no quantity are of the one that the title or the text above names, with its unit."""
    if any(
        column.role in (ColumnRole.TIME, ColumnRole.RATE, ColumnRole.THROUGHPUT, ColumnRole.BANDWIDTH)
        for column in columns
    ):
        return columns
    said = _said_units(table.title) or _said_units(table.lead)
    units = {_SPELLED.get(word.rstrip("s"), _SPELLED.get(word, word)) for word in said}
    if len(units) != 1:
        return columns
    unit = units.pop()
    if unit in SECONDS:
        role, scale = ColumnRole.TIME, float(SECONDS[unit])
    elif unit.endswith("b/s"):
        role, scale = ColumnRole.BANDWIDTH, known.BANDWIDTHS[unit.replace("/", "")]
    else:
        role, scale = ColumnRole.RATE, known.RATES[unit]
    return [
        replace(column, role=role, unit=scale, detail="")
        if column.role is ColumnRole.OTHER
        and (not column.is_whole or column.fixed)
        and not set(known.words_of(column.name)) & known.ERRORS
        else column
        for column in columns
    ]


def _title_sizes(title: str) -> dict[str, int]:
    """Sizes that a title gives, each once, or together ("8192^3", "m=n=k=4096")."""
    said = re.findall(r"(?<![\w=])([MNKBE])\s*=\s*(\d+[kK]?)\b", title)
    sizes = {name: read_size(text) for name, text in said if sum(name == other for other, _ in said) == 1}
    return {name: size for name, size in sizes.items() if size} if said else sizes_in(title)


def _without_summaries(table: ImportedTable) -> ImportedTable:
    """Take out rows whose only text is a statistic of the others, unless all rows are such."""
    kept = []
    for number, row in enumerate(table.rows):
        texts = [cell for cell in row if cell.strip() and read_printed(cell) is None and not is_blank(cell)]
        if len(texts) != 1 or not known.is_summary(known.words_of(texts[0])):
            kept.append(number)
    return table if len(kept) in (0, 1, len(table)) else table.of_rows(kept)


def _said_m(header: Sequence[str]) -> str:
    if known.TOTAL_M & set(header):
        return TOTAL
    return PER_EXPERT if known.PER_EXPERT_M & set(header) else ""
