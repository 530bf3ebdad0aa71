"""The three numbers that head every report: the best speedup, the median crossover, and what bounds the cells."""

from dataclasses import dataclass

from ..shapes.verdict import Verdict
from .coordinates import shape_label
from .median_crossover import MedianCrossover
from .pipeline import Analysis
from .roofline import bound_shares
from .speedup import best_speedups


@dataclass(frozen=True, slots=True)
class BestSpeedup:
    """The best ratio time(baseline) / time(provider) with all its coordinates; bounds None without an interval.

    Of verified ones the one with the largest lower bound; without any, simply the largest ratio. `note` is what
    qualifies it (`speedup.speedups`), "" when nothing does.
    """

    provider: str
    baseline: str
    ratio: float
    low: float | None
    high: float | None
    verified: bool
    shape: str
    M: int
    pass_: str
    dtype: str
    scheme: str
    cache: str
    device: str
    note: str


@dataclass(frozen=True, slots=True)
class BoundShare:
    """How many of the passed cells one bound class has."""

    bound_class: str
    cells: int
    share: float


@dataclass(frozen=True, slots=True)
class Headline:
    """None where the run does not say: no speedup without a passed pair, no crossover without a challenger.

    `crossover` is that of the first (pass, dtype, scheme, cache), cold before warm; `shares` add up to 1 over `cells`
    cells.
    """

    best: BestSpeedup | None
    crossover: MedianCrossover | None
    shares: tuple[BoundShare, ...]
    cells: int
    passed: int


def headline(analysis: Analysis) -> Headline:
    """Take the headline from the results of a run. The best speedup is of its challengers, or of any if none ran."""
    shares = bound_shares(analysis.cells)
    return Headline(
        best=_best(analysis),
        crossover=min(analysis.medians, key=lambda found: found.cache != "cold", default=None),
        shares=tuple(
            BoundShare(name, int(cells), float(share))
            for name, cells, share in shares[["bound_class", "cells", "share"]].itertuples(index=False, name=None)
        ),
        cells=len(analysis.cells),
        passed=int((analysis.cells["verdict"] == Verdict.PASSED).sum()),
    )


def _best(analysis: Analysis) -> BestSpeedup | None:
    ratios = analysis.speedups
    named = ratios.loc[ratios["provider"].isin(analysis.run.challengers)]
    pool = named if named["ratio"].notna().any() else ratios
    if pool["ratio"].isna().all():
        return None
    if (pool["verdict"] == "faster").any():
        row = best_speedups(pool, by=("baseline",)).to_dict("records")[0]
    else:
        row = pool.nlargest(1, "ratio").to_dict("records")[0]
    known = row["ratio_low"] == row["ratio_low"]
    return BestSpeedup(
        provider=row["provider"],
        baseline=row["baseline"],
        ratio=float(row["ratio"]),
        low=float(row["ratio_low"]) if known else None,
        high=float(row["ratio_high"]) if known else None,
        verified=row["verdict"] == "faster",
        shape=shape_label(row),
        M=int(row["M"]),
        pass_=row["pass"],
        dtype=row["dtype"],
        scheme=row["scheme"],
        cache=row["cache"],
        device=str(analysis.run.device.get("name", "")),
        note=row["note"],
    )
