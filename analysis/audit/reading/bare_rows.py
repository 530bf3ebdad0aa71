"""Tables without a header: lines that differ in their numbers, and in what names them, and in nothing else."""

import re
from collections.abc import Sequence

from .box_table import WIDEST, Found, clean, run_ends
from .printed import is_blank, read_printed

FEWEST = 3
"""Lines that are alike."""

FEWEST_NUMBERS = 2
"""Numbers of each."""

LONGEST = 1000
"""Characters of such a line."""

WORDIEST = 6
"""Words between two numbers that are no prose, ..."""

LONGEST_START = 20
"""... and before the first one."""

_KEY = re.compile(r"(?<=[A-Za-z\])])([=:])(?=[-+~]?\d)")

_TORN = re.compile(r"^[^({\[]*[)}\]]|[({\[][^)}\]]*$")
"""Half of a pair of brackets, in which numbers stand: no name."""

_PER_RUN = re.compile(r"/(?:op|iter|run|call|step)$")

Cells = list[tuple[str, bool]]
"""Texts, and whether each is a number."""


class BareRows:
    """Such lines in `lines`; each is cut once, so that asking at every line takes linear time."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._rows = [_cut(line) for line in lines]
        self._ends = run_ends([tuple(number for _, number in row) for row in self._rows])

    def at(self, start: int) -> Found | None:
        """Read the rows that begin at line `start`; None when fewer than three lines there are alike."""
        end = self._ends[start]
        width = len(self._rows[start])
        if not 0 < width <= WIDEST or end - start < FEWEST:
            return None
        header, columns = [""] * width, list(zip(*self._rows[start:end], strict=True))
        for at in range(width - 1, -1, -1):  # what all lines say before a number is its name
            texts = {text for text, _ in columns[at]}
            if not columns[at][0][1] and len(texts) == 1:
                name = texts.pop().strip(" :=-|")
                if at + 1 < len(columns) and columns[at + 1][0][1] and not _TORN.search(name):
                    header[at + 1] = name
                del header[at], columns[at]
        rows = [[text for text, _ in row] for row in zip(*columns, strict=True)]
        return Found(header, rows, list(range(start, end)), end)


def _cut(line: str) -> Cells:
    """Cut a line at its bars, else between its numbers; nothing for prose."""
    if len(line) > LONGEST or line.lstrip()[:2] in ("- ", "* ", "• "):
        return []
    cells = _barred(line) if line.count("|") > 1 else _worded(line)
    numbers = [text for text, number in cells if number]
    wordy = any(
        len(text.split()) > (WORDIEST if at else LONGEST_START) for at, (text, number) in enumerate(cells) if not number
    )
    measured = any(not text.isdigit() for text in numbers)
    return cells if len(numbers) >= FEWEST_NUMBERS and measured and not wordy else []


def _barred(line: str) -> Cells:
    parts = line.strip().strip("|").split("|")
    return [(clean(part), read_printed(part) is not None) for part in parts]


def _worded(line: str) -> Cells:
    cells: Cells = []
    for token in _KEY.sub(r"\1 ", line.replace("|", " ")).split():
        word = _PER_RUN.sub("", token.strip(",;"))
        if cells and cells[-1][1] and not _is_number(word) and _is_number(f"{cells[-1][0]} {word}"):
            cells[-1] = (f"{cells[-1][0]} {word}", True)
        elif _is_number(word.rstrip(":")):
            cells.append((word.rstrip(":"), True))
        elif cells and not cells[-1][1]:
            cells[-1] = (f"{cells[-1][0]} {token}", False)
        else:
            cells.append((token, False))
    return cells


def _is_number(text: str) -> bool:
    return read_printed(text) is not None or (is_blank(text) and text.strip(" -") != "")
