"""Text tables: every row can be read and told apart at any width, and nothing is cut.

A table is laid out in the first of these ways that fits:

1. every cell on one line;
2. the words of a header below each other;
3. `long` texts wrapped in their column, if they get `READABLE` characters;
4. `long` texts on an indented line under their row, the first of them, then more;
5. and `heading` columns on a line of their own above the rows that have them in common.

What fits in none of them is laid out in the last, and the terminal wraps it: names and numbers are never broken.
"""

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

WIDTH = 100
"""Columns of a text that is written to a file."""

READABLE = 40
"""Characters that a wrapped text needs in its column; with less room it goes under its row."""

SHORTEST = 24
"""Characters of a line of text at least: on a narrower terminal, the terminal wraps it."""

GAP, INDENT = "  ", "    "

_STYLED = re.compile("\x1b\\[[0-9;]*m")
"""What bold and colour are written as."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells as text, all rows as long as `names`; a text may be styled (`CSI ... m`).

    `right`: which columns are aligned to the right; None: those of numbers.
    """

    names: tuple[str, ...]
    rows: list[list[str]]
    right: tuple[bool, ...] | None = None

    def without(self, names: Collection[str]) -> "TextTable":
        """Return the other columns."""
        kept = [index for index, name in enumerate(self.names) if name not in names]
        return TextTable(
            tuple(self.names[index] for index in kept),
            [[row[index] for index in kept] for row in self.rows],
            tuple(self.right[index] for index in kept) if self.right is not None else None,
        )

    def columns(self) -> list[tuple[str, ...]]:
        """Return the cells of each column."""
        return list(zip(*self.rows, strict=True)) if self.rows else [()] * len(self.names)


@dataclass(frozen=True, slots=True)
class _Style:
    """One way to lay a table out: which names stand where. `wrapped` is the column that gets what the others leave."""

    stacked: bool = True
    wrapped: str | None = None
    below: tuple[str, ...] = ()
    heading: tuple[str, ...] = ()


def lay_out(
    table: TextTable, width: int, long: Sequence[str] = (), heading: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Return the lines of the header and of the rows."""
    texts = tuple(name for name in long if name in table.names)
    shared = tuple(name for name in table.names if name in heading)
    styles = [_Style(stacked=False), _Style()]
    if len(texts) == 1:
        styles.append(_Style(wrapped=texts[0]))
    styles += [_Style(below=texts[:count]) for count in range(1, len(texts) + 1)]
    if shared and len(shared) + len(texts) < len(table.names):
        styles += [_Style(below=texts[:count], heading=shared) for count in range(min(1, len(texts)), len(texts) + 1)]
    for style in styles:
        layout = _Layout(table, style, width)
        if layout.fits:
            break
    return layout.header(), list(layout.body())


class _Layout:
    """A table in one style at one width."""

    def __init__(self, table: TextTable, style: _Style, width: int) -> None:
        self._table, self._style, self._width = table, style, width
        self._indent = INDENT if style.heading else ""
        self._inline = inline = table.without((*style.below, *style.heading))
        self._stacks = [_words(name) if style.stacked else [name] for name in inline.names]
        columns = inline.columns()
        self._right = inline.right if inline.right is not None else [is_numeric(cells) for cells in columns]
        self._widths = [
            max(map(shown_len, (*stack, *cells))) for stack, cells in zip(self._stacks, columns, strict=True)
        ]
        self._wrapped = inline.names.index(style.wrapped) if style.wrapped is not None else None
        left = width - len(self._indent) - len(GAP) * (len(inline.names) - 1) - sum(self._widths)
        if self._wrapped is None:
            self.fits = left >= 0
        else:
            self._widths[self._wrapped] += left
            self.fits = self._widths[self._wrapped] >= READABLE

    def header(self) -> list[str]:
        """Return its lines: the names of headings first, that of a column that goes under its row last."""
        height = max(map(len, self._stacks))
        levels = zip(*([""] * (height - len(stack)) + stack for stack in self._stacks), strict=True)
        lines = [self._indent + self._line(level) for level in levels]
        above = [", ".join(self._style.heading)] if self._style.heading else []
        under = [self._indent + INDENT + name for name in self._style.below] if len(self._style.below) == 1 else []
        return [line for line in (*above, *lines, *under) if line.strip()]

    def body(self) -> Iterator[str]:
        """Yield the lines of all rows, each heading once above the rows that follow each other under it."""
        places = {name: index for index, name in enumerate(self._table.names)}
        last: list[str] | None = None
        for row, cells in zip(self._table.rows, self._inline.rows, strict=True):
            heading = [row[places[name]] for name in self._style.heading]
            if heading and heading != last:
                yield ", ".join(filter(None, heading))
            last = heading
            yield from (self._indent + line for line in self._row(cells))
            for name in sorted(self._style.below, key=places.__getitem__):
                label = f"{name}: " if len(self._style.below) > 1 else ""
                indent = self._indent + INDENT
                if text := row[places[name]]:
                    yield from (indent + line for line in wrap(label + text, self._width - len(indent)))

    def _row(self, cells: Sequence[str]) -> Iterator[str]:
        """Yield one row of columns in line: several lines where one of them is wrapped."""
        if self._wrapped is None:
            yield self._line(cells)
            return
        text = wrap(cells[self._wrapped], self._widths[self._wrapped]) or [""]
        others: Sequence[str] = cells
        for part in text:
            yield self._line([part if index == self._wrapped else other for index, other in enumerate(others)])
            others = [""] * len(cells)

    def _line(self, cells: Sequence[str]) -> str:
        padded = []
        for text, width, right in zip(cells, self._widths, self._right, strict=True):
            space = " " * (width - shown_len(text))
            padded.append(space + text if right else text + space)
        return GAP.join(padded).rstrip()


def shown_len(text: str) -> int:
    """Columns of a terminal that `text` takes."""
    return cell_len(_STYLED.sub("", text) if "\x1b" in text else text)


def _words(name: str) -> list[str]:
    """Take a header apart; one word keeps the blanks that make its column wide."""
    words = name.split()
    return words if len(words) > 1 else [name]


def wrap(text: str, width: int) -> list[str]:
    """Break a text between words into lines of `width`; a word that is longer stays whole."""
    return textwrap.wrap(text, max(SHORTEST, width), break_long_words=False, break_on_hyphens=False)


_NUMBER = re.compile(r"[-\u2212<>~≥≤]?\s*\d[\d.]*(e[-+]?\d+)?\s?(%|×|[^\d\s]{1,8})?")


def is_numeric(cells: Sequence[str]) -> bool:
    """True for a column that is aligned to the right: of numbers, with or without a unit, and unknowns."""
    return any(cells) and all(not text or _NUMBER.fullmatch(text.strip()) for text in cells)
