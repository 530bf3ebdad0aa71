"""What samples of rounds say of a time, by the method of a run (`analysis.run.summarize`).

Samples are given by the name of a call: one sequence of seconds per round.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..analysis.run.summarize import time_intervals, timer_steps

Samples = Mapping[str, Sequence[Sequence[float]]]


def round_medians(samples: Samples) -> pd.DataFrame:
    """Return one row per (call, round): cell_id (the name of the call), round, median_s."""
    groups = _frame(samples).groupby(["cell_id", "round"], sort=False)
    return groups["time_s"].median().rename("median_s").reset_index()


def estimates(samples: Samples) -> pd.DataFrame:
    """Return by name: time_s, the geometric mean of the round medians; time_low_s, time_high_s; resolution_s.

    The bounds are NaN with one round; resolution_s is the step of a coarse timer, NaN where there is none.
    """
    medians = round_medians(samples)
    time_s = np.exp(np.log(medians["median_s"]).groupby(medians["cell_id"], sort=False).mean())
    times = pd.DataFrame({"time_s": time_s, "resolution_s": timer_steps(_frame(samples)).reindex(time_s.index)})
    return times.join(time_intervals(medians, times))


def _frame(samples: Samples) -> pd.DataFrame:
    rows = [
        (name, number, time_s)
        for name, rounds in samples.items()
        for number, taken in enumerate(rounds)
        for time_s in taken
    ]
    return pd.DataFrame(rows, columns=["cell_id", "round", "time_s"])
