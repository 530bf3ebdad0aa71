"""Tables of the page: the attributes of a cell as short as they can be, and what the page's script sorts a column by.

23,000 cells of a full suite must stay a page that opens, so alignment is a class of the table and not of each cell, and
raw values are sent along only where the numbers shown would sort otherwise.
"""

import math
import re

from markupsafe import Markup

from ..figures import colours
from ..model import Column, Scale, Table, TableCell, Tone

TONE_CLASS = {Tone.UNDECIDED: "u", Tone.FAILED: "f", Tone.MISSING: "x", Tone.BEST: "b"}

WRAP_BEYOND = 28
"""Characters of a left-aligned cell above which it may wrap."""

BAR_STEPS = 50
"""Lengths of a bar."""

ALIGNED = 16
"""Columns that the style sheet can align by a class of their table; further ones need a class on each cell."""

WIDE = 14
"""Columns from which on a table is printed smaller."""

FEWEST_ROWS = 3
"""Rows that are worth sorting."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SHOWN = re.compile(r"[~<>≤≥\s]*([-−+]?\d+(?:\.\d+)?)")
"""The number that the script reads from a cell; report.js has the same pattern."""


def is_heat(table: Table) -> bool:
    """True for a table of coloured cells."""
    return any(column.scale in (Scale.DIVERGING, Scale.SEQUENTIAL) for column in table.columns)


def table_attributes(table: Table) -> Markup:
    """Return the class attribute of a table: its kind, and which of its columns begin at the left."""
    classes = ["heat"] if is_heat(table) else []
    classes += ["wide"] if len(table.columns) > WIDE else []
    classes += [f"t{index}" for index, column in enumerate(table.columns[:ALIGNED]) if column.is_text]
    return _class(classes)


def header_attributes(table: Table, index: int) -> Markup:
    """Return the attributes of a column's header: what it is sorted by, and its alignment where the table has none."""
    kind = sort_kind(table, index)
    sort = f" data-s={kind}" if kind else ""
    return Markup(sort) + _class(_alignment(table.columns[index], index))


def attributes(column: Column, cell: TableCell, index: int = 0) -> Markup:
    """Return the class attribute of a table cell in the column at `index`."""
    classes = _alignment(column, index)
    if column.is_text and len(cell.text) > WRAP_BEYOND:
        classes.append("wr")
    if cell.level is not None and not math.isnan(cell.level):
        if column.scale is Scale.DIVERGING:
            classes.append(colours.step_name(colours.step(cell.level)))
        elif column.scale is Scale.SEQUENTIAL:
            classes.append(f"q{colours.level(cell.level)}")
        elif column.scale is Scale.BAR:
            classes.append(f"v{round(max(0.0, min(1.0, cell.level)) * BAR_STEPS)}")
    if cell.tone:
        classes.append(TONE_CLASS[cell.tone])
    return _class(classes)


def _alignment(column: Column, index: int) -> list[str]:
    return ["lt"] if column.is_text and index >= ALIGNED else []


def _class(classes: list[str]) -> Markup:
    if not classes:
        return Markup("")
    return Markup(" class=" + (classes[0] if len(classes) == 1 else f'"{" ".join(classes)}"'))


def sort_kind(table: Table, index: int) -> str:
    """Say what a column is sorted by: "n" its numbers as shown, "t" its texts, ranks of its raw values, or "": nothing.

    Ranks are written one after the other, each with as many base-36 digits, "-" where the value is unknown.
    """
    cells = [row[index] for row in table.rows[: len(table.rows) - table.footer]]
    if len(cells) < FEWEST_ROWS:
        return ""
    values = [_number(cell) for cell in cells]
    if all(value is None for value in values):
        return "t" if len({cell.text for cell in cells}) > 1 and not cells[0].text.startswith("[") else ""
    return "n" if _shown_in_order(cells, values) else _ranks(values)


def _number(cell: TableCell) -> float | None:
    """Raw value of a cell, None for texts and unknowns."""
    value = cell.value
    if isinstance(value, str) or value is None or math.isnan(value):
        return None
    return float(value)


def _shown_in_order(cells: list[TableCell], values: list[float | None]) -> bool:
    """True when the numbers that stand in the cells never contradict the order of the values behind them."""
    shown = [_shown(cell.text) for cell in cells]
    if any((value is None) != (read is None) for value, read in zip(values, shown, strict=True)):
        return False
    pairs = zip(values, shown, strict=True)
    known = sorted((value, read) for value, read in pairs if value is not None and read is not None)
    reads = [read for _, read in known]
    return reads == sorted(reads)


def _shown(text: str) -> float | None:
    found = _SHOWN.match(text)
    return float(found[1].replace("−", "-")) if found else None


def _ranks(values: list[float | None]) -> str:
    order = {value: rank for rank, value in enumerate(sorted({value for value in values if value is not None}))}
    width = len(_base36(max(0, len(order) - 1)))
    return "".join("-" * width if value is None else _base36(order[value]).rjust(width, "0") for value in values)


def _base36(number: int) -> str:
    high, low = divmod(number, 36)
    return (_base36(high) if high else "") + _DIGITS[low]
