"""`compare`: calls against a baseline in interleaved rounds, with the verdicts of `rooflens compare`."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..analysis.comparison.decide import Word, decide
from ..analysis.comparison.effects import Order, margins_of
from ..analysis.statistics.arrays import Moments, difference, moments
from ..harness.isolation.faults import describe
from ..harness.worker.agreement import UNCHECKED
from ..reports import formatting as fmt
from ..reports.listing import listing
from ..reports.model import Section, Table
from ..reports.render.terminal import lines
from ..shapes.errors import CorrectnessError, RooflensError, unknown_name
from ..shapes.protocol import COMPARED_ROUNDS
from .estimates import Samples, estimates, round_medians
from .sampling import Rounds, check_calls, take_rounds
from .timing import BUDGET_S, Timing, check_work, html, timings

WIDTH = 200
"""Columns of a printed table: a row stays on its line."""

MOST_DETECTABLE = 10.0
"""A least detectable change above this says no more than that nothing is known."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a call is against a baseline.

    ratio       time of the baseline / time of this call: above 1 this call is faster
    interval    95 % interval of the ratio, None with fewer than two rounds
    verdict     faster, slower, same or inconclusive: a change has to exceed `margin`
    margin      change that is of no interest, as a share of the time
    detectable  least change, as a share of the time, that as many rounds find with 80 % probability; None if unknown
    """

    ratio: float
    interval: tuple[float, float] | None
    verdict: Word
    margin: float
    detectable: float | None

    def row(self) -> dict[str, str]:
        """Figures as a reader sees them, by the header of their column."""
        low, high = self.interval or (None, None)
        open_ = low is None or high is None or low <= 1 <= high
        return {
            "ratio": fmt.undecided(self.ratio, low, high) if open_ else fmt.ratio(self.ratio, low, high),
            "95% of ratio": fmt.ratio_interval(low, high),
            "verdict": self.verdict.value,
            "detectable": fmt.share(self.detectable) if (self.detectable or 0) < MOST_DETECTABLE else "unknown",
        }


def outcome(error: BaseException) -> str:
    """What became of a call without a time."""
    return "wrong" if isinstance(error, CorrectnessError) else "failed"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Timings of several calls by name, and the changes against the baseline's; an unchecked call has none.

    `failures` are calls without a time: CorrectnessError where the output is not the baseline's, else what it raised.
    """

    baseline: str
    timings: Mapping[str, Timing]
    changes: Mapping[str, Change]
    failures: Mapping[str, BaseException]

    def __getitem__(self, name: str) -> Change:
        if name in self.failures:
            raise self.failures[name]
        if name in self.timings.keys() - self.changes.keys() - {self.baseline}:
            why = "the baseline failed" if self.baseline in self.failures else f"output {self.timings[name].output}"
            raise RooflensError(f"{name} has no verdict: {why}")
        if name not in self.changes:
            raise unknown_name("call", name, list(self.changes))
        return self.changes[name]

    def rows(self) -> list[dict[str, str]]:
        """Rows as a reader sees them, by the headers of the columns; the baseline's first, failures last."""
        blank = dict.fromkeys(Change(math.nan, None, Word.SAME, 0.0, None).row(), "")
        found = []
        for name in sorted(self.timings, key=lambda one: one != self.baseline):
            change = self.changes.get(name)
            judged = change.row() if change else blank | {"verdict": "baseline" if name == self.baseline else ""}
            found.append({"call": name} | self.timings[name].row() | judged)
        headers = dict.fromkeys(found[0] if found else ("call", "output"), "")
        return found + [headers | {"call": name, "output": outcome(one)} for name, one in self.failures.items()]

    def values(self) -> list[dict[str, Any]]:
        """Rows as values for JSON, in base units, null where unknown: a time if and only if the outcome is passed."""
        found = []
        for name, timing in self.timings.items():
            change = asdict(self.changes[name]) if name in self.changes else None
            found.append({"outcome": "passed"} | asdict(timing) | {"change": change})
            found[-1]["rounds"] = len(found[-1].pop("rounds_s"))
        failed = self.failures.items()
        return found + [{"outcome": outcome(one), "name": name, "reason": describe(one)} for name, one in failed]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know of the calls."""
        return tuple(f"{name}: {text}" for name, timing in self.timings.items() for text in timing.warnings)

    @property
    def errors(self) -> tuple[str, ...]:
        """Why calls have no time."""
        failed = self.failures.items()
        return tuple(str(one) if outcome(one) == "wrong" else f"{name}: {describe(one)}" for name, one in failed)

    def table(self) -> Table:
        """Lay out the rows; columns without any text are left out."""
        rows = self.rows()
        names = [name for name in rows[0] if any(row[name] for row in rows)]
        return listing(names, [[row[name] for name in names] for row in rows])

    def __str__(self) -> str:
        shown = lines(Section("", "", (self.table(),)), WIDTH, str)
        return "\n".join((*shown, *(f"note: {text}" for text in self.warnings), *self.errors))

    def _repr_html_(self) -> str:
        return html(self.rows(), (*self.warnings, *self.errors))


def compare(
    calls: Mapping[str, Callable[[], object]],
    *,
    baseline: str | None = None,
    check: bool = True,
    cold: bool = True,
    flops: float | None = None,
    bytes: float | None = None,
    dtype: str | None = None,
    rounds: int = COMPARED_ROUNDS,
    budget_s: float = BUDGET_S,
    within_s: float | None = None,
    timer: str = "auto",
    device: str = "auto",
    begun: Callable[[str], object] = lambda name: None,
) -> Comparison:
    """Time calls of the same work in interleaved rounds, and judge each against `baseline` (by default the first).

    A verdict comes from the ratios of the rounds, by the method of `rooflens compare`: a change has to exceed a margin
    (1 %; 3 % below 10 us), and of all changes that are called, 5 % are expected to be false. It holds for this process:
    what differs from process to process, such as addresses, is not in it. Outputs are compared with those of the
    baseline, unless `check` is False: a call that is wrong or raises has no time, and one that cannot be compared no
    verdict. `within_s` limits the seconds of all rounds: sampling is cut short so that two fit. `begun` is told the
    name of a call before it is made. Other options, and errors, are those of `bench`.
    """
    check_work(flops, bytes, dtype)
    check_calls(calls)
    names = list(calls)
    base = baseline if baseline is not None else names[0]
    if base not in calls:
        raise unknown_name("baseline", base, names)
    reference = calls[base] if check else None
    taken = take_rounds(
        *(calls, reference, begun),
        cold=cold,
        rounds=rounds,
        budget_s=budget_s,
        within_s=within_s,
        timer=timer,
        device=device,
    )
    found = timings(taken, flops, bytes, dtype)
    others = [name for name, one in found.items() if name != base and not one.output.startswith(UNCHECKED)]
    others = others if base in found else []
    changes = _interleaved(taken, base, others) if others else {}
    for name in others:
        if found[base].impossible or found[name].impossible:
            changes[name] = replace(changes[name], verdict=Word.INCONCLUSIVE, detectable=None)
    return Comparison(base, found, changes, taken.failed)


def one_after_the_other(base: Sequence[Sequence[float]], head: Sequence[Sequence[float]], least: float) -> Change:
    """Judge samples (s) of two series of rounds that were not measured in turn.

    Drift is in the difference: the margin is that of `rooflens compare` with two runs, or `least` where that is more.
    """
    samples = {"base": base, "head": head}
    logs = _logs(samples)
    times = estimates(samples)
    found = difference(*(moments(logs.loc[[side]].to_numpy()) for side in samples))
    (change,) = _changes(found, times.loc[["base"]], times.loc[["head"]], Order.SEQUENTIAL, least)
    return change


def _interleaved(taken: Rounds, base: str, others: list[str]) -> dict[str, Change]:
    logs, times = _logs(taken.samples), estimates(taken.samples)
    found = moments(logs.loc[others].to_numpy() - logs.loc[base].to_numpy())
    changes = _changes(found, times.loc[[base] * len(others)], times.loc[others], Order.INTERLEAVED)
    return dict(zip(others, changes, strict=True))


def _logs(samples: Samples) -> pd.DataFrame:
    """Return ln of the round medians, calls by rounds."""
    medians = round_medians(samples)
    return medians.assign(log=np.log(medians["median_s"])).pivot(index="cell_id", columns="round", values="log")


def _changes(
    found: Moments, base: pd.DataFrame, head: pd.DataFrame, order: Order, least: float = 0.0
) -> Iterable[Change]:
    """Judge effects, differences of ln time, between `estimates` of both sides."""
    steps = np.fmax(np.fmax(base["resolution_s"].to_numpy(), head["resolution_s"].to_numpy()), 0.0)
    margin = np.fmax(margins_of(base["time_s"].to_numpy(), steps, order), math.log1p(least))
    decided = decide(*found, margin)
    for number, effect in enumerate(decided.effect):
        low, high = float(decided.low[number]), float(decided.high[number])
        smallest = float(decided.smallest[number])
        yield Change(
            ratio=math.exp(-effect),
            interval=None if math.isnan(low) else (_ratio(high), _ratio(low)),
            verdict=Word(decided.words[number]),
            margin=math.expm1(margin[number]),
            detectable=None if math.isnan(smallest) else math.expm1(min(smallest, 700.0)),
        )


def _ratio(effect: float) -> float:
    """exp within the range of floats: of two rounds a bound may be anywhere."""
    return math.exp(-max(-700.0, min(700.0, effect)))
