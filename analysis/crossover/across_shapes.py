"""The median crossover over shapes, and beside it the threshold that costs least: they are not the same number."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pandas as pd

from ...shapes.median import interval
from ...shapes.problem import Op
from ..frames.coordinates import SETTING, shape_label
from ..statistics.arrays import Floats
from .curve import CrossoverStatus

_ALIKE = 1e-9
"""Share by which means of regret may differ that are equal but for rounding."""

_APART = (CrossoverStatus.PARITY, CrossoverStatus.ONE_M, CrossoverStatus.UNMEASURED)
"""What has no place on the axis of M, and so none in the median."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The rule "challenger where M <= M_threshold" with the least mean regret over the measured cells.

    Regret of a cell is ln(t_chosen / t_best) between the two providers. A cell weighs as much as the stretch of log2 M
    that it stands for, so that M which a refinement added around a crossover weigh no more than the sweep. `M` is 0
    when the challenger is never chosen, inf when always. `worst_shape` and `worst_M` name the cell where the rule loses
    most ("" when it loses nowhere).
    """

    M: float
    cells: int
    mean_regret: float
    worst_regret: float
    worst_shape: str
    worst_M: int


@dataclass(frozen=True, slots=True)
class MedianCrossover:
    """Median over shapes for one pair of providers and one (pass, dtype, scheme, cache).

    median_M      inf: half or more of the shapes cross beyond `M_max`; 0: half or more before `M_min`; None: no shape
    low_M, high_M 95 % interval by order statistics, 0 and inf as above; None for fewer than six shapes
    shapes        shapes in the median; parity, reversed (the challenger wins above) and those measured at one M or none
                  are apart
    statuses      number of shapes per status, reversed ones excluded
    has_passes    False for a quantization, which is no part of a training step
    """

    challenger: str
    incumbent: str
    pass_: str
    dtype: str
    scheme: str
    cache: str
    median_M: float | None
    low_M: float | None
    high_M: float | None
    shapes: int
    statuses: dict[str, int]
    reversed: int
    M_min: float | None
    M_max: float | None
    has_passes: bool
    threshold: Threshold | None
    warnings: tuple[str, ...]

    @property
    def setting(self) -> tuple[str, ...]:
        """Pass, dtype, scheme and cache state."""
        return (self.pass_, self.dtype, self.scheme, self.cache)

    @property
    def setting_words(self) -> tuple[str, ...]:
        """The whole setting for a reader; the pass of an operation that has one pass goes without saying."""
        return self.setting if self.has_passes else self.setting[1:]

    @property
    def is_informative(self) -> bool:
        """False where every shape was measured at one M or none."""
        return self.reversed > 0 or any(CrossoverStatus(status).is_informative for status in self.statuses)

    @property
    def text(self) -> str:
        """The median as a report prints it: "42", "> 2048", "< 1", "none", or "needs two M"."""
        if not self.is_informative and CrossoverStatus.ONE_M in self.statuses:
            return "needs two M"
        return self.as_text(self.median_M)

    @property
    def interval_text(self) -> str:
        """The interval as a report prints it: "31 to > 2048", or "" when there is none."""
        if self.low_M is None or self.high_M is None:
            return ""
        return f"{self.as_text(self.low_M)} to {self.as_text(self.high_M)}"

    def as_text(self, size: float | None) -> str:
        """Print a crossover M with the censoring of this sweep."""
        if size is None or self.M_min is None or self.M_max is None:
            return "none"
        if size == 0:
            return f"< {self.M_min:g}"
        return f"> {self.M_max:g}" if math.isinf(size) else _text(size)


def median_crossovers(crossovers: pd.DataFrame) -> tuple[MedianCrossover, ...]:
    """Return one median per (pass, dtype, scheme, cache) of the rows of `crossovers.crossovers`, in their order."""
    return tuple(median_crossover(rows) for _, rows in crossovers.groupby(list(SETTING), sort=False))


def median_crossover(crossovers: pd.DataFrame) -> MedianCrossover:
    """Take the median over shapes, none dropped: beyond M_max counts as +inf, before the first M as 0.

    Dropping either biases the median by an octave at 40 % censoring. A shape with several crossovers enters with its
    first verified one. The two middle values of an even number are averaged in log2 M. `crossovers` must be rows of one
    pair of providers and one (pass, dtype, scheme, cache), at least one.
    """
    first = crossovers.iloc[0]
    one_of = ["challenger", "incumbent", *SETTING]
    if len(crossovers[one_of].drop_duplicates()) > 1:
        raise ValueError("a median crossover is of one pair of providers, pass, dtype, scheme and cache state")
    reversed_ = (crossovers["challenger_wins"] == "above").to_numpy(dtype=bool)
    apart = reversed_ | crossovers["status"].isin(_APART).to_numpy(dtype=bool)
    entered = crossovers.loc[~apart]
    values = sorted(map(_value, entered["status"], entered["crossover_M"]))
    bounds = interval(values)
    point = _log_median(values) if values else None
    measured = crossovers.dropna(subset=["M_max"])
    return MedianCrossover(
        challenger=first["challenger"],
        incumbent=first["incumbent"],
        pass_=first["pass"],
        dtype=first["dtype"],
        scheme=first["scheme"],
        cache=first["cache"],
        median_M=None if point is None or math.isnan(point) else point,
        low_M=bounds[0] if bounds else None,
        high_M=bounds[1] if bounds else None,
        shapes=len(values),
        statuses=dict(Counter(crossovers.loc[~reversed_, "status"].tolist())),
        reversed=int(reversed_.sum()),
        M_min=float(measured["M_min"].min()) if len(measured) else None,
        M_max=float(measured["M_max"].max()) if len(measured) else None,
        has_passes=bool((crossovers["op"] != Op.QUANTIZE).any()),
        threshold=best_threshold(measured),
        warnings=(
            *_warnings(entered, values, point, bounds is not None, int(reversed_.sum())),
            *_too_few(crossovers["status"]),
        ),
    )


def best_threshold(crossovers: pd.DataFrame) -> Threshold | None:
    """Find the constant M with the least mean regret; among equals the least worst regret, then the smallest M.

    None with fewer than two distinct M: there is no rule in M to choose.
    """
    labels = [shape_label(row) for row in crossovers.to_dict("records")]
    shape = np.repeat(np.arange(len(labels)), [len(sizes) for sizes in crossovers["Ms"]])
    sizes = np.array([size for row in crossovers["Ms"] for size in row], dtype=np.float64)
    y = np.array([value for row in crossovers["log_ratios"] for value in row], dtype=np.float64)
    if len(np.unique(sizes)) < 2:
        return None
    weights = np.concatenate([_stretches(row) for row in crossovers["Ms"] if len(row)])
    weights /= weights.sum()
    candidates = [0.0, *np.unique(sizes).tolist()]
    regrets = [np.where(sizes <= limit, np.maximum(y, 0), np.maximum(-y, 0)) for limit in candidates]
    means = [float(weights @ regret) for regret in regrets]
    least = min(means) * (1 + _ALIKE)
    chosen = min(
        (i for i in range(len(candidates)) if means[i] <= least), key=lambda i: (regrets[i].max(), candidates[i])
    )
    regret, limit = regrets[chosen], candidates[chosen]
    worst = int(regret.argmax())
    loses = regret[worst] > 0
    return Threshold(
        M=math.inf if limit == sizes.max() else limit,
        cells=len(sizes),
        mean_regret=means[chosen],
        worst_regret=float(regret[worst]),
        worst_shape=labels[shape[worst]] if loses else "",
        worst_M=int(sizes[worst]) if loses else 0,
    )


def _text(size: float) -> str:
    return f"{size:.0f}" if size >= 10 else f"{size:.2g}"


def _stretches(sizes: Sequence[int]) -> Floats:
    """Octaves that each of rising `sizes` stands for: half of both gaps around it; at the ends, the only gap."""
    if len(sizes) == 1:
        return np.ones(1)
    gaps = np.diff(np.log2(np.asarray(sizes, dtype=np.float64)))
    return np.asarray((np.append(gaps[:1], gaps) + np.append(gaps, gaps[-1:])) / 2, dtype=np.float64)


def _too_few(statuses: "pd.Series[str]") -> list[str]:
    """Say how many shapes tell nothing, because they were measured at one M."""
    count = int((statuses == CrossoverStatus.ONE_M).sum())
    if not count:
        return []
    every = "the shape" if count == 1 else f"all {count} shapes"
    of = every if count == len(statuses) else f"{count} of {len(statuses)} shapes"
    verb = "was" if count == 1 else "were"
    return [f"{of} {verb} measured at one M, and a crossover needs two: sweep M with the option -a"]


def _value(status: str, crossover_M: float) -> float:
    if CrossoverStatus(status).is_beyond:
        return math.inf
    return 0.0 if status == CrossoverStatus.NEVER else float(crossover_M)


def _log_median(values: Sequence[float]) -> float:
    """Median, averaged in log2 between two middle values; NaN when those are 0 and inf."""
    logs = [math.log2(value) if value > 0 else -math.inf for value in values]
    middle = median(logs)
    return math.nan if math.isnan(middle) else 2.0**middle


def _warnings(
    entered: pd.DataFrame, values: list[float], point: float | None, has_interval: bool, reversed_: int
) -> list[str]:
    warnings = []
    if point is not None and math.isnan(point):
        warnings.append("half of the shapes cross before the first M and half beyond the last: there is no median")
    if values and not has_interval:
        verb = "is" if len(values) == 1 else "are"
        warnings.append(f"no interval: it takes six shapes, and there {verb} {len(values)}")
    if reversed_:
        warnings.append(f"apart: {reversed_} of {len(entered) + reversed_} crossovers, the challenger wins above them")
    censored = entered.loc[entered["status"].isin([status for status in CrossoverStatus if status.is_beyond]), "M_max"]
    # An infinite median is printed as beyond the largest M of any shape.
    reach = entered["M_max"].max() if point is not None and math.isinf(point) else point
    if reach is not None and (early := int((censored < reach).sum())):
        count = "1 shape counts" if early == 1 else f"{early} shapes count"
        warnings.append(f"{count} as beyond M={_text(reach)}, the median, although measured to a smaller M only")
    if unverified := int((~entered["verified"].astype(bool)).sum()):
        warnings.append(f"not verified: {unverified} of {len(entered)} crossovers; more rounds would decide them")
    return warnings
