"""Dispatch of one run: every policy with its regret in the sample and on what its fit has not seen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...analysis.frames.load import RunData
from ...analysis.run.summarize import round_medians, summarize
from ...analysis.statistics.arrays import Floats, Ints, moments
from ...analysis.statistics.intervals import CONFIDENCE, quantile
from ...analysis.statistics.moderation import moderate
from ...shapes.errors import UsageError, quote
from ...shapes.verdict import Verdict
from .evidence import MARGIN
from .fit import ALWAYS, TABLE, fit, oracle
from .policy import EntryStatus, Policy, choices
from .regret import HOLDOUTS, ORACLE, ROUND, HeldOut, Score, best, hold_out, relative_time, score
from .timings import Timings, timings
from .weights import weigh

AS_GOOD = 0.005
"""Mean regret that is not worth a policy of a more particular kind."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to choose from, and by what. Empty or None: what the run suggests.

    incumbent    what runs where nothing is better; the baseline of the run
    challengers  what may run instead; every other provider with a time, but references and those that dispatch
    cache        cold where there is any
    holdout      decides which policy is recommended: shape, model or round; the first of these that the run allows
    histogram    weight by M; None: every GEMM counts the same
    """

    incumbent: str | None = None
    challengers: tuple[str, ...] = ()
    cache: str | None = None
    holdout: str | None = None
    margin: float = MARGIN
    histogram: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """One line of the comparison. `policy` is None for what was not fitted: rules of providers, and the oracle.

    `held_out` has a score by hold-out, None where it could not be held out.
    """

    name: str
    policy: Policy | None
    in_sample: Score
    held_out: dict[str, Score | None]


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Result for one run.

    flattered    mean over cases of what the best arm's time owes to its luck, in ln time; None without enough rounds
    recommended  name of the simplest policy whose regret in `criterion` is within `AS_GOOD` of the least
    criterion    the hold-out that decides, or "" where nothing could be held out: the sample decides
    """

    arch: str
    timings: Timings
    margin: float
    scored: tuple[Scored, ...]
    flattered: float | None
    recommended: str
    criterion: str
    notes: tuple[str, ...]

    def policy(self, name: str) -> Policy:
        """Return the fitted policy of that name."""
        return next(one.policy for one in self.scored if one.name == name and one.policy)

    def of(self, name: str) -> Scored:
        """Return the line of that name."""
        return next(one for one in self.scored if one.name == name)


def study(run: RunData, question: Question = Question()) -> Study:
    """Fit and score every policy on a loaded run. Raises UsageError when there is nothing to choose from."""
    summary, rounds = summarize(run), round_medians(run)
    cache = question.cache or _cache(summary)
    arms, rules = _names(run, summary, question, cache)
    table = timings(summary, rounds, arms, cache, rules)
    if question.histogram is not None:
        table = weigh(table, question.histogram)
    arch, margin = run.device.arch, question.margin
    held = hold_out(table, arch, margin)
    zero = best(table)
    fitted = [_line(one.name, one, choices(one, table), table, zero, held) for one in fit(table, arch, margin)]
    scored = [*fitted, *_shipped(table, zero, held), _line(ORACLE, None, oracle(table), table, zero, held)]
    unseen = scored[-1].held_out[ROUND]
    criterion = _criterion(question.holdout, held)
    notes = [*table.notes, *_absent(table)]
    if run.is_reference(table.incumbent):
        notes.append(
            f"the incumbent {table.incumbent} is a reference: where it stays, a caller must hold its operands decoded"
        )
    notes += [f"not held out by {name}: {one.reason}" for name, one in held.items() if one.reason]
    notes += _undecided(scored, margin)
    if table.rounds < 2:
        notes.append("1 round has no interval, so that nothing is engaged: measure with --rounds 3 or more")
    return Study(
        arch=arch,
        timings=table,
        margin=margin,
        scored=tuple(scored),
        flattered=unseen.mean if unseen else None,
        recommended=_recommended(scored, criterion),
        criterion=criterion,
        notes=tuple(notes),
    )


