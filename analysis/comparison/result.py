"""A whole comparison: the effects of both versions, what they sum up to, and what a reader must know about them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ...shapes.errors import CorrectnessError, IncompleteError, RegressionError, RooflensError
from ..frames.coordinates import CASE
from ..frames.load import RunData
from ..imports.entries import Imported
from ..imports.rounding import RoundingKind
from ..stability.canary import KINDS, SLOWDOWN
from ..statistics.arrays import Floats, difference, moments
from ..statistics.intervals import CONFIDENCE, survival
from .breakdown import controls
from .decide import FALSE_DISCOVERY, MEASURED, Word, vetoed
from .effects import SEQUENTIAL_MARGIN, Effects, Order, Status, Versions, measure_effects, sum_of_passes, withhold
from .identity import Identity
from .machine_code import Difference
from .unverified import Unverified, as_unverified, rank_unverified
from .versions import devices_differ, from_runs, pair, rounds_of

SUMMED = ("fwd", "bwd")
"""Passes that a training step pays for together."""

SUM = "+".join(SUMMED)
"""How their sum is called where a pass is."""


OWN = "head+own"
"""Arm of head with the configurations that its own searches chose."""


COLUMNS = (
    *("model", "layer", "op", "B", "E", "top_k", "M", "N", "K", "pass", "dtype", "scheme", "cache", "provider"),
    *("status", "word", "withheld", "effect", "low", "high", "p", "q", "smallest", "margin", "rounds"),
    *("base_gmean_s", "head_gmean_s", "base_time_s", "head_time_s"),
    *("base_verdict", "head_verdict", "base_reason", "head_reason"),
    *("base_config", "head_config", "base_dispatched", "head_dispatched", "base_disturbed", "head_disturbed"),
)
"""Of a case: where it is, its verdict, and the times and outcomes of both versions."""


@dataclass(frozen=True, slots=True)
class Side:
    """One version: how a reader knows it (a run, a file, a commit with its subject), and where its data lie.

    `files` are those that its numbers come from: name and the first 16 digits of the SHA-256 of the content.
    """

    label: str
    source: str
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What `rooflens compare` found.

    effects  of the passes that were measured; sums  of fwd + bwd, where both were measured apart, else None
    null     of a second copy of base against base: what the same code looks like; None without --null-arm
    notes    what limits the verdicts, a sentence each
    withheld why nothing is verified, though rounds were compared: what cannot differ does; "" where it does not
    causes   of cases that chose another configuration: `attribution.attribute` beside CASE; None without a replay
    unverified  of tables with one value per case: their ranked changes
    selection   of head with its own configurations against head with those of base; None without --tune
    runs        the stored runs by arm (base, head, and null and head+own where they are); none of tables
    identity    the commits, as git reported them when the comparison began; None of runs and tables
    searches    tuning.csv of each side that searched configurations
    isa         what changed in the machine code, where both versions have their isa.csv beside the run
    complete    everything that was planned is measured; unmeasured  what is not, because devices are missing
    """

    base: Side
    head: Side
    order: Order
    effects: Effects
    sums: Effects | None
    null: Effects | None
    notes: tuple[str, ...]
    causes: pd.DataFrame | None = None
    unverified: Unverified | None = None
    selection: Effects | None = None
    runs: Mapping[str, RunData] = field(default_factory=dict)
    identity: Identity | None = None
    searches: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    isa: Difference | None = None
    withheld: str = ""
    complete: bool = True
    unmeasured: str = ""

    def __repr__(self) -> str:
        words = ", ".join(f"{count} {word}" for word in self.words if (count := self.count(word)))
        return f"<rooflens comparison of {self.base.label} and {self.head.label}: {words or 'no verdict'}>"

    @property
    def verdicts(self) -> pd.DataFrame:
        """One row per case; `effect`, `low` and `high` are differences of ln time, above 0 where head is slower."""
        return rows_of(self.effects)

    @property
    def words(self) -> tuple[Word, ...]:
        """Verdicts that are possible here."""
        return MEASURED if self.unverified is None else (Word.UNVERIFIED,)

    @property
    def no_result(self) -> str:
        """Why no case has a verdict, though rounds were to give them: a clause; "" where one has, and of tables."""
        if self.unverified is not None or self.withheld:
            return self.withheld
        if not self.count_of(Status.COMPARED):
            return f"nothing was compared, {self.commonest_reason()}"
        known = self.effects.cases["se"].notna().any()
        return "" if known else "no case has a time in two rounds of both versions"

    def count(self, word: Word) -> int:
        """Cases with this verdict; their sums are no cases."""
        return int((self.effects.cases["word"] == word.value).sum())

    def count_sums(self, word: Word) -> int:
        """Sums of the passes of a case with this verdict."""
        return 0 if self.sums is None else int((self.sums.cases["word"] == word.value).sum())

    def commonest_reason(self) -> str:
        """Why most cases are not compared."""
        cases = self.effects.cases
        reasons = cases["head_reason"].where(cases["head_reason"] != "", cases["base_reason"])
        known = reasons[reasons != ""]
        return str(known.mode().iloc[0]) if len(known) else "no case is in both versions"

    def count_of(self, status: Status) -> int:
        """Cases with this status."""
        return int((self.effects.cases["status"] == status.value).sum())

    def error(self, strict: bool = False) -> RooflensError | None:
        """Return the error of the exit code: broken before slower before undecided; nothing to compare is an error."""
        if broken := self.count_of(Status.BROKEN):
            return CorrectnessError(f"{broken} case{'s' * (broken > 1)} passed in base and no longer do in head")
        if slower := self._counted(Word.SLOWER):
            return RegressionError(f"{slower} verified to be slower")
        if self.unmeasured:
            return IncompleteError(self.unmeasured)
        if not self.count_of(Status.COMPARED):
            return IncompleteError(f"nothing was compared: {self.commonest_reason()}")
        if not strict:
            return None
        if self.unverified is not None:
            return IncompleteError("tables have one value per case: nothing in them is verified")
        if not self.complete:
            return IncompleteError("the comparison is not complete")
        if missing := sum(map(self.count_of, (Status.REMOVED, Status.FAILED, Status.IMPOSSIBLE))):
            return IncompleteError(f"{missing} case{'s' * (missing > 1)} of base could not be compared: see the table")
        if self.no_result:
            return IncompleteError(f"no result: {self.no_result}")
        if undecided := self._counted(Word.INCONCLUSIVE):
            changed = (self.effects.cases["withheld"] != "").any()
            why = "the device changed" if changed else "more --rounds would decide"
            return IncompleteError(f"{undecided} inconclusive: {why}")
        return None

    def _counted(self, word: Word) -> str:
        """Say how many cases and sums of passes have a verdict: "1 case is", "3 cases and 2 sums of fwd+bwd are"."""
        cases, sums = self.count(word), self.count_sums(word)
        parts = [f"{cases} case{'s' * (cases > 1)}"] * bool(cases)
        parts += [f"{sums} sum{'s' * (sums > 1)} of {SUM}"] * bool(sums)
        return f"{' and '.join(parts)} {'are' if cases + sums > 1 else 'is'}" if parts else ""


