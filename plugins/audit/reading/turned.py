"""Tables that lie on their side: one row per quantity, one column per size or kernel."""

from dataclasses import replace

from ....analysis.imports.table import ImportedTable
from ....analysis.imports.units import is_time
from . import words as known
from .document import Titled
from .printed import read_printed

FEWEST = 2
"""Rows that name a quantity."""


def upright(titled: Titled) -> Titled:
    """Return the table with its rows as columns, where rows name quantities and columns do not; else as it is.

    `lines` are then those of the header, and `column_lines` those of the columns.
    """
    table = titled.table
    names = [row[0] for row in table.rows]
    if (
        len(table) < FEWEST
        or len(table.header) < FEWEST + 1
        or sum(map(_is_quantity, names)) < max(FEWEST, len(names) - 1)
    ):
        return titled
    if any(map(_is_no_case, table.header[1:])) or not any(map(_is_derived, names)):
        return titled
    cells = [cell for row in table.rows for cell in row[1:] if cell.strip()]
    if 2 * sum(read_printed(cell) is not None for cell in cells) < len(cells):
        return titled
    rows = tuple((name, *(row[at] for row in table.rows)) for at, name in enumerate(table.header[1:], 1))
    lines = (titled.line,) * len(rows)
    column_lines = (titled.line, *table.lines)
    turned = ImportedTable(table.where, (table.header[0], *names), rows, lines)
    return replace(titled, table=turned, column_lines=column_lines)


def _is_quantity(name: str) -> bool:
    words = {*known.words_of(name)}
    units = {*known.RATES, *known.BANDWIDTHS, *known.THROUGHPUTS}
    return is_time(name) or bool(words & units) or any(map(known.is_per_second, words)) or _is_derived(name)


def _is_no_case(name: str) -> bool:
    """True for a header of quantities, statistics or sides of a comparison, which stands on top already."""
    return _is_quantity(name) or bool(
        {*known.words_of(name)} & {*known.STATISTICS, *known.BASES, *known.HEADS, "value"}
    )


def _is_derived(name: str) -> bool:
    words = {*known.words_of(name)}
    return bool(words & {"speedup", "ratio", "%", "mfu", *known.CHANGES, *known.RATES})