def _undecided(scored: Sequence[Scored], margin: float) -> list[str]:
    """Say how many rows of the table would be engaged if their mean gain were proven."""
    rows = next(one.policy.entries for one in scored if one.policy and one.name == TABLE)
    open_ = [one for one in rows if one.status is EntryStatus.PARITY and one.gain is not None and one.gain > margin]
    if not open_:
        return []
    return [
        f"gain more than the margin on average, which is not proven: {len(open_)} of {len(rows)} GEMMs; more rounds, "
        "or a quieter machine, would decide"
    ]


def _absent(table: Timings) -> list[str]:
    """Say which arms do not take every case."""
    known = np.isfinite(table.mean)
    return [
        f"{arm} has a time on {int(known[:, index].sum())} of {len(known)} GEMMs: elsewhere {table.incumbent} runs"
        for index, arm in enumerate(table.arms)
        if not known[:, index].all()
    ]


def _cache(summary: pd.DataFrame) -> str:
    """The cache state to dispatch by: a caller does not know it, so there is one."""
    known = summary.loc[summary["verdict"] == Verdict.PASSED, "cache"].unique().tolist()
    if not known:
        raise UsageError("no cell of this run has passed: there is nothing to choose from")
    return "cold" if "cold" in known else str(known[0])


def _names(
    run: RunData, summary: pd.DataFrame, question: Question, cache: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The arms, the incumbent first, and the providers with a rule of their own that are no arms."""
    passed = summary.loc[(summary["verdict"] == Verdict.PASSED) & (summary["cache"] == cache)]
    there = [str(name) for name in pd.unique(passed["provider"])]
    incumbent = question.incumbent or run.baseline
    for name in question.challengers:
        run.refuse_reference(name, "-p")
    own_rule = rule_names(passed)
    if there and not question.incumbent and incumbent not in there:
        raise UsageError(
            f"{run.id}: its baseline {incumbent} has no {cache} time: name what runs where nothing is better with "
            f"--incumbent; providers with a {cache} time: {', '.join(there) or 'none'}"
        )
    ordered = sorted(there, key=lambda name: _rank(run, name))
    others = [name for name in ordered if name not in own_rule and not run.is_reference(name)]
    chosen = list(dict.fromkeys(question.challengers or others))
    arms = (incumbent, *(name for name in chosen if name != incumbent))
    if len(arms) < 2:
        ran = ", ".join(there) or "none"
        raise UsageError(f"{run.id}: nothing to choose from besides {incumbent}; providers with a {cache} time: {ran}")
    return arms, tuple(name for name in own_rule if name not in arms)


def _rank(run: RunData, name: str) -> tuple[int, int]:
    """Challengers of the suite first, in its order; then candidates; then the rest."""
    if name in run.challengers:
        return (0, run.challengers.index(name))
    return (1 if run.role(name) == "candidate" else 2, 0)


def _line(
    name: str, policy: Policy | None, chosen: Ints, table: Timings, zero: Floats, held: dict[str, HeldOut]
) -> Scored:
    in_sample = score(relative_time(table, chosen), zero, table.weights)
    assert in_sample is not None  # every case has a time of the incumbent
    unseen = {
        way: score(one.relative[name], zero, table.weights) if name in one.relative else None
        for way, one in held.items()
    }
    return Scored(name, policy, in_sample, unseen)


def _shipped(table: Timings, zero: Floats, held: dict[str, HeldOut]) -> list[Scored]:
    """Score the rules of providers by their own times. They were not fitted here: every case is new to them."""
    done = [way for way in HOLDOUTS if not held[way].reason]
    scores = {name: score(moments(ratios).mean, zero, table.weights) for name, (ratios, _) in table.rules.items()}
    return [Scored(f"{name}'s rule", None, own, dict.fromkeys(done, own)) for name, own in scores.items() if own]


def _criterion(wanted: str | None, held: dict[str, HeldOut]) -> str:
    """The hold-out that decides. Raises UsageError when the wanted one could not be done."""
    if wanted and held[wanted].reason:
        raise UsageError(f"--holdout {wanted}: {held[wanted].reason}")
    return wanted or next((name for name in HOLDOUTS if not held[name].reason), "")


def _recommended(scored: Sequence[Scored], criterion: str) -> str:
    """The simplest fitted policy that is as good as the best; the fit names the simplest first.

    To run a challenger always is no candidate: where that is proven to be best, the other kinds do it as well.
    """

    def regret(one: Scored) -> float:
        unseen = one.held_out.get(criterion) if criterion else one.in_sample
        return unseen.mean if unseen else math.inf

    fitted = [
        one for one in scored if one.policy and one.name.removeprefix(f"{ALWAYS} ") in (one.name, one.policy.incumbent)
    ]
    least = min(map(regret, fitted))
    return next(one.name for one in fitted if regret(one) <= least + AS_GOOD)


def rule_names(summary: pd.DataFrame) -> tuple[str, ...]:
    """Providers of a summary that say what they dispatched to."""
    dispatching = summary["dispatched"].fillna("") != ""
    return tuple(map(str, pd.unique(summary.loc[dispatching, "provider"])))


COLUMNS = ("label", "op", "pass", "dtype", "scheme", "B", "E", "top_k", "M", "N", "K")


def changes(timings: Timings, before: Ints, after: Ints) -> pd.DataFrame:
    """Return the cases whose arm differs, those that save the most time per launch first.

    `before` and `after` are indices of arms [C]. Columns: COLUMNS, before, after, speedup = t_before / t_after with
    speedup_low and speedup_high (95 % over rounds; NaN with a single one), saved_s per launch, weight. Where one of the
    two has no time, they are NaN, and the case comes last.
    """
    rows = np.flatnonzero(before != after)
    was, now = before[rows], after[rows]
    gain = timings.log_ratio[rows, was] - timings.log_ratio[rows, now]
    mean, variance, freedom, rounds = moments(gain)
    moderated = moderate(variance, freedom)
    half = quantile((1 + CONFIDENCE) / 2, moderated.freedom) * np.sqrt(moderated.variance / np.maximum(rounds, 1))
    found = timings.cases.loc[rows, [*COLUMNS]].assign(
        before=np.array(timings.arms, dtype=object)[was],
        after=np.array(timings.arms, dtype=object)[now],
        speedup=np.exp(mean),
        speedup_low=np.exp(mean - half),
        speedup_high=np.exp(mean + half),
        saved_s=timings.time_s[rows, was] - timings.time_s[rows, now],
        weight=timings.weights[rows],
    )
    return found.sort_values("saved_s", ascending=False, kind="stable", na_position="last").reset_index(drop=True)


def chosen_by(study: Study, name: str) -> Ints:
    """Index of the arm that each case [C] gets from `name`.

    That is an arm (which then always runs), a fitted policy, the oracle, or a provider with a rule of its own. Raises
    UsageError for other names, and for a rule that dispatched to anything but arms.
    """
    table = study.timings
    if name in table.arms:
        return np.full(len(table.cases), table.arms.index(name), dtype=np.int64)
    if any(one.name == name and one.policy for one in study.scored):
        return choices(study.policy(name), table)
    if name == "oracle":
        return oracle(table)
    if name in table.rules:
        kernels = [word.partition(":")[0].strip() for word in table.rules[name][1]]  # what follows is the reason
        if unknown := [kernel or "nothing" for kernel in dict.fromkeys(kernels) if kernel not in table.arms]:
            raise UsageError(
                f"{name} dispatched to {', '.join(unknown)}, and only {', '.join(table.arms)} were compared: "
                "name one of these, or a file of --emit json"
            )
        return np.array([table.arms.index(kernel) for kernel in kernels], dtype=np.int64)
    names = [*table.arms, *table.rules, *(one.name for one in study.scored if one.policy)]
    raise UsageError(f"no decisions of {quote(name)}: name a file of --emit json, or one of {', '.join(names)}")
