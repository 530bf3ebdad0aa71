"""A header that lost its column borders when it was pasted, cut into as many names as its rows have cells.

Where single blanks separate both the columns and the words of their names, only the words tell: a size stands alone,
"this" belongs to what follows, "TFLOPS" to what precedes. The weakest joints between words become the borders.
"""

import itertools
import re
from collections.abc import Sequence

from .printed import read_printed
from .words import BASES, CHANGES, COUNTS, HEADS, IDS, LABELS, PASSES, RATES, SIZES, STATISTICS

_PIECES = re.compile(r"[^\s()]*(?:\((?:[^()]|\([^()]*\))*\))+|\S+")

_UNITS = frozenset(("ms", "us", "µs", "μs", "ns", "s", "%"))

_ENDS = frozenset((*RATES, *_UNITS, "speedup", "ratio", "time", "latency", "peak", *(CHANGES - {"Δ", "δ"})))

_OPENERS = frozenset(("Δ", "δ", "this", "the", "≥", "≤", ">=", "<=", "of", "per", "%"))

_ALONE = -5.0


def with_second_row(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], Sequence[Sequence[str]]]:
    """Join a header that has blanks with a first row that has names only: "H100 | |" above "M | ms | TFLOPS".

    A blank stands for the name to its left, as merged cells do.
    """
    filled = [cell for cell in rows[0] if cell.strip()] if rows else []
    blanks = sum(not name.strip() for name in header)
    if len(rows) < 2 or not blanks or len(filled) < max(2, blanks):
        return list(header), rows
    if any(read_printed(cell) is not None for cell in filled) or not any(read_printed(cell) for cell in rows[1]):
        return list(header), rows
    above: list[str] = []
    for name in header:
        above.append(name if name.strip() or not above else above[-1])
    return [
        f"{own if not below.strip() else top} {below}".strip()
        for own, top, below in zip(header, above, rows[0], strict=True)
    ], rows[1:]


def pieces_of(line: str) -> list[str]:
    """Words of a header line; a parenthesis goes with the word before it ("Old (ms)")."""
    found: list[str] = []
    for piece in _PIECES.findall(line):
        if piece.startswith("(") and found:
            found[-1] += f" {piece}"
        else:
            found.append(piece)
    return found


def cut_header(line: str, columns: int) -> list[str] | None:
    """Cut `line` into `columns` names; None when it has fewer words than that."""
    pieces = pieces_of(line)
    if len(pieces) < columns:
        return None
    joints = [(_bond(left, right), place) for place, (left, right) in enumerate(itertools.pairwise(pieces))]
    borders = sorted(place for _, place in sorted(joints)[: columns - 1])
    names, start = [], 0
    for border in [*borders, len(pieces) - 1]:
        names.append(" ".join(pieces[start : border + 1]))
        start = border + 1
    return names


def strongest_bond(pieces: list[str]) -> float:
    """Largest bond between neighbouring words: above 1, some of them surely belong to one name."""
    return max((_bond(left, right) for left, right in itertools.pairwise(pieces)), default=0.0)


def _bond(left: str, right: str) -> float:
    """How strongly two neighbouring words belong to one name."""
    first, last = left.lower(), right.lower()
    if first in _OPENERS:
        return 4.0
    if last in ("≥", "≤", ">=", "<="):
        return 4.0
    if _stands_alone(left) or _stands_alone(right):
        return _ALONE
    if "(" in left:  # a unit or a remark ends a name
        return -2.0
    head, tail = _kind(first), _kind(last)
    if tail == "opener":
        return -2.0
    return _BONDS.get(head, {}).get(tail, 0.0)


_BONDS = {
    "side": {"end": 2.0, "pass": 1.5, "statistic": 1.0, "rate": 2.0, "change": 1.0, "side": -1.0},
    "pass": {"end": 2.0, "side": 1.5, "statistic": 1.5, "rate": 2.0, "change": 2.0, "pass": -1.0},
    "rate": {"change": 2.0, "side": -2.0, "pass": -2.0, "rate": -2.0},
    "statistic": {"side": -1.5, "statistic": -2.0, "change": -1.5},
    "end": {"side": -2.0, "pass": -2.0, "end": -0.5, "rate": -1.0},
    "change": {"pass": -1.5, "side": -2.0, "rate": -1.0},
}
"""Kind of a word: that of the next one, and how strongly they belong together."""


def _kind(word: str) -> str:
    bare = word.split(" ")[0]
    for kind, known in (
        ("pass", PASSES),
        ("side", BASES | HEADS),
        ("statistic", STATISTICS),
        ("rate", RATES),
        ("change", CHANGES - {"Δ", "δ"}),
        ("end", _ENDS),
    ):
        if bare in known:
            return kind
    return "opener" if bare in ("Δ", "δ", "this", "the") else ""


def _stands_alone(word: str) -> bool:
    bare = word.split(" ")[0]
    small = bare.lower().lstrip("#")
    return (
        bare in SIZES
        or small in IDS
        or small in LABELS - {"kernel"}
        or small in COUNTS - {"shapes"}
        or "=" in bare
        or "_" in bare
    )
