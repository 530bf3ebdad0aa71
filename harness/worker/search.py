"""A search: which configuration is the fastest for one problem, and how sure that is. Knows no device and no file.

1. Every candidate is prepared, checked and timed briefly, in the order of the list (`BRIEF`).
2. Parts of a configuration that are mappings (the tiles of several products) are tuned on their own: the fastest of
   each part, from candidates that differ from the default in that part alone, make up one more candidate.
3. Contenders are the default and what may be within `MARGIN` of the best, `MOST_CONTENDERS` in all.
4. They go through `PASSES` further passes, each in an order of its own, so that a busy moment hits all alike.
5. The least median of all samples wins. The default wins unless it is proven slower: a configuration that changes with
   the noise of the day is churn, and costs whoever ships it a review.

What is proven is proven within this search, that is, within one process: two searches may disagree all the same.
`analysis.tuning.searches` says how often they do, and what that costs.
"""

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ...kernels.provider import Config
from ...shapes.median import interval, median
from ...shapes.run_folder.disturbance import worst
from ...shapes.verdict import Verdict
from ..timing.stop import StopRule
from .messages import Failure

BRIEF = StopRule(min_samples=10, target_ci=0.02, budget_s=0.02, resolution_s=0.0)
"""How long one candidate is timed in one pass; the resolution is the timer's."""

MARGIN = 1.10
"""A candidate whose first pass is proven slower than this many times the best one's is timed no further."""

MOST_CONTENDERS = 6

PASSES = 3
"""Passes over the contenders after the first one."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate, prepared and found correct.

    `sample` times launches until a rule stops, and returns the durations in seconds that count, one or more, and what
    disturbed them; it raises what makes the candidate fail. `resolution_s` is the step of its timer, and `error_ratio`
    as in `shapes.columns.TUNING`.
    """

    sample: Callable[[StopRule], tuple[Sequence[float], str]]
    error_ratio: float
    resolution_s: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a search found of one configuration; times in seconds, None unless the verdict is `passed`.

    `time_s` is the median of `samples`; `low_s` and `high_s` bound its 95 % interval, half a step of the timer added
    (None for fewer than six samples). `near_tie`: not the winner, and not proven slower than it.
    """

    config: Config
    verdict: Verdict
    reason: str = ""
    time_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    samples: int | None = None
    error_ratio: float | None = None
    near_tie: bool = False
    disturbed: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """Result of one search: a row per candidate, in their order, then one of the fastest parts (`_joined`).

    `winner` is an index, None when every one failed.
    """

    rows: tuple[Candidate, ...]
    winner: int | None
    seconds: float

    @property
    def config(self) -> Config | None:
        """The winning configuration, None when every one failed."""
        return None if self.winner is None else self.rows[self.winner].config

    def columns(self) -> list[dict[str, Any]]:
        """Return what this search decides of the rows of `shapes.columns.TUNING`."""
        return [
            {
                "candidate": number,
                "config": dict(row.config),
                "verdict": row.verdict.value,
                "reason": row.reason,
                "time_s": row.time_s,
                "time_low_s": row.low_s,
                "time_high_s": row.high_s,
                "samples": row.samples,
                "disturbed": row.disturbed,
                "error_ratio": row.error_ratio,
                "winner": number == self.winner,
                "near_tie": row.near_tie,
                "candidates": len(self.rows),
                "search_s": self.seconds,
            }
            for number, row in enumerate(self.rows)
        ]


def search(
    candidates: Sequence[Config],
    prepare: Callable[[int, Config], Trial],
    explain: Callable[[Exception], Failure],
    *,
    failed: Mapping[int, Failure] | None = None,
    seed: str = "",
    clock: Callable[[], float] = time.perf_counter,
) -> Search:
    """Find the fastest of `candidates`, the first of which is the default.

    `prepare` makes a candidate ready and checks its output; `explain` gives an exception of it, or of its trial, its
    verdict, and raises instead when the device is lost with it, which ends the search. `failed` are candidates that
    ended an earlier attempt at this search: they keep that verdict and are not tried again. `seed` decides the order
    within the passes. At most `MOST_CONTENDERS` + 1 trials are held at a time.
    """
    begin = clock()
    entries: list[_Entry] = []

    def enter(config: Config) -> None:
        entry = _Entry(len(entries), config)
        entries.append(entry)
        if failure := (failed or {}).get(entry.number):
            entry.fail(*failure)
            return
        try:
            entry.trial = prepare(entry.number, entry.config)
            entry.error_ratio, entry.resolution_s = entry.trial.error_ratio, entry.trial.resolution_s
            entry.sample()
        except Exception as error:
            entry.fail(*explain(error))
        _release(entries)

    for config in candidates:
        enter(config)
    if entries and (joined := _joined(entries)):
        enter(joined)
    contenders = [entry for entry in entries if entry.trial]
    for number in range(PASSES if len(contenders) > 1 else 0):
        order = [entry for entry in contenders if entry.trial]
        random.Random(f"{seed} {number}").shuffle(order)
        for entry in order:
            try:
                entry.sample()
            except Exception as error:
                entry.fail(*explain(error))
    winner = _winner(entries)
    rows = tuple(_row(entry, winner) for entry in entries)
    return Search(rows, None if winner is None else winner.number, clock() - begin)


def nothing_to_search(verdict: Verdict, reason: str) -> Search:
    """Return the result for a cell that has no candidate at all: one row that says why."""
    return Search((Candidate({}, verdict, reason),), None, 0.0)


@dataclass(slots=True)
class _Entry:
    number: int
    config: Config
    verdict: Verdict = Verdict.PASSED
    reason: str = ""
    trial: Trial | None = None
    error_ratio: float | None = None
    resolution_s: float = 0.0
    disturbed: str = ""
    passes: list[tuple[float, ...]] = field(default_factory=list)

    def sample(self) -> None:
        """Take one more pass."""
        assert self.trial
        times_s, disturbed = self.trial.sample(BRIEF)
        self.passes.append(tuple(times_s))
        self.disturbed = worst((self.disturbed, disturbed))

    def fail(self, verdict: Verdict, reason: str) -> None:
        """Keep no time and no trial."""
        self.verdict, self.reason, self.trial, self.error_ratio = verdict, reason, None, None
        self.disturbed = ""
        self.passes.clear()

    def times(self, passes: int | None = None) -> list[float]:
        """Samples of the first `passes` passes, of all by default."""
        return list(chain.from_iterable(self.passes[:passes]))


def _joined(entries: Sequence[_Entry]) -> Config | None:
    """Return the default with the fastest of each part, None where fewer than two are faster than the default's."""
    default, *others = entries
    least = dict.fromkeys(default.config, median(default.times()) if default.passes else math.inf)
    parts: dict[str, Any] = {}
    for entry in others:
        changed = [name for name, value in default.config.items() if entry.config.get(name) != value]
        if not entry.passes or len(changed) != 1 or not isinstance(default.config[changed[0]], Mapping):
            continue
        (name,) = changed
        if (time_s := median(entry.times())) < least[name]:
            least[name], parts[name] = time_s, entry.config[name]
    return {**default.config, **parts} if len(parts) > 1 else None


