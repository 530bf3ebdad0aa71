"""What of a page is left out where it would grow too large to open and to send around.

The largest details go first: tables of single cells, then drawings of further slices, and the grids stay. What a
section lost is said in its place, with what has it (`Report.elsewhere`).
"""

import math
from collections.abc import Sequence

from ..formatting import some

LIMIT = 1_000_000
"""Bytes of a page."""

RESERVE = 20_000
"""Bytes for saying what was left out."""

MOST_TITLES = 3
"""Titles that are named of what a section lost."""


def left_out(pieces: Sequence[tuple[int, bool, bool]], room: int) -> frozenset[int]:
    """Return the positions of the pieces that go, so that the others fit into `room` bytes.

    A piece has its bytes, whether it is a detail, and whether a reader can do without it. Details go before what is
    open, large ones before small ones; of those that are about alike (within a factor of two) the last go first. What
    is left over is used for those that fit in again.
    """
    sizes = [size for size, _, _ in pieces]
    excess = sum(sizes) - room
    if excess <= 0:
        return frozenset()
    ranked = sorted(
        (index for index, (size, _, droppable) in enumerate(pieces) if droppable and size),
        key=lambda index: (pieces[index][1], math.frexp(sizes[index])[1], index),
        reverse=True,
    )
    gone: list[int] = []
    for index in ranked:
        if excess <= 0:
            break
        gone.append(index)
        excess -= sizes[index]
    for index in sorted(gone):
        if sizes[index] <= -excess:
            gone.remove(index)
            excess += sizes[index]
    return frozenset(gone)


def sentence(titles: Sequence[str]) -> str:
    """Say what a section lost."""
    return f"Left out, so that this page stays below {LIMIT / 1e6:.0f} MB: {some(titles, MOST_TITLES, '; ')}."
