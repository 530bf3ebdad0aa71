"""What to do about what a run leaves open."""

from enum import StrEnum

import pandas as pd

from ..crossover.curve import DELTA


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
