"""How much of what a run was asked for has a time, counted from rows of cells.csv."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..verdict import Verdict
from .manifest import Manifest

SHAPE = ("model", "layer", "op", "B", "E", "top_k", "N", "K")
"""One weight of one model; what a crossover is found for."""

COUNTED = ("cell_id", "verdict", *SHAPE)
"""Columns of cells.csv that are counted."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The cells of a run, those that a refinement added among them: each counts once.

    timed           all stored rounds passed
    failed          a wrong output, a crash, ...: it should have a time
    unsupported     cannot run here: its provider says so
    to_do           planned, and nothing of it is stored
    rounds_to_do    planned (cell, round) units that are missing: those of timed cells too; of `rounds`
    shapes_timed    shapes with a timed cell, of `shapes` that were asked for
    """

    timed: int
    failed: int
    unsupported: int
    to_do: int
    rounds: int
    rounds_to_do: int
    shapes: int
    shapes_timed: int

    @property
    def runnable(self) -> int:
        """Cells that could have a time here."""
        return self.timed + self.failed + self.to_do


def coverage(rows: Iterable[Mapping[Any, str]], manifest: Manifest) -> Coverage:
    """Count rows with the columns `COUNTED`. A failure ends its cell, whatever its round."""
    verdicts: dict[str, str] = {}
    shapes: dict[str, tuple[str, ...]] = {}
    stored: Counter[str] = Counter()
    for row in rows:
        cell = row["cell_id"]
        stored[cell] += 1
        shapes[cell] = tuple(row.get(name, "") for name in SHAPE)
        if verdicts.get(cell, Verdict.PASSED) == Verdict.PASSED:
            verdicts[cell] = row["verdict"]
    planned, rounds = manifest.planned_units or 0, manifest.rounds or 1
    timed = [cell for cell, verdict in verdicts.items() if verdict == Verdict.PASSED]
    unsupported = sum(verdict == Verdict.UNSUPPORTED for verdict in verdicts.values())
    missing = max(0, planned - sum(min(rounds, stored[cell]) for cell in timed) - rounds * (len(verdicts) - len(timed)))
    return Coverage(
        timed=len(timed),
        failed=len(verdicts) - len(timed) - unsupported,
        unsupported=unsupported,
        to_do=max(0, min(planned // rounds - len(verdicts), math.ceil(missing / rounds))),
        rounds=planned,
        rounds_to_do=missing,
        shapes=max(len(manifest.shapes), len(set(shapes.values()))),
        shapes_timed=len({shapes[cell] for cell in timed}),
    )
