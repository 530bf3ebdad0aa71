"""What the device reported while it was measured: over the whole run, and per cell.

Rows are batches of samples, so a share of the rows is a share of the batches, and what is shorter than a batch is not
seen. Unknown stays unknown: a quantity that no row has is None or NaN.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

WORTH_COOLING = ("thermal", "hardware")
"""Slowdowns under which samples do not count; any other word (power_cap, ...) is only a label."""


Range: TypeAlias = tuple[float, float, float]
"""Least, median and largest of one quantity over the batches that know it, in base units."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The run as its telemetry saw it.

    slowdowns         (word, share of the batches) of what held the clock down, the most frequent first
    other_processes   most processes of others on the device at once
    busy_elsewhere    CPU: share of all cores that others used
    """

    batches: int
    clock_hz: Range | None
    memory_clock_hz: Range | None
    temperature_c: Range | None
    power_w: Range | None
    slowdowns: tuple[tuple[str, float], ...]
    other_processes: int | None
    busy_elsewhere: Range | None


def conditions(telemetry: pd.DataFrame) -> Conditions | None:
    """Summarize the rows of telemetry.csv; None without any."""
    if telemetry.empty:
        return None
    shares = telemetry["slowdown"].str.get_dummies(" ").mean().drop("", errors="ignore")
    most_first = shares.sort_values(ascending=False, kind="stable")
    others = telemetry["other_processes"].dropna()
    return Conditions(
        batches=len(telemetry),
        clock_hz=_range(telemetry["clock_hz"]),
        memory_clock_hz=_range(telemetry["memory_clock_hz"]),
        temperature_c=_range(telemetry["temperature_c"]),
        power_w=_range(telemetry["power_w"]),
        slowdowns=tuple((str(word), share) for word, share in most_first.items()),
        other_processes=int(others.max()) if len(others) else None,
        busy_elsewhere=_range(telemetry["busy_elsewhere"]),
    )


def by_cell(telemetry: pd.DataFrame) -> pd.DataFrame:
    """Per cell_id: clock_hz, the median over its batches, and slowdown, the words seen in any, space-separated."""
    clock = telemetry.groupby("cell_id", sort=False)["clock_hz"].median()
    slowed = telemetry.loc[telemetry["slowdown"] != ""].groupby("cell_id")["slowdown"].agg(_joined)
    return pd.DataFrame({"clock_hz": clock, "slowdown": slowed.reindex(clock.index, fill_value="").astype("str")})


def _joined(texts: "pd.Series[str]") -> str:
    """The words of some texts, those that invalidate samples first."""
    words = {word for text in texts.unique() for word in text.split()}
    return " ".join(sorted(words, key=lambda word: (word not in WORTH_COOLING, word)))


def _range(values: "pd.Series[float]") -> Range | None:
    known = values.dropna().to_numpy(dtype=np.float64)
    if not len(known):
        return None
    return float(known.min()), float(np.median(known)), float(known.max())
