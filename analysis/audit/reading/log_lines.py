"""Tables that nobody drew: lines of a log, each with the same quantities, "M: 16 | Time: 62.1 us | TFLOPS: 1.06"."""

import itertools
import re
from collections.abc import Sequence

from .box_table import WIDEST, Found, clean, run_ends
from .printed import is_blank, read_printed

_SEPARATORS = re.compile(r"\([^()]*\)|(?P<mark>[|,;](?=\s|$)|(?<=\s)-(?=\s))")

LONGEST = 1000
"""Characters of a line of a log; a longer one is something else."""

_KEYED = re.compile(r"(?P<key>[^\W\d][^:=]{0,40}?)\s*[:=]\s*(?P<value>[^:=]+)")

_NAMED = re.compile(r"(?P<name>[^\W\d]\w*):\s+(?P<rest>[^\W\d][^:=]{0,40}=.*)")
"""A name before the first key: "Wall: avg=0.07"."""

_SIZES = re.compile(r"\([^()]*=[^()]*\)")

_QUANTITY = re.compile(
    r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?\s*(?P<unit>[munµμ]?s(?:/run)?|[MGT]FLOP/run|[kMG]B/run|[TGP]FLOP(?:[Ss]?/s|S|s)?|[TG]B/s|[TG]Bps)(?![\w/])"
)

FEWEST = 2
"""Quantities that make a line one of a log."""


class LogLines:
    """Such lines in `lines`; each is cut once, so that asking at every line takes linear time."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._rows = [_cut(line) for line in lines]
        self._keys = [tuple(key for key, _ in row) for row in self._rows]
        self._ends = run_ends(self._keys)

    def at(self, start: int) -> Found | None:
        """Read the log that begins at line `start`; None when fewer than two lines there are alike."""
        keys, end = self._keys[start], self._ends[start]
        if not keys or end - start < 2 or len(keys) > WIDEST:
            return None
        rows = [[value for _, value in row] for row in self._rows[start:end]]
        return Found(list(keys), rows, list(range(start, end)), end)


def _cut(line: str) -> list[tuple[str, str]]:
    """Cut a line into keys and values, a number with a unit being its own key; none for what is no line of a log."""
    fields = _fields(line) if len(line) <= LONGEST and not line.lstrip().startswith("|") else []
    if len(fields) < FEWEST:
        return []
    cells: list[tuple[str, str]] = []
    quantities = 0
    for part in fields:
        sizes = _SIZES.findall(part)
        cells += [("shape", one) for one in sizes]
        rest = _SIZES.sub(" ", part)
        if not cells and (named := _NAMED.fullmatch(rest.strip())):
            cells.append(("", named["name"]))
            rest = named["rest"]
        keyed = _KEYED.fullmatch(rest.strip())
        if (
            keyed and not cells and (own := _QUANTITY.fullmatch(keyed["value"].strip()))
        ):  # a name, and its first quantity
            *name, last = keyed["key"].split()
            cells += [("", " ".join(name)), (last, own[0])] if name else [("", last), (own["unit"], own[0])]
            quantities += 1
            continue
        if keyed and (read_printed(keyed["value"]) is not None or is_blank(keyed["value"])):
            cells.append((clean(keyed["key"]), clean(keyed["value"])))
            quantities += 1
            continue
        found = list(_QUANTITY.finditer(rest))
        quantities += len(found)
        cells += [(one["unit"], one[0].removesuffix(one["unit"]) if "/run" in one["unit"] else one[0]) for one in found]
        if text := " ".join(_QUANTITY.sub(" ", rest).split()).strip(":> "):
            cells.append((clean(keyed["key"]), clean(keyed["value"])) if keyed and not found else ("", text))
    names = [key for key, _ in cells if key]
    if quantities < FEWEST or len(names) < FEWEST or len(set(names)) < len(names):
        return []
    return cells


def _fields(line: str) -> list[str]:
    """Cut a line at its marks outside of parentheses."""
    places = [found.start() for found in _SEPARATORS.finditer(line) if found["mark"]]
    return [line[start + 1 : end] for start, end in itertools.pairwise([-1, *places, len(line)])]
