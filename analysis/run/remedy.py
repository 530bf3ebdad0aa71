"""What to do about what a run leaves open."""

import pandas as pd

from ..crossover.curve import DELTA


def remedy(
    *,
    rounds_to_do: int = 0,
    one_M: bool = False,
    more_rounds: bool = False,
    device_changed: bool = False,
    run: str = "",
) -> str:
    """Say what to do first: nothing else helps while the device changes, or part of the plan of `run` is missing.

    one_M        shapes were asked for at one M, where it takes two
    more_rounds  something is undecided that they can decide, see `are_ties`

    "" where measuring settles nothing.
    """
    if device_changed:
        return "the device changed: measure again on an idle device"
    if rounds_to_do:
        return f"resume the run: rooflens run --resume -o {run}"
    if one_M:
        return "sweep M with the option -a"
    return "more rounds narrow the intervals" if more_rounds else ""


def are_ties(undecided: pd.DataFrame) -> bool:
    """Return whether all of some ratios without a verdict stay without: their intervals lie within 1 % of 1."""
    return bool(((undecided["ratio_low"] > 1 - DELTA) & (undecided["ratio_high"] < 1 + DELTA)).all())
