"""Renders a section of what a command found as lines for a terminal or a pipe; a page of a report is `text`."""

from collections.abc import Callable, Iterator

from ..model import Bullets, CodeBlock, KeyNumbers, Section, Table, Text
from . import layout

Bold = Callable[[str], str]
"""Makes a line bold."""

_UNBROKEN = "\N{WORD JOINER}"
"""Stands for a blank at which a line is not wrapped."""


def lines(section: Section, width: int, bold: Bold) -> Iterator[str]:
    """Yield the lines of a section at `width` columns, with an empty line before each part; remarks are not in them."""
    empty = True
    for block in section.blocks:
        for line in _block(block, width, bold):
            empty = False
            yield line
    for part in section.sections:
        found = list(lines(part, width, bold))
        if found and not empty:
            yield ""
        yield from found
        empty = empty and not found


def _block(block: object, width: int, bold: Bold) -> Iterator[str]:
    match block:
        case Text():
            first, *rest = layout.wrap(block.text, width - block.indent - block.hang) or [""]
            yield " " * block.indent + first
            yield from (" " * (block.indent + block.hang) + line for line in rest)
        case Bullets():
            yield from (f"- {item}" for item in block.items)
        case KeyNumbers():
            for item in block.items:
                yield f"{item.label}: {bold(item.text)}"
                yield from (f"    {text}" for text in (item.detail, item.note) if text)
        case CodeBlock():
            yield from block.text.splitlines()
        case Table():
            yield from _table(block, width, bold)


def _table(table: Table, width: int, bold: Bold) -> Iterator[str]:
    """Lay out a list: first its title and what all rows have in common, then its rows under a bold header."""
    how = table.layout
    names = tuple(column.header for column in table.columns)
    right = tuple(not column.is_text for column in table.columns)
    whole = layout.TextTable(names, [[cell.text for cell in row] for row in table.rows], right)
    stated, gone = [], []
    for name, cells in zip(names, whole.columns(), strict=True):
        values = set(cells)
        once = name in how.once
        if values <= {""} and (once or name in how.long):
            gone.append(name)
        elif once and len(values) == 1:
            gone.append(name)
            stated.append(f"{name} {values.pop()}".replace(" ", _UNBROKEN))
    for text in filter(None, (table.title, ", ".join(stated))):
        yield from (line.replace(_UNBROKEN, " ") for line in layout.wrap(text, width))
    left = whole.without(gone)
    if left.names:
        header, body = layout.lay_out(left, width, how.long, how.heading)
        yield from map(bold, header)
        yield from body