def rows_of(effects: Effects) -> pd.DataFrame:
    """Return the columns of cases that a program needs."""
    return effects.cases[[*COLUMNS]]


def compare_runs(
    base: tuple[Side, RunData],
    head: tuple[Side, RunData],
    order: Order,
    null: RunData | None = None,
    own: RunData | None = None,
) -> Result:
    """Compare two runs; `null` is a second copy of base, `own` head with configurations that it chose itself."""
    versions = from_runs(base[1], head[1], order)
    effects = measure_effects(versions)
    same = measure_effects(from_runs(base[1], null, order)) if null is not None else None
    chosen = measure_effects(from_runs(head[1], own, order)) if own is not None else None
    summed, is_cpu = _summed(versions), head[1].device.is_cpu
    moved = _moved(order, base[1], head[1])
    told = "; ".join(f"the device changed ({kind} canary {math.expm1(by):+.0%} in head)" for kind, by in moved.items())
    explained = vetoed(effects.cases, moved.values(), is_cpu)
    left = ~explained & ~effects.cases["word"].isin(["", Word.INCONCLUSIVE])
    withheld = "; ".join([told] * bool(explained.any() and not left.any()) + [*_disagreements(effects, same)])
    notes = (*_of_order(order, base[1], head[1]), *_of_rounds(versions), *_of_environments(base[1], head[1]))
    if withheld:
        notes = ("Nothing is verified. Measure both versions again on an idle device.", *notes)
    elif told:
        could = f"that could be {explained.sum()} of {(explained | left).sum()} verdicts."
        notes = (f"{told[0].upper()}{told[1:]}: {could}", *notes)
    arms = {"base": base[1], "head": head[1], "null": null, OWN: own}
    runs = {arm: run for arm, run in arms.items() if run is not None}
    return Result(
        base[0],
        head[0],
        order,
        withhold(withhold(effects, told, explained), withheld),
        withhold(withhold(summed, told, vetoed(summed.cases, moved.values(), is_cpu)), withheld) if summed else None,
        same,
        (*notes, *_of_sums(effects), *_of_null(same), *_of_controls(effects)),
        selection=chosen,
        runs=runs,
        searches={side: runs[side].tuning for side in ("base", "head") if len(runs[side].tuning)},
        withheld=withheld,
    )


