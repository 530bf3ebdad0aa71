"""Tables in HTML, as people write them into markdown where they need merged cells."""

import re
from collections import deque
from collections.abc import Sequence
from html.parser import HTMLParser

from .box_table import WIDEST, Found, clean


class _Cell:
    """One cell: where it begins, its text so far, and how far it reaches."""

    def __init__(self, line: int, is_header: bool, across: int, down: int) -> None:
        self.line, self.is_header, self.across, self.down = line, is_header, across, down
        self.parts: list[str] = []


class _Rows(HTMLParser):
    """Collects the rows of the first table; `end` is the line after it, counted from 0, once it is closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[_Cell]] = []
        self.end: int | None = None
        self._cell: _Cell | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.end is not None:
            return
        if tag == "tr":
            self.rows.append([])
            self._cell = None
        elif tag in ("td", "th"):
            if not self.rows:
                self.rows.append([])
            across, down = (_count(dict(attrs).get(name)) for name in ("colspan", "rowspan"))
            self._cell = _Cell(self.getpos()[0] - 1, tag == "th", across, down)
            self.rows[-1].append(self._cell)
        elif self._cell is not None:
            self._cell.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self.end is None:
            self.end = self.getpos()[0]
        if tag in ("td", "th", "tr", "table"):
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None and self.end is None:
            self._cell.parts.append(data)


def _count(text: str | None) -> int:
    return min(int(text), WIDEST) if text and re.fullmatch(r"0*[1-9][0-9]{0,5}", text) else 1


_OPENING = re.compile(r"<table\b", re.IGNORECASE)

_CLOSING = re.compile(r"</table\b", re.IGNORECASE)


class HtmlTables:
    """Tables in the HTML of `lines`; each line belongs to one table at most, so that all of them take linear time."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._openings = [_OPENING.search(line) for line in lines]
        self._closing: list[int | None] = [None] * len(lines)
        closing = None
        for place in range(len(lines) - 1, -1, -1):
            if _CLOSING.search(lines[place]):
                closing = place
            self._closing[place] = closing
            if self._openings[place]:  # what is above it holds a table, and is none
                closing = None

    def at(self, start: int) -> Found | None:
        """Read the table whose `<table>` is in line `start`; a merged cell is repeated in every place that it covers.

        Its header is its first rows as long as all their cells are `<th>`, else its first row.
        """
        opening, closing = self._openings[start], self._closing[start]
        if opening is None or closing is None:
            return None
        text = self._lines[start : closing + 1]
        return _read("\n".join([" " * opening.start() + text[0][opening.start() :], *text[1:]]), start)


def _read(text: str, start: int) -> Found | None:
    parser = _Rows()
    parser.feed(text)
    rows = [row for row in parser.rows if row]
    if parser.end is None or len(rows) < 2:
        return None
    width = max(sum(cell.across for cell in row) for row in rows)
    reach = sum(cell.across * min(cell.down, len(rows) - at) for at, row in enumerate(rows) for cell in row)
    if max(reach, width * len(rows)) > len(text):
        return Found([], [], [], start + parser.end)
    heads = next((at for at, row in enumerate(rows) if not all(cell.is_header for cell in row)), len(rows))
    grid = _spread(rows)
    width = max(map(len, grid))
    if width > WIDEST:
        return Found([], [], [], start + parser.end)
    texts = [row + [""] * (width - len(row)) for row in grid]
    count = heads if 0 < heads < len(rows) else 1
    header = [" ".join(dict.fromkeys(filter(None, (row[at] for row in texts[:count])))) for at in range(width)]
    below = range(count, len(rows))
    places = [start + rows[at][0].line for at in below]
    return Found(header, [texts[at] for at in below], places, start + parser.end)


def _spread(rows: Sequence[Sequence[_Cell]]) -> list[list[str]]:
    """Return the texts of all places, with those of merged cells repeated."""
    grid: list[list[str]] = []
    covered: dict[int, tuple[str, int]] = {}  # column: text that reaches down into it, and for how many rows
    for row in rows:
        texts: list[str] = []
        rest = deque(row)
        reaching: dict[int, tuple[str, int]] = {}
        while rest or len(texts) in covered:
            if len(texts) in covered:
                text, left = covered.pop(len(texts))
                if left > 1:
                    reaching[len(texts)] = (text, left - 1)
                texts.append(text)
                continue
            cell = rest.popleft()
            text = clean("".join(cell.parts))
            for _ in range(min(cell.across, WIDEST + 1 - len(texts))):  # a wider one is no table
                if cell.down > 1:
                    reaching[len(texts)] = (text, cell.down - 1)
                texts.append(text)
        covered = {**covered, **reaching}
        grid.append(texts)
    return grid
