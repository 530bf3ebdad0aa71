"""The three numbers that head every report: the best speedup, the median crossover, and what bounds the cells.

Only challengers of the run can head it. A reference that happens to be the fastest is no choice to make,
and is in the grids.
"""

from dataclasses import dataclass

import pandas as pd

from ...shapes.verdict import Verdict
from ..crossover.across_shapes import MedianCrossover
from ..frames.coordinates import shape_label
from ..frames.speedup import best_speedups
from ..roofline import bound_shares
from .pipeline import Analysis

SETTLED = 2.0
"""Largest ratio of the ends of an interval for which a single number is stated."""


MOST_REASONS = 3
"""Different reasons that are named where nothing is compared."""


@dataclass(frozen=True, slots=True)
class BestSpeedup:
    """The best ratio time(baseline) / time(provider) with all its coordinates; bounds None without an interval.

    Of verified ones the one with the largest lower bound; without any, simply the largest ratio. `note` is what
    qualifies it (`speedup.speedups`), "" when nothing does.

    largest         largest ratio of any challenger, verified or not: at least `ratio`
    cells, slower   cells of challengers that have a ratio, and those of them at which it is verified to be below 1
    """

    provider: str
    baseline: str
    ratio: float
    low: float | None
    high: float | None
    verified: bool
    shape: str
    M: int
    op: str
    pass_: str
    dtype: str
    scheme: str
    cache: str
    device: str
    note: str
    largest: float
    cells: int
    slower: int

    @property
    def settled(self) -> bool:
        """True where the interval is narrow enough for `ratio` to be stated: its ends are within a factor of two."""
        return self.low is not None and self.high is not None and self.high <= SETTLED * self.low

    @property
    def slower_everywhere(self) -> bool:
        """True where no challenger is faster than the baseline at any cell, verified or not."""
        return self.largest < 1


@dataclass(frozen=True, slots=True)
class BoundShare:
    """How many of the passed cells one bound class has."""

    bound_class: str
    cells: int
    share: float


@dataclass(frozen=True, slots=True)
class Headline:
    """None where the run does not say: no speedup without a passed pair, no crossover without a challenger.

    `uncompared` says why there are neither, "" when there are. `crossover` is that of the first (pass, dtype, scheme,
    cache) that has one to tell, cold before warm; `shares` add up to 1. Of `cells` that their providers support,
    `passed` have a time, `impossible` of them one that the device does not allow: these are in `shares` alone.
    """

    best: BestSpeedup | None
    crossover: MedianCrossover | None
    uncompared: str
    shares: tuple[BoundShare, ...]
    cells: int
    passed: int
    impossible: int


def headline(analysis: Analysis) -> Headline:
    """Take the headline from the results of a run: that of its challengers, and of nothing else that ran."""
    shares = bound_shares(analysis.cells)
    uncompared = why_uncompared(analysis)
    medians = () if uncompared else analysis.medians
    return Headline(
        best=_best(analysis),
        crossover=min(medians, key=lambda found: (not found.is_informative, found.cache != "cold"), default=None),
        uncompared=uncompared,
        shares=tuple(
            BoundShare(name, int(cells), float(share))
            for name, cells, share in shares[["bound_class", "cells", "share"]].itertuples(index=False, name=None)
        ),
        cells=int((analysis.cells["verdict"] != Verdict.UNSUPPORTED).sum()),
        passed=int((analysis.cells["verdict"] == Verdict.PASSED).sum()),
        impossible=int(analysis.cells["impossible"].sum()),
    )


def _best(analysis: Analysis) -> BestSpeedup | None:
    ratios = analysis.speedups
    pool = ratios.loc[ratios["provider"].isin(analysis.run.challengers)].dropna(subset=["ratio"])
    if pool.empty:
        return None
    if (pool["verdict"] == "faster").any():
        row = best_speedups(pool, by=("baseline",)).to_dict("records")[0]
    else:
        row = pool.nlargest(1, "ratio").to_dict("records")[0]
    known = not pd.isna(row["ratio_low"])
    return BestSpeedup(
        provider=row["provider"],
        baseline=row["baseline"],
        ratio=float(row["ratio"]),
        low=float(row["ratio_low"]) if known else None,
        high=float(row["ratio_high"]) if known else None,
        verified=row["verdict"] == "faster",
        shape=shape_label(row),
        M=int(row["M"]),
        op=row["op"],
        pass_=row["pass"],
        dtype=row["dtype"],
        scheme=row["scheme"],
        cache=row["cache"],
        device=analysis.run.device.name,
        note=row["note"],
        largest=float(pool["ratio"].max()),
        cells=len(pool),
        slower=int((pool["verdict"] == "slower").sum()),
    )


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
