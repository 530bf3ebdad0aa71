"""The columns of a table as a whole: what its title, the cells above and the labels of rows add to each of them."""

import re
from collections.abc import Sequence
from dataclasses import replace

from ....analysis.imports.table import ImportedTable
from ....analysis.imports.units import SECONDS
from . import words as known
from .annotated_table import AnnotatedColumn, ColumnRole, Sheet, Summary, sizes_in
from .assumptions import PER_EXPERT, TOTAL, Assumptions
from .column import Override, read_column
from .document import Titled
from .printed import is_blank, read_printed, read_size
from .several import spread
from .turned import upright


def understand(titled: Titled, setting: Assumptions, overrides: Sequence[Override] = ()) -> Sheet:
    """Say what the columns of a table are. Rows that sum others up are taken out of it."""
    titled = upright(titled)
    table, beside = spread(titled.table)
    if titled.column_lines:
        own = [at for at in range(len(table.header)) if at not in beside]
        lines = dict(zip(own, titled.column_lines, strict=True))
        titled = replace(titled, column_lines=tuple(lines[beside.get(at, at)] for at in range(len(table.header))))
    titled, summaries = _without_summaries(replace(titled, table=table))
    table = _filled_down(titled.table)
    titled = replace(titled, table=table)
    given = {one.name: one for one in overrides}
    lower = {"n", "k"} <= set(table.header) and not {"N", "K"} & set(table.header)
    columns = []
    for index, name in enumerate(table.header):
        texts = [row[index] for row in table.rows]
        columns.append(read_column(index, name, texts, lower, given.get(name) if index not in beside else None))
    columns = _by_row_labels(_in_said_unit(_under_sizes(columns, titled), titled), titled)
    columns = [
        _beside(column, columns[beside[column.index]]) if column.index in beside else column for column in columns
    ]
    title_passes = known.passes_in(known.words_of(titled.title))
    return Sheet(
        titled,
        tuple(columns),
        setting,
        setting.m_is or _said_m(table.header),
        title_passes.pop() if len(title_passes) == 1 else "",
        summaries,
        _title_sizes(titled.title),
    )


def _beside(column: AnnotatedColumn, own: AnnotatedColumn) -> AnnotatedColumn:
    """Make a column out of the second quantities of the cells of `own`: a ratio, change or share of its numbers."""
    role, detail = column.role, ""
    units = {cell.unit for cell in column.cells if cell is not None}
    if units == {"x"}:
        role = ColumnRole.RATIO
    elif units == {"%"}:
        is_signed = any(cell is not None and cell.text[:1] in "+-\u2212" for cell in column.cells)
        role = ColumnRole.CHANGE if is_signed else _SHARES.get(own.role, ColumnRole.OTHER)
        detail = "bandwidth" if own.role is ColumnRole.BANDWIDTH and not is_signed else ""
    else:  # a quantity of its own
        return column
    return replace(
        column,
        role=role,
        detail=detail,
        side=own.side,
        pass_=own.pass_,
        fixed=own.fixed,
        core=own.core,
        beside=own.index,
    )


_SHARES = {ColumnRole.RATE: ColumnRole.PEAK_SHARE, ColumnRole.BANDWIDTH: ColumnRole.PEAK_SHARE}


_ALL_SIZES = re.compile(r"(?:\b(?:M|BS|batch(?:[ _]?size)?|tokens?|num_tokens)\s*=?\s*)?(\d{1,6}[kK]?)", re.IGNORECASE)

FEWEST_SIZES = 3
"""Headers in ascending order that are sizes and nothing else."""


def _under_sizes(columns: list[AnnotatedColumn], titled: Titled) -> list[AnnotatedColumn]:
    """Take headers that are numbers in ascending order for sizes of one dimension, as in a table on its side."""
    found = [_ALL_SIZES.fullmatch(column.name.strip()) for column in columns]
    sizes = {
        column.index: size for column, one in zip(columns, found, strict=True) if one and (size := read_size(one[1]))
    }
    values = [*sizes.values()]
    if len(values) < FEWEST_SIZES or sorted(set(values)) != values[: len(set(values))]:
        return columns
    if not any(column.role is ColumnRole.LABEL for column in columns):
        return columns
    return [
        replace(column, fixed={"M": sizes[column.index]}, side="") if column.index in sizes else column
        for column in columns
    ]


_SAID_UNIT = re.compile(
    r"(?i)\b(?:times?|latency|latencies|runtimes?|durations?|numbers|values|results|all|measured|reported)\b[^.|\n]{0,40}?"
    r"(?:\b(?:in|by|are)\s+|[(\[])(?:(?P<time>[mnuµμ]s|(?:micro|milli|nano)seconds?)\b|(?P<bytes>[TG]B/s))"
    r"|\b(?P<rate>[TGP]FLOPS?)(?:/s)?\b(?=\s*[):\]]|\s*$|\s*\([^()]{0,20}\)\s*$)"
)
"""A unit that the words before it make one of all numbers, or a rate that ends a title or the text above a table."""

