"""The median crossover over shapes, and the single threshold that costs least: they are not the same number.

Both treat the two providers alike: with the roles swapped they give the same M, and the other side of it.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median, median_high, median_low

import numpy as np
import pandas as pd

from ...shapes.median import interval
from ..frames.coordinates import SETTING, shape_label
from ..statistics.arrays import Flags, Floats
from .curve import CrossoverStatus, bracket, estimate

_ALIKE = 1e-9
"""Share by which means of regret may differ that are equal but for rounding."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The rule "challenger on one side of M, incumbent on the other" with the least mean regret over measured cells.

    `side` BELOW: the challenger where M <= `M`; ABOVE: where M >= `M`; AHEAD: at every M; BEHIND: at none. The last two
    have no `M`. Regret of a cell is ln(t_chosen / t_best) between the two providers. A cell weighs as much as the
    stretch of log2 M that it stands for, so that M which a refinement added around a crossover weigh no more than the
    sweep. `worst_shape` and `worst_M` name the cell where the rule loses most ("" when it loses nowhere).
    """

    side: CrossoverStatus
    M: float | None
    cells: int
    mean_regret: float
    worst_regret: float
    worst_shape: str
    worst_M: int


@dataclass(frozen=True, slots=True)
class MedianCrossover:
    """Median over shapes for one pair of providers and one (pass, dtype, scheme, cache).

    side        BELOW or ABOVE: where the challenger is faster in most of the shapes that cross; None: in neither
    places      estimates of the shapes in the median, ascending; 0 and inf before and beyond the measured M. Shapes
                that cross to the other side, several times, or are undecided, are in no median
    median_M    estimate: the median of `places`, 0 and inf as there; None without any
    between     medians of the lower and of the upper ends of the brackets: the median of these shapes is between them
    low_M, high_M
                95 % interval by order statistics of those ends, 0 and inf where open; None for fewer than six shapes
    statuses    number of shapes per status
    """

    challenger: str
    incumbent: str
    pass_: str
    dtype: str
    scheme: str
    cache: str
    side: CrossoverStatus | None
    places: tuple[float, ...]
    median_M: float | None
    between: tuple[float, float] | None
    low_M: float | None
    high_M: float | None
    statuses: dict[str, int]
    M_min: float | None
    M_max: float | None
    threshold: Threshold | None
    warnings: tuple[str, ...]

    @property
    def setting(self) -> tuple[str, ...]:
        """Pass, dtype, scheme and cache state."""
        return (self.pass_, self.dtype, self.scheme, self.cache)

    @property
    def is_informative(self) -> bool:
        """False where every shape was measured at one M or none."""
        return any(CrossoverStatus(status).is_informative for status in self.statuses)

    @property
    def text(self) -> str:
        """The median as a report prints it: "42", "> 2048", "< 1"; without one, the status of all shapes, or "none"."""
        if self.median_M is not None and self.between is not None:
            low, high = self.between
            open_ = f"< {_text(high)}" if self.median_M == 0 else f"> {_text(low)}"
            return _text(self.median_M) if 0 < self.median_M < math.inf else open_
        if not self.is_informative:
            return "none" if self.M_max is None else "needs two M"
        told = [status for status in self.statuses if CrossoverStatus(status).is_informative]
        return told[0] if len(told) == 1 else "none"

    @property
    def interval_text(self) -> str:
        """The interval as a report prints it: [31, 63], [512, > 2048]; "" when there is none."""
        if self.low_M is None or self.high_M is None:
            return ""
        return f"[{self.as_text(self.low_M)}, {self.as_text(self.high_M)}]"

    def as_text(self, size: float) -> str:
        """Write an M of `places` or of the interval: an open one is below or above all that was measured."""
        if self.M_min is None or self.M_max is None:
            return "none"
        if size == 0:
            return f"< {_text(self.M_min)}"
        return f"> {_text(self.M_max)}" if math.isinf(size) else _text(size)


def median_crossovers(crossovers: pd.DataFrame) -> tuple[MedianCrossover, ...]:
    """Return one median per (pass, dtype, scheme, cache) of the rows of `per_shape.crossovers`, in their order."""
    return tuple(median_crossover(rows) for _, rows in crossovers.groupby(list(SETTING), sort=False))


def median_crossover(crossovers: pd.DataFrame) -> MedianCrossover:
    """Take the median over the shapes that cross to the usual side, and those of which one end is open.

    Dropping the latter biases the median by an octave at 40 % censoring. The two middle values of an even number are
    averaged in log2 M. `crossovers` must be rows, one at least, of one pair of providers and one setting.
    """
    first = crossovers.iloc[0]
    one_of = ["challenger", "incumbent", *SETTING]
    if len(crossovers[one_of].drop_duplicates()) > 1:
        raise ValueError("a median crossover is of one pair of providers, pass, dtype, scheme and cache state")
    statuses = Counter(crossovers["status"].tolist())
    below, above = statuses[CrossoverStatus.BELOW], statuses[CrossoverStatus.ABOVE]
    side = None if below == above else CrossoverStatus.BELOW if below > above else CrossoverStatus.ABOVE
    ends = [bracket(regions, side) for regions in crossovers["regions"]]
    entered = [
        (estimate(sizes, ratios, side, found), *found)
        for sizes, ratios, found in zip(crossovers["Ms"], crossovers["log_ratios"], ends, strict=True)
        if side and found
    ]
    apart = Counter(status for status, found in zip(crossovers["status"], ends, strict=True) if not found)
    places, lows, highs = (sorted(values) for values in zip(*entered, strict=True)) if entered else ([], [], [])
    bounds = interval(lows), interval(highs)
    measured = crossovers.dropna(subset=["M_max"])
    return MedianCrossover(
        challenger=first["challenger"],
        incumbent=first["incumbent"],
        pass_=first["pass"],
        dtype=first["dtype"],
        scheme=first["scheme"],
        cache=first["cache"],
        side=side,
        places=tuple(places),
        median_M=_log_median(places) if places else None,
        between=(median_low(lows), median_high(highs)) if places else None,
        low_M=bounds[0][0] if bounds[0] else None,
        high_M=bounds[1][1] if bounds[1] else None,
        statuses=dict(statuses),
        M_min=float(measured["M_min"].min()) if len(measured) else None,
        M_max=float(measured["M_max"].max()) if len(measured) else None,
        threshold=best_threshold(measured),
        warnings=tuple(_warnings(crossovers, apart, len(places))),
    )


def best_threshold(crossovers: pd.DataFrame) -> Threshold | None:
    """Find the rule with the least mean regret; among equals the least worst regret, then no threshold, then a small M.

    None with fewer than two distinct M: there is no rule in M to choose.
    """
    labels = [shape_label(row) for row in crossovers.to_dict("records")]
    shape = np.repeat(np.arange(len(labels)), [len(sizes) for sizes in crossovers["Ms"]])
    sizes = np.array([size for row in crossovers["Ms"] for size in row], dtype=np.float64)
    y = np.array([value for row in crossovers["log_ratios"] for value in row], dtype=np.float64)
    cuts = np.unique(sizes)
    if len(cuts) < 2:
        return None
    weights = np.concatenate([_stretches(row) for row in crossovers["Ms"] if len(row)])
    weights /= weights.sum()
    rules: list[tuple[CrossoverStatus, float | None, Flags]] = [
        (CrossoverStatus.BEHIND, None, sizes < 0),
        (CrossoverStatus.AHEAD, None, sizes > 0),
    ]
    for below, above in pairwise(cuts.tolist()):
        rules.append((CrossoverStatus.BELOW, below, sizes <= below))
        rules.append((CrossoverStatus.ABOVE, above, sizes >= above))
    regrets = [np.where(chosen, np.maximum(y, 0), np.maximum(-y, 0)) for _, _, chosen in rules]
    means = [float(weights @ regret) for regret in regrets]
    least = min(means) * (1 + _ALIKE)
    # The rules are in pairs that swap the roles, so an earlier pair is preferred whatever the roles are.
    best = min((i for i in range(len(rules)) if means[i] <= least), key=lambda i: (regrets[i].max(), i // 2))
    (side, limit, _), regret = rules[best], regrets[best]
    worst = int(regret.argmax())
    loses = regret[worst] > 0
    return Threshold(
        side=side,
        M=limit,
        cells=len(sizes),
        mean_regret=means[best],
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


def _log_median(values: Sequence[float]) -> float:
    """Median, averaged in log2 between two middle values."""
    logs = [math.log2(value) if value > 0 else -math.inf for value in values]
    return float(2.0 ** median(logs))


def _warnings(crossovers: pd.DataFrame, apart: Mapping[str, int], entered: int) -> Iterator[str]:
    if 0 < entered < 6:
        yield f"no interval: it takes six shapes, and there {'is' if entered == 1 else 'are'} {entered}"
    if entered and apart:
        yield f"not in the median: {', '.join(f'{count} {status}' for status, count in apart.items())}"
    if count := int((crossovers["Ms"].str.len() == 1).sum()):
        every = "the shape" if count == 1 else f"all {count} shapes"
        of = every if count == len(crossovers) else f"{count} of {len(crossovers)} shapes"
        verb = "was" if count == 1 else "were"
        yield f"{of} {verb} measured at one M, and a crossover needs two"
