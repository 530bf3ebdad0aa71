"""The headline of a run: how its challengers stand against the baseline, the one that wins most first.

All numbers of a `Standing` are of one challenger in one setting. A reference that happens to be the fastest is no
choice to make, and is in the grids.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...shapes.verdict import Verdict
from ..crossover.across_shapes import MedianCrossover
from ..crossover.curve import CrossoverStatus
from ..frames.coordinates import SETTING, shape_label
from ..frames.speedup import one_cache
from .pipeline import Analysis

LIMITS = ("memory", "compute", "launch")
"""What a time is at least, whatever the implementation: columns NAME_time_s of the cells."""

MOST_REASONS = 3
"""Different reasons that are named where nothing is compared."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Time of the baseline / time of the challenger at one M; bounds None without an interval.

    shapes  distinct GEMMs that the geometric mean is over, of `asked`; both 1 for a single cell, which `shape` names
    """

    M: int
    ratio: float
    low: float | None
    high: float | None
    shapes: int = 1
    asked: int = 1
    shape: str = ""

    @property
    def verified(self) -> bool:
        """True where the interval excludes 1."""
        return self.low is not None and self.high is not None and (self.low > 1 or self.high < 1)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one challenger stands against the baseline in one setting: pass, dtype, scheme and cache state.

    means       geometric mean over the shapes at each M that has a ratio
    best, worst the cells with the largest and the smallest ratio
    faster, slower  cells verified to be so, of `cells` with a ratio
    crossover   None where no side of any shape is verified
    limit       of the cells at which it is verified faster and whose limit is known: the median of
                `fraction_of_bound`, how many they are, and which of LIMITS bounds most; None without any
    """

    challenger: str
    setting: tuple[str, ...]
    means: tuple[Ratio, ...]
    best: Ratio
    worst: Ratio
    faster: int
    slower: int
    cells: int
    crossover: MedianCrossover | None
    limit: tuple[float, int, str] | None


@dataclass(frozen=True, slots=True)
class Headline:
    """The first standing leads: the others are those of other challengers in its setting, then other settings.

    `uncompared` says why there is none, "" where there is one.
    """

    standings: tuple[Standing, ...]
    uncompared: str

    @property
    def lead(self) -> Standing | None:
        """The standing that heads a report."""
        return self.standings[0] if self.standings else None


def headline(analysis: Analysis) -> Headline:
    """Take the headline from the results of a run: that of its challengers, and of nothing else that ran."""
    ratios = one_cache(analysis.speedups, analysis.challengers)
    groups = {(str(key[0]), key[1:]): rows for key, rows in ratios.groupby(["provider", *SETTING], sort=False)}
    settings = list(dict.fromkeys(setting for _, setting in groups))
    leading = next((name for name in analysis.challengers for found, _ in groups if found == name), "")
    settings.sort(key=lambda setting: (leading, setting) not in groups)
    return Headline(
        tuple(
            _standing(analysis, name, setting, groups[name, setting])
            for setting in settings
            for name in analysis.challengers
            if (name, setting) in groups
        ),
        why_uncompared(analysis),
    )


def _standing(analysis: Analysis, challenger: str, setting: tuple[Any, ...], ratios: pd.DataFrame) -> Standing:
    means = analysis.means
    own = (means["provider"] == challenger) & (means[[*SETTING]] == [*setting]).all(axis=1)
    means = means[own & means["ratio"].notna()].sort_values("M")
    cells = analysis.cells
    won = cells[cells["cell_id"].isin(ratios.loc[ratios["verdict"] == "faster", "cell_id"])]
    best, worst = (pick(1, "ratio").to_dict("records")[0] for pick in (ratios.nlargest, ratios.nsmallest))
    return Standing(
        challenger=challenger,
        setting=setting,
        means=tuple(_ratio(row, int(row["gemms"]), _asked(analysis, row)) for row in means.to_dict("records")),
        best=_ratio(best, shape=shape_label(best)),
        worst=_ratio(worst, shape=shape_label(worst)),
        faster=len(won),
        slower=int((ratios["verdict"] == "slower").sum()),
        cells=len(ratios),
        crossover=verified_crossover(analysis, challenger, setting),
        limit=_limit(won),
    )