def _release(entries: Sequence[_Entry]) -> None:
    """Let go of the trials that cannot be contenders any more: each may hold a copy of the weights."""
    timed = [entry for entry in entries if entry.trial]
    best = min((median(entry.times()) for entry in timed), default=0.0)
    near = [entry for entry in timed if _bounds(entry.times())[0] <= MARGIN * best]
    default = [entry for entry in timed if entry.number == 0]
    rivals = sorted((entry for entry in near if entry.number), key=lambda entry: median(entry.times()))
    kept = [*default, *rivals][:MOST_CONTENDERS]
    for entry in timed:
        if entry not in kept:
            entry.trial = None


def _winner(entries: Sequence[_Entry]) -> _Entry | None:
    """Least median among those that went through most passes; the default unless it is proven slower than that."""
    most = max((len(entry.passes) for entry in entries), default=0)
    finalists = [entry for entry in entries if len(entry.passes) == most and most]
    if not finalists:
        return None
    fastest = min(finalists, key=lambda entry: median(entry.times()))
    default = entries[0]
    return default if default in finalists and not _slower(default, fastest) else fastest


def _slower(entry: _Entry, than: _Entry) -> bool:
    """Tell whether the intervals of the medians are apart, over the passes that both went through."""
    common = min(len(entry.passes), len(than.passes))
    gap = _bounds(entry.times(common))[0] - _bounds(than.times(common))[1]
    return gap > (entry.resolution_s + than.resolution_s) / 2


def _bounds(times_s: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the median; the range where there are too few for one, which takes a launch of many ms."""
    return interval(times_s) or (min(times_s), max(times_s))


def _row(entry: _Entry, winner: _Entry | None) -> Candidate:
    if winner is None or not entry.passes:
        return Candidate(entry.config, entry.verdict, entry.reason)
    times = entry.times()
    bounds = interval(times)
    return Candidate(
        config=entry.config,
        verdict=entry.verdict,
        reason=entry.reason,
        time_s=median(times),
        low_s=bounds[0] - entry.resolution_s / 2 if bounds else None,
        high_s=bounds[1] + entry.resolution_s / 2 if bounds else None,
        samples=len(times),
        error_ratio=entry.error_ratio,
        near_tie=entry is not winner and not _slower(entry, winner),
        disturbed=entry.disturbed,
    )