def compare_tables(base: tuple[Side, Imported], head: tuple[Side, Imported]) -> Result:
    """Compare two imported tables: their changes are ranked, and none is verified."""
    versions = pair(base[1], head[1])
    effects = measure_effects(versions)
    found = rank_unverified(effects)
    notes = (found.explanation(), *_of_sources(base[1], head[1]), *dict.fromkeys((*base[1].notes, *head[1].notes)))
    summed = _summed(versions)
    return Result(
        base[0],
        head[0],
        Order.IMPORTED,
        as_unverified(effects),
        as_unverified(summed) if summed is not None else None,
        None,
        tuple(notes),
        unverified=found,
    )


def _of_sources(base: Imported, head: Imported) -> Iterator[str]:
    if base.device != head.device:
        yield f"The tables are of two devices: {base.device or 'unknown'} and {head.device or 'unknown'}."
    rounded: dict[str, list[str]] = {}
    for side, table in (("base", base), ("head", head)):
        for column, words in table.rounding.items():
            rounded.setdefault(words, []).append(f"{column} of {side}")
    for words, columns in rounded.items():
        yield f"{'Not rounded' if words == RoundingKind.NONE else f'Rounded to {words}'}: {', '.join(columns)}."


def _summed(versions: Versions) -> Effects | None:
    summed = sum_of_passes(versions, SUMMED, SUM)
    return measure_effects(summed) if len(summed.cases) else None


def _of_sums(effects: Effects) -> Iterator[str]:
    """Say how many sums have no ratio because a time of theirs is impossible."""
    timed = effects.cases["status"].isin([Status.COMPARED, Status.IMPOSSIBLE]) & effects.cases["pass"].isin(SUMMED)
    cases = effects.cases[timed].assign(impossible=effects.cases["status"] == Status.IMPOSSIBLE)
    groups = cases.groupby([name for name in CASE if name != "pass"], sort=False, dropna=False)
    whole = groups.agg(passes=("pass", "nunique"), impossible=("impossible", "any"))
    whole = whole.loc[whole["passes"] == len(SUMMED)]
    if left := int(whole["impossible"].sum()):
        yield f"{left} of {len(whole)} sums of {SUM} are excluded: a time is faster than the device allows."


def _of_order(order: Order, base: RunData, head: RunData) -> Iterator[str]:
    if order is Order.SEQUENTIAL:
        yield (
            "The runs were measured one after the other: a drift of the device between them is not excluded, so that "
            f"the margin is {SEQUENTIAL_MARGIN:g} times as wide. rooflens compare --git measures both in turn."
        )
    if devices_differ(base, head):
        yield "The runs were on two devices of one kind: such devices differ by some percent."


