"""Where many series of repeated measurements change their level: proposals that a paired comparison then decides.

A series is ln(time) over runs, in the order of time. Steps, for all series at once:

1. `run_noise`: the noise of each series from differences between neighbouring runs, of which the largest fifth does not
   count: a change of level is in one difference, so that it does not pass for noise. Outliers are clipped.
2. Tests, level by level: has a stretch one level, or does it split in two, or does a part within it stand out (slower,
   and fast again later)? All stretches of a level are judged together (Benjamini and Hochberg 1995); those that split
   give the stretches of the next level, as in Yekutieli, "Hierarchical false discovery rate-controlling methodology"
   (2008). A change counts from the margin on.
3. `_settled`: each position is fitted again between its neighbours, and must hold there alone.

With few series, runs are taken as independent of each other: of a device that drifts for days, and whose canary does
not show it, more than the stated share of the proposals is false.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtri, stdtr, stdtrit

from .arrays import Floats
from .intervals import CONFIDENCE
from .moderation import adjusted, moderate

LEAST_RUNS = 4
"""With fewer, the noise is unknown."""

MOST_FREEDOM = 20.0
"""Upper limit of the degrees of freedom: the far tail of the normal distribution is not reliable."""

CLIP = 3.0
"""Standard deviations that a run may stand apart from the median of its neighbourhood."""

_TRIM = 0.2
"""Share of the differences between neighbours, the largest, that do not count."""

_MOST_ALIKE = 0.5
"""Correlation of neighbouring runs that is allowed for at most."""

_SHOW = 100
"""Differences from which on a correlation of neighbouring runs is more than chance."""


def run_noise(series: Sequence[Floats], floors: Floats) -> tuple[Floats, Floats]:
    """Return the standard deviation of one run in each series, at least its floor, and the degrees of freedom of it.

    Ten or more series borrow strength from each other (`moderation`), but none becomes less noisy than it is
    alone. Do not use what is returned for a series of fewer than `LEAST_RUNS` runs.
    """
    variance, freedom = np.array([_own(values) for values in series], dtype=np.float64).reshape(-1, 2).T
    moderated = moderate(variance, freedom)
    inflated = np.nan_to_num(moderated.variance) * _inflation(series, variance)
    return np.sqrt(np.maximum(inflated, floors**2)), np.minimum(moderated.freedom, MOST_FREEDOM)


def _inflation(series: Sequence[Floats], variance: Floats) -> float:
    """Factor on the variance from differences of neighbours when neighbouring runs are alike, of all series together.

    With correlation r between neighbours (first-order autoregression), differences two runs apart have 1 + r times the
    variance of those one apart, the latter have 1 - r times that of independent runs, and the mean of many runs has
    (1 + r) / (1 - r) times as much. r is taken one standard error low, 3 / sqrt(number of differences) as simulated
    with normal noise. 1 where there are too few of them.
    """
    usable = [values / math.sqrt(one) for values, one in zip(series, variance, strict=True) if one > 0]
    if sum(len(values) - 2 for values in usable) < _SHOW:
        return 1.0
    near, far = (np.abs(np.concatenate([one[lag:] - one[:-lag] for one in usable])) for lag in (1, 2))
    if not np.median(near):
        return 1.0
    alike = (np.median(far) / np.median(near)) ** 2 - 1 - 3 / math.sqrt(len(far))
    alike = float(np.clip(alike, 0.0, _MOST_ALIKE))
    return (1 + alike) / (1 - alike) ** 2


def clipped(values: Floats, sd: float) -> Floats:
    """Draw each value to within CLIP standard deviations of the median of the five, at both ends three, around it.

    One odd run, or two in a row, then count little. Two at an end may be the beginning of a new level, and stay.
    """
    if len(values) < 3:
        return values
    center = np.concatenate(([0.0], np.median(sliding_window_view(values, 3), axis=1), [0.0]))
    center[[0, -1]] = center[[1, -2]]
    if len(values) > 4:
        center[2:-2] = np.median(sliding_window_view(values, 5), axis=1)
    return np.asarray(np.clip(values, center - CLIP * sd, center + CLIP * sd))


def _own(values: Floats) -> tuple[float, float]:
    """Variance of one value around its level, and its degrees of freedom; (0, 0) for fewer than four values.

    The smallest 80 % of the squared differences between neighbours over what they are expected to be for normal noise
    (squares of Blom's approximate scores). Simulated with 20 000 series of 4 to 200 normal values: 1 + 2 / differences
    takes the bias to within 9 % (21 % for four values), degrees of freedom are 0.45 to 0.59 per difference.
    """
    count = len(values) - 1
    if len(values) < LEAST_RUNS:
        return 0.0, 0.0
    squares = np.sort(np.diff(values) ** 2)
    kept = math.ceil((1 - _TRIM) * count) if count > 4 else count - 1
    scores = ndtri(0.5 + 0.5 * (np.arange(1, count + 1) - 0.375) / (count + 0.25)) ** 2
    variance = float(squares[:kept].sum() / scores[:kept].sum()) / 2 / (1 + 2 / count)
    return variance, count / 2


LEAST = 2
"""Runs on each side of a change at least: one run is an odd run."""

FALSE_DISCOVERY = 0.05
"""Share of wrong ones that is accepted among the stretches that are split at one level of the tests."""

LEAST_PART = 4
"""Runs of a part that stands out between others: by chance, two or three odd runs do follow each other."""

_LOCATION = -2 * math.log(1 - math.sqrt(CONFIDENCE))
"""Twice the ln likelihood that a position within the 95 % set may lack: (1 - exp(-x/2))^2 = 0.95, x = 7.35. Hansen,
"Sample splitting and threshold estimation" (2000), table 1."""


@dataclass(frozen=True, slots=True)
class LevelChange:
    """One change of level, in units of the series: `effect` is the mean after it minus the mean before it.

    at             index of the first value of the new level
    first, last    95 % set of `at`, between the changes before and after
    low, high      95 % interval of `effect`; as changes are looked for, it rather overstates a small one
    q              false-discovery rate at which it was found
    """

    at: int
    first: int
    last: int
    effect: float
    low: float
    high: float
    q: float


@dataclass(frozen=True, slots=True)
class _Series:
    """One series, outliers clipped, with its margin and its noise."""

    values: Floats
    margin: float
    sd: float
    freedom: float


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Values begin:end of a series."""

    series: int
    begin: int
    end: int


def find_changes(
    series: Sequence[Floats], margins: Sequence[float], floors: Sequence[float] | None = None
) -> list[list[LevelChange]]:
    """Return the changes of each series, in the order of time.

    margins   changes of the level below it are of no interest, in units of the series
    floors    least standard deviation of one value, from the step of the timer; by default none
    """
    sd, freedom = run_noise(series, np.zeros(len(series)) if floors is None else np.asarray(floors, dtype=np.float64))
    known = [
        _Series(clipped(values, float(one)), margin, float(one), float(degrees))
        for values, margin, one, degrees in zip(series, margins, sd, freedom, strict=True)
    ]
    found = _split(known)
    return [_settled(one, found.get(index, {})) for index, one in enumerate(known)]


def _split(known: Sequence[_Series]) -> dict[int, dict[int, float]]:
    """Test level by level; return {series: {position: q}}."""
    found: dict[int, dict[int, float]] = {}
    level = [_Stretch(index, 0, len(one.values)) for index, one in enumerate(known)]
    while level := [one for one in level if one.end - one.begin >= 2 * LEAST]:
        tests = [_test(known[one.series], one.begin, one.end) for one in level]
        q_values = adjusted(np.array([p for p, _ in tests]))
        following: list[_Stretch] = []
        for stretch, (_, cuts), q in zip(level, tests, q_values, strict=True):
            if q <= FALSE_DISCOVERY and cuts:
                found.setdefault(stretch.series, {}).update(dict.fromkeys(cuts, float(q)))
                ends = [stretch.begin, *cuts, stretch.end]
                following += [_Stretch(stretch.series, begin, end) for begin, end in pairwise(ends)]
        level = following
    return found


def _test(series: _Series, begin: int, end: int) -> tuple[float, tuple[int, ...]]:
    """Test that begin:end has one level against the best split and the best part that stands out.

    Return p, corrected for the number of places that were looked at, and where to cut; (1, ()) when nothing reaches the
    margin. The two kinds of alternatives share the error evenly, so that the many parts do not cost the few splits
    their power.
    """
    values = series.values[begin:end]
    count = len(values)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    starts, stops = np.triu_indices(count + 1, k=LEAST)
    inside = (stops - starts).astype(np.float64)
    rest = count - inside
    is_split = (starts == 0) & (stops <= count - LEAST)
    is_part = (starts >= LEAST) & (stops <= count - LEAST) & (inside >= LEAST_PART)
    wanted = is_split | is_part
    starts, stops, inside, rest, is_split = (array[wanted] for array in (starts, stops, inside, rest, is_split))
    within = sums[stops] - sums[starts]
    effect = within / inside - (sums[-1] - within) / rest
    size = np.abs(effect)
    weighted = np.where(size >= series.margin, size / np.sqrt(1 / inside + 1 / rest), 0.0)
    best: tuple[float, tuple[int, ...]] = (1.0, ())
    kinds = [chosen for chosen in (is_split, ~is_split) if chosen.any()]
    for chosen in kinds:
        place = int(np.argmax(np.where(chosen, weighted, -1.0)))
        p = min(1.0, len(kinds) * int(chosen.sum()) * _two_sided(float(weighted[place]), series))
        if p < best[0]:
            cuts = (int(stops[place]),) if is_split[place] else (int(starts[place]), int(stops[place]))
            best = p, tuple(begin + cut for cut in cuts)
    return best


def _settled(series: _Series, found: dict[int, float]) -> list[LevelChange]:
    """Fit each position anew between its neighbours, and drop the weakest that does not hold there until all do."""
    cuts, q_values = sorted(found), [found[at] for at in sorted(found)]
    while cuts:
        ends = [0, *cuts, len(series.values)]
        for index in range(1, len(ends) - 1):
            ends[index] = _best_split(series, ends[index - 1], ends[index + 1])
        cuts = ends[1:-1]
        spans = list(zip(ends, ends[2:], strict=False))
        changes = [_describe(series, at, span, q) for at, span, q in zip(cuts, spans, q_values, strict=True)]
        doubts = [_doubt(series, change, span) for change, span in zip(changes, spans, strict=True)]
        worst = int(np.argmax(doubts))
        if doubts[worst] <= FALSE_DISCOVERY:
            return changes
        del cuts[worst], q_values[worst]
    return []


def _best_split(series: _Series, begin: int, end: int) -> int:
    """Position in begin:end with the highest likelihood of one change."""
    return begin + LEAST + int(np.argmax(_gains(series.values[begin:end])))


def _describe(series: _Series, at: int, span: tuple[int, int], q: float) -> LevelChange:
    begin, end = span
    before, after = series.values[begin:at], series.values[at:end]
    effect = float(after.mean() - before.mean())
    quantile = stdtrit(series.freedom, (1 + CONFIDENCE) / 2)
    half = float(quantile) * series.sd * math.sqrt(1 / len(before) + 1 / len(after))
    gains = _gains(series.values[begin:end])
    near = begin + LEAST + np.flatnonzero(gains.max() - gains <= _LOCATION * series.sd**2)
    return LevelChange(at, int(near[0]), int(near[-1]), effect, effect - half, effect + half, q)


def _gains(values: Floats) -> Floats:
    """By how much the sum of squares falls for a split at LEAST, LEAST + 1, ... of `values`."""
    first = np.arange(LEAST, len(values) - LEAST + 1, dtype=np.float64)
    sums = np.cumsum(values)[LEAST - 1 : len(values) - LEAST]
    rest = len(values) - first
    return np.asarray((sums / first - (values.sum() - sums) / rest) ** 2 * first * rest / len(values))


def _doubt(series: _Series, change: LevelChange, span: tuple[int, int]) -> float:
    """Return p of a change between its neighbours, corrected for its possible places; 1 below the margin."""
    if abs(change.effect) < series.margin:
        return 1.0
    begin, end = span
    weighted = abs(change.effect) / math.sqrt(1 / (change.at - begin) + 1 / (end - change.at))
    return min(1.0, (end - begin - 2 * LEAST + 1) * _two_sided(weighted, series))


def _two_sided(weighted: float, series: _Series) -> float:
    """P(|T| > weighted / sd) for Student's t; 1 for 0, which is no effect."""
    if not weighted:
        return 1.0
    return 2 * float(stdtr(series.freedom, -weighted / series.sd)) if series.sd else 0.0
