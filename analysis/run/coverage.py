"""How much of what a run was asked for has a time, and what to do about the rest."""

import math
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from ...shapes.verdict import Verdict
from ..crossover.curve import DELTA
from ..frames.coordinates import SHAPE
from ..frames.load import RunData


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


def coverage(run: RunData, summary: pd.DataFrame) -> Coverage:
    """Count the cells of a run, from its `summarize`."""
    timed, unsupported = (summary["verdict"] == verdict for verdict in (Verdict.PASSED, Verdict.UNSUPPORTED))
    missing, rounds = run.missing_units, run.manifest.rounds or 1
    shapes = summary[[*SHAPE]].drop_duplicates()
    return Coverage(
        timed=int(timed.sum()),
        failed=int((~timed & ~unsupported).sum()),
        unsupported=int(unsupported.sum()),
        to_do=max(0, min(run.planned_units // rounds - len(summary), math.ceil(missing / rounds))),
        rounds=run.planned_units,
        rounds_to_do=missing,
        shapes=max(len(run.manifest.shapes), len(shapes)),
        shapes_timed=len(summary.loc[timed, [*SHAPE]].drop_duplicates()),
    )


class Remedy(StrEnum):
    """What settles what is open; `NONE` where measuring does not."""

    DEVICE = "device"
    RESUME = "resume"
    SWEEP = "sweep"
    ROUNDS = "rounds"
    NONE = ""


def remedy(
    *, rounds_to_do: int = 0, one_M: bool = False, more_rounds: bool = False, device_changed: bool = False
) -> Remedy:
    """Return what to do first: nothing else helps while the device changes, or part of the plan is missing.

    one_M        shapes were asked for at one M, where it takes two
    more_rounds  something is undecided that they can decide, see `are_ties`
    """
    if device_changed:
        return Remedy.DEVICE
    if rounds_to_do:
        return Remedy.RESUME
    if one_M:
        return Remedy.SWEEP
    return Remedy.ROUNDS if more_rounds else Remedy.NONE


def are_ties(undecided: pd.DataFrame) -> bool:
    """Return whether all of some ratios without a verdict stay without: their intervals lie within 1 % of 1."""
    return bool(((undecided["ratio_low"] > 1 - DELTA) & (undecided["ratio_high"] < 1 + DELTA)).all())
