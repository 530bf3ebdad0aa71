"""Tables whose columns are aligned by blanks, as pandas and reStructuredText print them."""

import re
from collections.abc import Sequence

from .box_table import WIDEST, Found, run_ends
from .printed import is_blank, read_printed

_GAPS = re.compile(r"\s{2,}")

_RULE = re.compile(r"[\s\-=─━]+")

LEAST = 3
"""Columns of a table without a rule below its header."""


class AlignedTables:
    """Such tables in `lines`. Each line is cut once, so that asking at every line takes linear time."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._rows = [_GAPS.split(line.strip()) for line in lines]
        self._is_rule = [bool(line.strip() and _RULE.fullmatch(line)) for line in lines]
        numbers = [sum(map(_is_number, row)) for row in self._rows]
        self._has_numbers = [count > 0 for count in numbers]
        self._ends = run_ends(
            [len(row) if 3 * count >= len(row) else 0 for row, count in zip(self._rows, numbers, strict=True)]
        )

    def at(self, start: int) -> Found | None:
        """Read the table whose header is line `start`; None when the lines below it are not rows."""
        header, first = self._rows[start], start + 1
        has_rule = first < len(self._rows) and self._is_rule[first]
        first += has_rule
        if first >= len(self._rows) or self._has_numbers[start] or not self._has_numbers[first]:
            return None
        end = self._ends[first]
        rows = self._rows[first:end]
        if len(rows[0]) == len(header) + 1 and all(row[0] == str(at) for at, row in enumerate(rows)):
            header = ["index", *header]  # as pandas prints a frame
        if len(header) != len(rows[0]) or not (2 if has_rule else LEAST) <= len(header) <= WIDEST:
            return None
        return Found(header, rows, list(range(first, end)), end)


def _is_number(cell: str) -> bool:
    return read_printed(cell) is not None or (is_blank(cell) and cell != "")