def _ratio(row: dict[Any, Any], shapes: int = 1, asked: int = 1, shape: str = "") -> Ratio:
    low, high = (None if pd.isna(row[end]) else float(row[end]) for end in ("ratio_low", "ratio_high"))
    return Ratio(int(row["M"]), float(row["ratio"]), low, high, shapes, asked, shape)


def _asked(analysis: Analysis, mean: dict[Any, Any]) -> int:
    """Count the distinct GEMMs that a mean would be over if all that was asked for at its M had a ratio."""
    asked = int(mean["cells"] + mean["excluded"])
    if analysis.coverage.to_do:
        own = [shape for shape in analysis.run.manifest.shapes if not shape.Ms or mean["M"] in shape.Ms]
        asked = max(asked, len(own))
    return asked - int(mean["cells"] - mean["gemms"])


def _limit(won: pd.DataFrame) -> tuple[float, int, str] | None:
    known = won[won["fraction_of_bound"].notna()]
    if known.empty:
        return None
    limits = known[[f"{name}_time_s" for name in LIMITS]].to_numpy(dtype=np.float64)
    most = np.bincount(np.nanargmax(limits, axis=1)).argmax()
    return float(known["fraction_of_bound"].median()), len(known), LIMITS[most]


def verified_crossover(analysis: Analysis, challenger: str, setting: tuple[Any, ...]) -> MedianCrossover | None:
    """Return the median crossover of a challenger in a setting; None where no side of any shape is verified."""
    unverified = {CrossoverStatus.UNDECIDED, CrossoverStatus.UNMEASURED}
    mine = (one for one in analysis.medians if (one.challenger, one.setting) == (challenger, setting))
    return next((one for one in mine if one.statuses.keys() - unverified), None)


def why_uncompared(analysis: Analysis) -> str:
    """Return a sentence without its full stop; "" when some challenger and the baseline have a time for one cell."""
    run, cells = analysis.run, analysis.cells
    ratios = analysis.speedups
    own = ratios.loc[ratios["provider"].isin(run.challengers)]
    if own["ratio"].notna().any():
        return ""
    baseline = cells.loc[cells["provider"] == run.baseline]
    if not (baseline["verdict"] == Verdict.PASSED).any():
        return f"the baseline {run.baseline} has no time here{_because(baseline)}"
    if not run.challengers:
        return "no challenger is named in this run"
    present = cells.loc[cells["provider"].isin(run.challengers)]
    if present.empty:
        return f"no challenger ({', '.join(run.challengers)}) was measured"
    by_reason: dict[str, list[str]] = {}
    for name, rows in present.groupby("provider", sort=False):
        by_reason.setdefault(_because(rows), []).append(str(name))
    stated = [f"{', '.join(names)}{reason}" for reason, names in by_reason.items()]
    named = "; ".join(stated[:MOST_REASONS]) + (
        f"; and {len(stated) - MOST_REASONS} more" if len(stated) > MOST_REASONS else ""
    )
    if (present["verdict"] == Verdict.UNSUPPORTED).all():
        return f"no challenger can run on this device ({named})"
    if (present["verdict"] == Verdict.PASSED).any():
        reasons = list(dict.fromkeys(own["reason"].loc[own["reason"] != ""]))
        return f"no challenger has a time beside one of {run.baseline} ({'; '.join(reasons[:MOST_REASONS])})"
    return f"no challenger has a time ({named})"


def _because(cells: pd.DataFrame) -> str:
    """Write ": " and the first stored reason, with its verdict where that is not that it is unsupported."""
    failed = cells.loc[cells["verdict"] != Verdict.PASSED]
    if failed.empty:
        return ""
    verdict, reason = str(failed["verdict"].iloc[0]), str(failed["reason"].iloc[0])
    why = reason if verdict == Verdict.UNSUPPORTED and reason else ", ".join(filter(None, (verdict, reason)))
    return f": {why}"
