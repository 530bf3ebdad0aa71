"""What of a page is left out where it would grow too large to open and to send around.

The largest details go first: tables of single cells, then drawings of further slices, and the grids stay. What a
section lost is said in its place, with what has it (`Report.elsewhere`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..formatting import some

LIMIT = 1_000_000
"""Bytes of a page."""

RESERVE = 20_000
"""Bytes for saying what was left out."""

MOST_TITLES = 3
"""Titles that are named of what a section lost."""


@dataclass(frozen=True, slots=True)
class PageBlock:
    """One block of a page: its bytes, and whether a reader can do without it."""

    size: int
    detail: bool
    droppable: bool = True


def left_out(pieces: Sequence[PageBlock], room: int) -> frozenset[int]:
    """Return the positions of the pieces that go, so that the others fit into `room` bytes.

    Details go before what is open, large ones before small ones; of those that are about alike (within a factor of
    two) the last go first. What is left over is used for those that fit in again.
    """
    excess = sum(piece.size for piece in pieces) - room
    if excess <= 0:
        return frozenset()
    ranked = sorted(
        (index for index, piece in enumerate(pieces) if piece.droppable and piece.size),
        key=lambda index: (pieces[index].detail, math.frexp(pieces[index].size)[1], index),
        reverse=True,
    )
    gone: list[int] = []
    for index in ranked:
        if excess <= 0:
            break
        gone.append(index)
        excess -= pieces[index].size
    for index in sorted(gone):
        if pieces[index].size <= -excess:
            gone.remove(index)
            excess += pieces[index].size
    return frozenset(gone)


def sentence(titles: Sequence[str]) -> str:
    """Say what a section lost."""
    return f"Left out, so that this page stays below {LIMIT / 1e6:.0f} MB: {some(titles, MOST_TITLES, '; ')}."