def _of_rounds(versions: Versions) -> Iterator[str]:
    least, most = rounds_of(versions)
    if most < 2:
        yield "No case has a time in two rounds of both versions: without that nothing can be verified."
    elif least < most:
        yield f"Cases have {least} to {most} rounds in both versions: those with fewer are known less well."


def _of_environments(base: RunData, head: RunData) -> Iterator[str]:
    """Name the versions of software, and the numbers of CPU threads, that differ."""
    sides = [run.manifest.environment for run in (base, head)]
    differing = [
        f"{name} {sides[0].get(name) or 'unknown'} and {sides[1].get(name) or 'unknown'}"
        for name in dict.fromkeys((*sides[0], *sides[1]))
        if name in _SOFTWARE and sides[0].get(name) != sides[1].get(name)
    ]
    if differing:
        yield f"The versions ran with different software: {', '.join(differing)}. A difference may be theirs."
    threads = [run.manifest.threads for run in (base, head)]
    if None not in threads and threads[0] != threads[1]:
        yield f"The versions ran on {threads[0]} and {threads[1]} CPU threads. A difference may be theirs."


_SOFTWARE = ("rooflens", "python", "torch", "triton", "CUDA", "HIP", "driver", "numpy", "bitsandbytes")


def _moved(order: Order, base: RunData, head: RunData) -> dict[str, float]:
    """How the parts of the canary changed from base to head, as differences of ln time: those that explain anything."""
    moved = {}
    for kind in KINDS:
        before, after = (np.log(run.canary[f"{kind}_s"].dropna().to_numpy(dtype=np.float64)) for run in (base, head))
        if not (len(before) and len(after)):
            continue
        apart = float(np.median(after) - np.median(before))
        # Versions that took turns had the same drift, and readings enough to tell a difference from their scatter.
        if abs(apart) > math.log1p(SLOWDOWN) and (order is Order.SEQUENTIAL or _differ(before, after)):
            moved[kind] = apart
    return moved


def _disagreements(effects: Effects, null: Effects | None) -> Iterator[str]:
    """Say where the versions differ in what is the same in both: identical code."""
    # Other source may launch the same compiled code in another way, which is a change like any other.
    found = controls(effects, ("identity", "artifact", "config", "kernels", "dispatched", "source"))
    if found is not None and found.called > FALSE_DISCOVERY * found.cases:
        yield f"unchanged code (same source, binary and configuration) differs in {found.called} of {found.cases} cases"
    if null is not None:
        called, cases = _called(null)
        if called > FALSE_DISCOVERY * cases:
            yield f"a second copy of base differs from it beyond chance in {called} of {cases} cases"


def _differ(first: Floats, second: Floats) -> bool:
    """Return whether two means differ at 5 % (Welch's t test)."""
    if min(len(first), len(second)) < 2:
        return False
    apart = difference(moments(first), moments(second))
    if not apart.variance:
        return True
    t = np.abs(apart.mean) / np.sqrt(apart.variance / apart.rounds)
    return float(survival(t, apart.freedom)) < (1 - CONFIDENCE) / 2


def _called(effects: Effects) -> tuple[int, int]:
    """Cases that were called slower or faster, and how many have a verdict."""
    words = effects.cases["word"]
    return int(words.isin([Word.FASTER.value, Word.SLOWER.value]).sum()), int((words != "").sum())


def _of_null(null: Effects | None) -> Iterator[str]:
    if null is None:
        return
    called, cases = _called(null)
    spread = null.cases["effect"].std(ddof=1)
    scatter = f"; their effects scatter by {spread:.2%}" if cases > 1 else ""
    yield f"A second copy of base was called different from it in {called} of {cases} cases{scatter}."


def _of_controls(effects: Effects) -> Iterator[str]:
    found = controls(effects)
    if found is None:
        return
    many = f"{found.cases} cases have" if found.cases > 1 else "1 case has"
    scatter = f", scattered by {found.spread:.2%}" if found.cases > 1 else ""
    yield (
        f"{many} the same compiled code and configuration in both versions: {found.called} of them differ beyond "
        f"chance{scatter}, the largest effect is {found.largest:.2%}."
    )
