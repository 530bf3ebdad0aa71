"""The trend of each cell over many stored runs, and where its level may have changed.

    stories = [observe(run) for run in runs]        what one run tells, in any order (`run_story`)
    history = follow(stories)                       series, points, and changes (`change_points`) as `proposals`

A series is one cell of one provider under one `KEY`: device, driver, versions and protocol. What was measured under
another key is another series and is never compared with it. The time of a run is the geometric mean of its round
medians.

Times are divided by the canary of their run: the geometric mean of its GEMM and its copy, relative to the first run of
the series that has one. No cell is bound by nothing but the clock or nothing but the memory, and which of both holds it
may change along the series; a canary per bound would turn such a change into a step. The price is that a device whose
clock alone falls by 2 % is seen as 1 % slower. Times as measured are kept beside it. A run without a canary stays as
it was measured, and its series says so.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...analysis.comparison.decide import margins
from ...analysis.frames.deciding import deciding
from ...analysis.statistics.arrays import Floats
from ...analysis.statistics.change_points import LEAST_RUNS, LevelChange, find_changes
from ...shapes.conditions import rows_where
from ...shapes.errors import UsageError, quote, unknown_name
from ...shapes.verdict import Verdict
from .run_story import CELL, KEY, RunMark, Story

MOST = 0.5
"""Share of the series from which on a change of several providers at once is hardly one of their kernels."""

NOISIER = 1.25
"""A canary that makes times scatter by more than this factor from run to run is reported."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of level that a paired comparison is to decide. Runs are positions in `History.runs`.

    series            position in `History.series`
    before, after     last run of the old level, first run of the new one
    earliest, latest  the change lies between these two with 95 % confidence
    change, low, high as shares of the time (above 0: slower), with the 95 % interval
    raw_change        the same change in the times as measured
    q                 false-discovery rate
    remarks           what speaks for or against the code as its cause
    """

    series: int
    before: int
    after: int
    earliest: int
    latest: int
    change: float
    low: float
    high: float
    raw_change: float
    q: float
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """All series of the runs.

    runs       by time
    keys       distinct keys in the order in which they were first met; each as {name: text}
    series     one row per series: CELL, key (position in `keys`), role, runs (with a time), of (runs under the key),
               first_s, last_s, change (last over first, as a share), without_canary (runs), failed (the outcome of the
               cell in a later run, such as "incorrect in RUN", else "")
    points     one row per (series, run) with a time: `run_story.TIMES` as measured, value_s (over the canary unless
               raw), and what else the run says of it (`run_story.FACTS`)
    """

    runs: tuple[RunMark, ...]
    keys: tuple[Mapping[str, str], ...]
    series: pd.DataFrame
    points: pd.DataFrame
    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """Two neighbouring runs between which levels change, by `proposals`; positions in `History.runs`.

    earliest, latest   runs that are certainly before and after every one of the changes
    remark             says so when most series change at once
    """

    before: int
    after: int
    earliest: int
    latest: int
    proposals: tuple[Proposal, ...]
    remark: str


def gaps(history: History) -> tuple[Gap, ...]:
    """Group the proposals by the runs they lie between, in the order of time."""
    found: dict[tuple[int, int], list[Proposal]] = {}
    for one in sorted(history.proposals, key=lambda one: (one.after, one.before, one.series)):
        found.setdefault((one.before, one.after), []).append(one)
    return tuple(
        Gap(
            before=before,
            after=after,
            earliest=min(one.earliest for one in several),
            latest=max(one.latest for one in several),
            proposals=tuple(several),
            remark=_shared(history, before, after, several),
        )
        for (before, after), several in found.items()
    )


def _shared(history: History, before: int, after: int, proposals: Sequence[Proposal]) -> str:
    in_both = history.points["run"].isin([before, after]).groupby(history.points["series"]).sum() == 2
    changed = history.series.loc[[one.series for one in proposals]]
    if changed["provider"].nunique() < 2 or len(changed) < MOST * int(in_both.sum()):
        return ""
    return (
        f"{len(changed)} of {int(in_both.sum())} series change here, of {changed['provider'].nunique()} providers: "
        "suspect the machine or a library before a kernel"
    )


def follow(stories: Iterable[Story], providers: Sequence[str] = (), expression: str = "", raw: bool = False) -> History:
    """Join runs to series and look for changes, in the times over the canary or, if `raw`, as measured.

    `providers` and `expression`, a pandas condition over CELL and KEY, choose series. Raises UsageError for unknown
    providers, wrong conditions, and when no cell was measured twice under one key.
    """
    ordered = sorted(stories, key=lambda story: (story.run.made_at, story.run.folder))
    runs = _told_apart([story.run for story in ordered])
    if len(runs) < 2:
        raise UsageError(f"{len(runs)} run is no history: name two runs or more, such as runs/*")
    rows = pd.concat([story.cells.assign(run=index) for index, story in enumerate(ordered)], ignore_index=True)
    rows = _chosen(rows, providers, expression)
    points = deciding(rows).dropna(subset="time_s").reset_index(drop=True)
    points["key"] = points.groupby([*KEY], sort=False).ngroup()
    counts = points.groupby([*CELL, "key"], sort=False)["run"].transform("size")
    if not (counts > 1).any():
        raise _nothing_in_common(points, runs)
    keys = tuple({name: str(row[name]) for name in KEY} for row in points.drop_duplicates("key").to_dict("records"))
    points["series"] = points.groupby([*CELL, "key"], sort=False).ngroup()
    points = points.sort_values(["series", "run"], kind="stable").reset_index(drop=True)
    points["value_s"] = points["time_s"] if raw else _over_canary(points, runs)
    series = _series(points, runs, _failures(rows, runs))
    found = _changes(points)
    notes = [*_impossible(rows), *_unmeasured(series, raw), *_disturbed(points), *_several_devices(points, runs)]
    notes += [] if raw else _noisy_canary(points)
    groups = points.groupby("series").indices
    proposals = tuple(
        proposal
        for number, changes in enumerate(found)
        if changes
        for proposal in propose(number, points.iloc[groups[number]], changes, runs)
    )
    return History(runs, keys, series, points, proposals, tuple(notes))


def _told_apart(runs: Sequence[RunMark]) -> tuple[RunMark, ...]:
    """Name runs by their folder where several have one id, as the arms of comparisons do."""
    ids = [run.id for run in runs]
    return tuple(run if ids.count(run.id) == 1 else dataclasses.replace(run, id=run.folder) for run in runs)


def _chosen(rows: pd.DataFrame, providers: Sequence[str], expression: str) -> pd.DataFrame:
    known = sorted(rows["provider"].unique())
    for name in providers:
        if name not in known:
            raise unknown_name("provider of these runs", name, known)
    kept = rows[rows["provider"].isin(list(providers))] if providers else rows
    if expression:
        columns = [*CELL, *KEY]
        kept = kept[rows_where(kept[columns], expression, "--filter", columns, "M <= 64 and model == 'llama2-7b'")]
        if kept.empty:
            raise UsageError(f"--filter {quote(expression)} leaves no cell")
    return kept


def _nothing_in_common(points: pd.DataFrame, runs: Sequence[RunMark]) -> UsageError:
    """Say why no series has two points: other cells, or the same under other keys."""
    start = f"nothing in common among {len(runs)} runs: "
    again = points[points.duplicated([*CELL], keep=False)]
    if again.empty:
        return UsageError(f"{start}no cell has a time in two of them; measure one suite several times")
    differ = [name for name in KEY if again[name].nunique() > 1]
    return UsageError(f"{start}each cell was measured once per device and version; they differ in {', '.join(differ)}")


def _over_canary(points: pd.DataFrame, runs: Sequence[RunMark]) -> "pd.Series[float]":
    """Times over the canary of their run, relative to the first run of the series that has one."""
    canary = points["run"].map({index: run.canary_s for index, run in enumerate(runs)})
    reference = canary.groupby(points["series"]).transform("first")  # the first that is known
    return points["time_s"] / (canary / reference).fillna(1.0)


def _failures(rows: pd.DataFrame, runs: Sequence[RunMark]) -> pd.DataFrame:
    """Per cell the newest run in which it failed, and as what."""
    failed = rows[~rows["verdict"].isin([Verdict.PASSED, Verdict.UNSUPPORTED])].sort_values("run", kind="stable")
    newest = failed.drop_duplicates([*CELL], keep="last")
    text = [f"{verdict} in {runs[run].id}" for verdict, run in zip(newest["verdict"], newest["run"], strict=True)]
    return newest[[*CELL]].assign(failed_run=newest["run"], failed=pd.Series(text, index=newest.index, dtype="str"))


def _series(points: pd.DataFrame, runs: Sequence[RunMark], failures: pd.DataFrame) -> pd.DataFrame:
    groups = points.groupby("series", sort=True)
    without = points["run"].map({index: math.isnan(run.canary_s) for index, run in enumerate(runs)})
    table = groups[[*CELL, "key", "role"]].first()
    table["runs"] = groups.size()
    table["of"] = table["key"].map(points.groupby("key")["run"].nunique())
    table["first_s"], table["last_s"] = groups["value_s"].first(), groups["value_s"].last()
    table["change"] = (table["last_s"] / table["first_s"] - 1).where(table["runs"] > 1)
    table["without_canary"] = without.groupby(points["series"]).sum()
    table = table.join(failures.set_index([*CELL]), on=[*CELL])
    later = table["failed_run"] > groups["run"].last()
    table["failed"] = table["failed"].where(later, "").astype("str")
    return table.drop(columns="failed_run").reset_index(drop=True)


def _changes(points: pd.DataFrame) -> list[list[LevelChange]]:
    groups = points.groupby("series", sort=True)
    values = [np.log(group.to_numpy(dtype=np.float64)) for _, group in groups["value_s"]]
    times = groups["time_s"].first().to_numpy(dtype=np.float64)
    step = groups["resolution_s"].max().fillna(0.0).to_numpy(dtype=np.float64)
    # a reading is anywhere within its step: standard deviation of a uniform error
    return find_changes(values, list(margins(times)), list(step / times / math.sqrt(12)))


def _unmeasured(series: pd.DataFrame, raw: bool) -> Iterator[str]:
    """Say what the absence of proposals does not mean."""
    short = int((series["runs"] < LEAST_RUNS).sum())
    if short:
        yield f"{short} of {len(series)} series have fewer than {LEAST_RUNS} runs: no changes are looked for in them"
    bare = int((series["without_canary"] > 0).sum())
    if bare and not raw:
        yield f"{bare} of {len(series)} series hold runs without a canary: those times are as measured"


def _impossible(rows: pd.DataFrame) -> Iterator[str]:
    if count := int(rows["impossible"].sum()):
        timed = int(rows["time_s"].notna().sum())
        yield f"{count} of {timed} times are excluded, because they are faster than the device allows"


def _disturbed(points: pd.DataFrame) -> Iterator[str]:
    if count := int((points["disturbed"] != "").sum()):
        yield f"{count} of {len(points)} times were disturbed; rooflens report of a run says how"


def _several_devices(points: pd.DataFrame, runs: Sequence[RunMark]) -> Iterator[str]:
    """Name models of which several devices were measured."""
    for device, numbers in points.groupby("device")["run"]:
        uuids = {runs[number].uuid for number in numbers} - {""}
        if len(uuids) > 1:
            yield f"{len(uuids)} devices of the model {device} were measured: their series join"


def _noisy_canary(points: pd.DataFrame) -> Iterator[str]:
    """Say so when dividing by the canary does more harm than good."""
    long = points[points.groupby("series")["run"].transform("size") >= LEAST_RUNS]
    scatter = {}
    for column in ("time_s", "value_s"):
        steps = np.log(long[column]).groupby(long["series"]).diff().abs()
        scatter[column] = float(steps.median()) if steps.notna().any() else math.nan
    if scatter["value_s"] > NOISIER * scatter["time_s"]:
        yield (
            f"the canary scatters more than the cells: from run to run times move by {scatter['value_s']:.1%} over it, "
            f"by {scatter['time_s']:.1%} as measured; see --raw"
        )


def propose(
    number: int, points: pd.DataFrame, changes: Sequence[LevelChange], runs: Sequence[RunMark]
) -> Iterator[Proposal]:
    """Yield a proposal per change of series `number`; `points` are its rows of `History.points`."""
    raw, where = np.log(points["time_s"].to_numpy(dtype=np.float64)), points["run"].tolist()
    ends = [0, *(change.at for change in changes), len(points)]
    margin = float(margins(np.exp(raw[:1]))[0])
    for index, change in enumerate(changes):
        as_measured = _step(raw, ends[index], change.at, ends[index + 2])
        before, after = (points.iloc[position].to_dict() for position in (change.at - 1, change.at))
        remarks = list(_code_remarks(before, after))
        if abs(as_measured) < margin:
            remarks.append("not in the times as measured: the canary moved, this cell did not")
        if runs[where[change.at - 1]].uuid != runs[where[change.at]].uuid:
            remarks.append("another device of this model")
        yield Proposal(
            series=number,
            before=where[change.at - 1],
            after=where[change.at],
            earliest=where[change.first - 1],
            latest=where[change.last],
            change=math.expm1(change.effect),
            low=math.expm1(change.low),
            high=math.expm1(change.high),
            raw_change=math.expm1(as_measured),
            q=change.q,
            remarks=tuple(remarks),
        )


def _step(values: Floats, begin: int, at: int, end: int) -> float:
    """Difference of the medians, which outliers do not influence."""
    return float(np.median(values[at:end]) - np.median(values[begin:at]))


def _code_remarks(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[str]:
    if before["config"] != after["config"]:
        yield "another configuration"
    if before["dispatched"] != after["dispatched"]:
        yield "another kernel dispatched"
    if before["source"] == after["source"]:
        yield "same source on both sides"
    elif before["artifact"] and before["artifact"] == after["artifact"]:
        yield "same compiled code on both sides"
    if after["disturbed"] and not before["disturbed"]:
        yield f"disturbed after it: {after['disturbed']}"
