"""All policies of a run, from the simplest to the most particular.

always A    one arm for everything
threshold   one limit in M for the whole device
thresholds  one per setting
table       a row per shape and measured M
"""

import numpy as np

from ...analysis.statistics.arrays import Flags, Ints
from .evidence import MARGIN, Evidence, region_gain, weigh_evidence
from .policy import Entry, EntryStatus, Policy, Rows, Rules
from .timings import Setting, Shape, Timings, keys, positions

ALWAYS, ONE_M, M_PER_SETTING, TABLE = "always", "threshold", "thresholds", "table"

WORTH = 0.001
"""A limit must save so much ln time, averaged over all cases: below, it is a line more for nothing."""


def fit(timings: Timings, arch: str, margin: float = MARGIN) -> tuple[Policy, ...]:
    """Fit a policy of every kind; what `always` runs is no question of evidence.

    A kind is excluded where it would be the same by definition as a simpler one: `thresholds` with one setting, and
    `threshold` where all cases have one M.
    """
    evidence = weigh_evidence(timings, margin)
    settings = positions(timings.cases)
    sizes = timings.cases["M"].to_numpy(dtype=np.int64)
    largest = {setting: int(sizes[cases].max()) for setting, cases in settings.items()}

    def by_M(name: str, found: dict[Setting, Rows]) -> Policy:
        rules: Rules = {setting: {None: _up_to(largest[setting], rows)} for setting, rows in found.items()}
        return Policy(name, arch, timings.incumbent, rules)

    def threshold(cases: Ints) -> Rows:
        return _threshold(timings, evidence, cases, margin)

    everywhere = int(sizes.max())
    found = [by_M(f"{ALWAYS} {arm}", dict.fromkeys(settings, ((everywhere, Entry(arm)),))) for arm in timings.arms]
    if timings.cases["M"].nunique() > 1:
        found.append(by_M(ONE_M, dict.fromkeys(settings, threshold(np.arange(len(sizes))))))
        if len(settings) > 1:
            found.append(by_M(M_PER_SETTING, {setting: threshold(cases) for setting, cases in settings.items()}))
    return (*found, Policy(TABLE, arch, timings.incumbent, _table(timings, evidence, margin)))


def oracle(timings: Timings) -> Ints:
    """The fastest arm of each case [C], by the rounds that are here."""
    return np.asarray(np.where(np.isfinite(timings.mean), timings.mean, np.inf).argmin(axis=1), dtype=np.int64)


def _up_to(largest: int, rows: Rows) -> Rows:
    """The rows that decide up to the largest M that a setting was measured at."""
    below = tuple(row for row in rows if row[0] < largest)
    return (*below, (largest, rows[len(below)][1]))


def _threshold(timings: Timings, evidence: Evidence, cases: Ints, margin: float) -> Rows:
    """One limit in M with the cheapest arm on each side, or one arm; cases without weight do not take part.

    Each measured M is tried. The cost is the weighted sum of ln time; regret differs from that by a constant. Equal
    costs go to the smaller limit and the earlier arm, so that the same data give the same limit. Afterwards a side runs
    another arm than the incumbent only where that is proven, with all sides that were looked at as candidates.
    """
    sizes = timings.cases["M"].to_numpy(dtype=np.int64)
    last = int(sizes[cases].max())
    cases = cases[timings.weights[cases] > 0]
    weights = timings.weights[cases] / timings.weights[cases].sum()
    # an arm without a time: the incumbent runs in its place
    costs = weights[:, None] * np.nan_to_num(timings.mean[cases])
    limits, codes = np.unique(sizes[cases], return_inverse=True)
    candidates = (2 * len(limits) - 1) * (len(timings.arms) - 1)

    def entry(side: Flags) -> Entry:
        sums = costs[side].sum(axis=0)
        arm = int(np.flatnonzero(sums <= sums.min() + 1e-12)[0])
        others = [arm] if arm else range(1, len(timings.arms))
        gains = {one: region_gain(timings, evidence, cases[side], one, candidates) for one in others}
        best = max(gains, key=lambda one: gains[one][0])
        value, low, _ = gains[best]
        if arm and low > margin:
            return Entry(timings.arms[arm], EntryStatus.ENGAGED, timings.arms[arm], value, low)
        slower = all(high < -margin for _, _, high in gains.values())
        status = EntryStatus.INCUMBENT if slower else EntryStatus.PARITY
        return Entry(timings.incumbent, status, timings.arms[best], value, _known(low))

    sums = np.array([costs[codes <= code].sum(axis=0) for code in range(len(limits))])
    totals = sums.min(axis=1) + (sums[-1] - sums).min(axis=1)  # the last: no limit
    if totals[-1] - totals.min() >= WORTH:
        place = int(np.flatnonzero(totals <= totals.min() + 1e-12)[0])
        low, high = entry(codes <= place), entry(codes > place)
        if low.arm != high.arm:
            return (int(limits[place]), low), (last, high)
    return ((last, entry(codes >= 0)),)


def _table(timings: Timings, evidence: Evidence, margin: float) -> Rules:
    """One row per case, each decided by its own evidence: the fastest arm that is engaged, or the incumbent."""
    gain = np.where(np.isfinite(evidence.gain[:, 1:]), evidence.gain[:, 1:], -np.inf)
    proven = evidence.engaged[:, 1:]
    engaged: Flags = np.asarray(proven.any(axis=1))
    best = 1 + np.where(engaged, np.where(proven, gain, -np.inf).argmax(axis=1), gain.argmax(axis=1))
    slower = ((evidence.high[:, 1:] < -margin) | np.isneginf(gain)).all(axis=1)
    status = np.where(engaged, EntryStatus.ENGAGED, np.where(slower, EntryStatus.INCUMBENT, EntryStatus.PARITY))
    found: dict[Setting, dict[Shape | None, Rows]] = {}
    for case, (setting, shape, size) in enumerate(keys(timings.cases)):
        arm = int(best[case])
        runs = timings.arms[arm] if engaged[case] else timings.incumbent
        value, low = float(evidence.gain[case, arm]), _known(float(evidence.low[case, arm]))
        row = size, Entry(runs, EntryStatus(status[case]), timings.arms[arm], value, low)
        rule = found.setdefault(setting, {})
        rule[shape] = tuple(sorted((*rule.get(shape, ()), row), key=lambda one: one[0]))
    return found


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