_SPELLED = {"microsecond": "us", "millisecond": "ms", "nanosecond": "ns", "µs": "us", "μs": "us"}


def _said_units(text: str) -> set[str]:
    return {(one["time"] or one["rate"] or one["bytes"]).lower() for one in _SAID_UNIT.finditer(text)}


def _in_said_unit(columns: list[AnnotatedColumn], titled: Titled) -> list[AnnotatedColumn]:
    """Columns whose header gives no quantity are of the one that the title or the text above names, with its unit."""
    if any(
        column.role in (ColumnRole.TIME, ColumnRole.RATE, ColumnRole.THROUGHPUT, ColumnRole.BANDWIDTH)
        for column in columns
    ):
        return columns
    said = _said_units(titled.title) or _said_units(titled.lead)
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


_DITTO = frozenset(("", '"', "''", "〃", "↑"))


def _filled_down(table: ImportedTable) -> ImportedTable:
    """Repeat what a row leaves out at its beginning because it is in the row above: merged cells, in markdown."""
    rows: list[tuple[str, ...]] = []
    for row in table.rows:
        blank = next((at for at, cell in enumerate(row) if cell.strip() not in _DITTO), 0)
        above = rows[-1][:blank] if rows else row[:blank]
        if any(read_printed(cell) is not None for cell in row[blank:]):
            above = above if all(_is_name(cell) for cell in above) else row[:blank]
            rows.append((*above, *row[blank:]))
        else:
            rows.append(row)
    return ImportedTable(table.where, table.header, tuple(rows), table.lines)


def _is_name(cell: str) -> bool:
    """True for what names a row: a text, or a size, and nothing that was measured."""
    number = read_printed(cell)
    return number is None or (not number.unit and "." not in number.digits)


def _title_sizes(title: str) -> dict[str, int]:
    """Sizes that a title gives, each once, or together ("8192^3", "m=n=k=4096")."""
    said = re.findall(r"(?<![\w=])([MNKBE])\s*=\s*(\d+[kK]?)\b", title)
    sizes = {name: read_size(text) for name, text in said if sum(name == other for other, _ in said) == 1}
    return {name: size for name, size in sizes.items() if size} if said else sizes_in(title)


def _without_summaries(titled: Titled) -> tuple[Titled, tuple[Summary, ...]]:
    """Take out rows whose only text is a statistic, unless all rows are such."""
    table = titled.table
    found: dict[int, Summary] = {}
    for number, row in enumerate(table.rows):
        if not any(word in "\t".join(row).lower() for word in known.SUMMARIES):
            continue
        texts = [cell for cell in row if cell.strip() and read_printed(cell) is None and not is_blank(cell)]
        words = [word for text in texts for word in known.words_of(text)]
        if len(texts) == 1 and (statistic := known.summary_in(words)):
            cells = {at: cell for at, text in enumerate(row) if (cell := read_printed(text)) is not None}
            found[number] = Summary(statistic, table.lines[number], cells)
    if not found or len(found) >= len(table) - 1:
        return titled, ()
    kept = [number for number in range(len(table)) if number not in found]
    rows, lines = tuple(table.rows[at] for at in kept), tuple(table.lines[at] for at in kept)
    return replace(titled, table=ImportedTable(table.where, table.header, rows, lines)), tuple(found.values())


def _said_m(header: Sequence[str]) -> str:
    if known.TOTAL_M & set(header):
        return TOTAL
    return PER_EXPERT if known.PER_EXPERT_M & set(header) else ""


def _by_row_labels(columns: list[AnnotatedColumn], titled: Titled) -> list[AnnotatedColumn]:
    """Columns named by sides alone ("main", "this PR") hold what the labels of their rows say, where all agree."""
    if any(column.role in (ColumnRole.TIME, ColumnRole.RATE) for column in columns):
        return columns
    labels = [column.index for column in columns if column.role is ColumnRole.LABEL]
    texts = [" ".join(row[index] for index in labels) for row in titled.table.rows]
    if not all(set(known.words_of(text)) & set(known.RATES) for text in texts):
        return columns
    sides = known.BASES | known.HEADS
    return [
        replace(column, role=ColumnRole.RATE, unit=1e12, detail="aggregate")
        if column.role in (ColumnRole.OTHER, ColumnRole.STATISTIC) and set(column.side.split()) & sides
        else column
        for column in columns
    ]
