"""From raw samples to one row per cell.

A cell's time is the geometric mean of its round medians, so that the ratio of two times is the speedup of one over the
other. Its interval comes from the rounds (`intervals`); one round gives none. Samples that were discarded are counted
and enter nothing else.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...shapes.run_folder.columns import GEOMETRY, ColumnType
from ...shapes.run_folder.disturbance import worst
from ...shapes.verdict import Verdict
from ..crossover.refine import is_added
from ..frames.coordinates import COORDINATES, METHOD
from ..frames.load import RunData
from ..frames.notes import MIXED, add_notes
from ..frames.telemetry import by_cell
from ..roofline.limits import impossible
from ..stability.canary import disturbances, thresholds
from ..statistics.intervals import mean_interval

_GEOMETRY = tuple(column.name for column in GEOMETRY)

IDENTITY = ("cell_id", "suite", *COORDINATES, "provider", "role")


_BESIDE = {"host_median_s": "host_time_s", "event_median_s": "event_time_s", "kernels_median_s": "kernels_s"}
"""Columns of round medians besides the time, by the column of the samples and of the cells."""


def round_medians(run: RunData) -> pd.DataFrame:
    """Return one row per passed (cell, round): cell_id, round, median_s, samples, and those of `_BESIDE`.

    Only samples that count are in it.
    """
    counting = _counting(run.samples)
    groups = counting.groupby(["cell_id", "round"], sort=False)
    medians = groups.agg(median_s=("time_s", "median"), samples=("time_s", "size"))
    for name, column in _BESIDE.items():
        medians[name] = groups[column].median() if counting[column].notna().any() else np.nan
    return medians.reset_index()


def summarize(run: RunData) -> pd.DataFrame:
    """Return one row per cell, ordered by cache, dtype, scheme, shape (as in the manifest), M and provider.

    Columns: `_COLUMNS`, as stored or described by `COMPUTED`. Of rounds that differ, `samples` and `discarded` are
    sums; accuracy is that of the worst; `timer`, `cold_by` and `tuning` are "mixed"; `candidates` and `tuning_s` are
    the most of any.

    An impossible time is shown, and decides nothing: every step that compares times reads this one column.
    A cell has passed when all its stored rounds have. A failed one keeps no time, whatever its earlier rounds gave.
    """
    cells = run.cells
    verdicts = _verdicts(cells)
    summary = _facts(cells).join(verdicts)
    timed = round_medians(run)
    timed = timed[timed["cell_id"].map(verdicts["verdict"]) == Verdict.PASSED]
    summary = summary.join(_times(timed, timer_steps(_counting(run.samples))))
    lost = run.samples.loc[run.samples["discarded"] != "", ["cell_id", "discarded"]]
    summary = summary.join(by_cell(run.telemetry))
    summary["slowdown"] = summary["slowdown"].fillna("")
    summary["discarded"] = _discarded(summary, lost)
    summary["disturbed"] = _disturbed(summary.index, run)
    summary["flops_per_s"] = summary["flops"].where(summary["flops"] > 0) / summary["time_s"]
    summary["bandwidth_bytes_per_s"] = summary["compulsory_bytes"] / summary["time_s"]
    summary["moved_bandwidth_bytes_per_s"] = summary["moved_bytes"] / summary["time_s"]
    summary["impossible"] = impossible(summary, run.ceilings, run.device)
    # Variance is borrowed among cells whose time is possible.
    summary = summary.join(time_intervals(timed, summary, timed["cell_id"].map(summary["impossible"]).astype("str")))
    summary = _newest(summary.reset_index())
    summary["refined"] = is_added(summary, run.manifest.refinements)
    reasons = {str(cell): list(texts) for cell, texts in lost.drop_duplicates().groupby("cell_id")["discarded"]}
    return _ordered(add_notes(summary, reasons), run)[[*_COLUMNS]]


_COLUMNS = (
    *IDENTITY,
    *("verdict", "reason", "rounds", "samples", "discarded"),
    *("time_s", "time_low_s", "time_high_s", "host_time_s", "event_time_s", "kernels_s", "resolution_s"),
    *("M_total", "M_per_expert", "math_dtype", "flops", "compulsory_bytes", "output_bytes", "moved_bytes"),
    *_GEOMETRY,
    *("flops_per_s", "bandwidth_bytes_per_s", "moved_bandwidth_bytes_per_s"),
    *("snr_db", "relative_error", "cosine", "max_abs_error"),
    *("config", "kernels", "dispatched", "artifact", "identity", "source", *METHOD, "copies", "launches_per_sample"),
    *("candidates", "tuning_s", "blocked", "stop_reason", "cache_level", "elapsed_s", "prepare_s"),
    *("disturbed", "clock_hz", "slowdown", "refined", "impossible", "note", "remarks"),
)


_SIZES = ("M_total", "M_per_expert", "flops", "compulsory_bytes", "output_bytes")


_TEXTS = (
    *("config", "kernels", "dispatched", "artifact", "identity", "source", "math_dtype", "cache_level", "stop_reason"),
)

_NUMBERS = {
    "last": ("moved_bytes", *_GEOMETRY),
    "min": ("blocked", "snr_db", "cosine"),
    "max": (
        *("relative_error", "max_abs_error", "prepare_s"),
        *("copies", "launches_per_sample", "candidates", "tuning_s"),
    ),
    "sum": ("elapsed_s",),
}
"""What becomes of the numbers of rounds that differ."""


def _counting(samples: pd.DataFrame) -> pd.DataFrame:
    """Exclude what was discarded."""
    counts = samples["discarded"] == ""
    return samples if counts.all() else samples[counts]


def _verdicts(cells: pd.DataFrame) -> pd.DataFrame:
    """Per cell: verdict, reason and number of passed rounds."""
    passed = cells["verdict"] == Verdict.PASSED
    failures_first = cells[["cell_id", "verdict", "reason"]].assign(passed=passed).sort_values("passed", kind="stable")
    worst = failures_first.drop_duplicates("cell_id").set_index("cell_id")[["verdict", "reason"]]
    return worst.assign(rounds=passed.groupby(cells["cell_id"]).sum().reindex(worst.index).astype("int64"))


def _facts(cells: pd.DataFrame) -> pd.DataFrame:
    """Per cell what its commit rows say; where rounds differ, the last one that says anything, or the worst."""
    stored = [*_TEXTS, *METHOD]
    texts = cells[stored]
    stated = cells.assign(**texts.where(texts != ""))
    groups = stated.groupby("cell_id", sort=False)
    identity = cells.drop_duplicates("cell_id").set_index("cell_id")[[*IDENTITY[1:], *_SIZES]]
    facts = groups[stored].last().astype("object").fillna("").astype("str")
    for name in METHOD:
        if stated[name].nunique() > 1:
            facts[name] = facts[name].mask(groups[name].nunique() > 1, MIXED)
    ran_out = (cells["stop_reason"] == "budget").groupby(cells["cell_id"]).any()
    facts["stop_reason"] = facts["stop_reason"].mask(ran_out.reindex(facts.index), "budget")
    numbers = groups.agg(
        configs=("config", "nunique"),
        records_discards=("discarded", "count"),
        last_started=("started_at", "max"),
        **{name: (name, how) for how, names in _NUMBERS.items() for name in names},
    )
    numeric = [column.name for column in GEOMETRY if column.kind is not ColumnType.TEXT]
    stored_whole = ["moved_bytes", "copies", "launches_per_sample", "candidates", *numeric]
    numbers[stored_whole] = numbers[stored_whole].astype("float64")
    return identity.join(facts).join(numbers)


def _times(timed: pd.DataFrame, steps: "pd.Series[float]") -> pd.DataFrame:
    """Per cell: geometric means of round medians, and the timer step of `steps`."""
    cells = timed["cell_id"]
    time_s = np.exp(np.log(timed["median_s"]).groupby(cells, sort=False).mean())
    return pd.DataFrame(
        {
            "time_s": time_s,
            **{name: np.exp(np.log(timed[column]).groupby(cells).mean()) for column, name in _BESIDE.items()},
            "samples": timed["samples"].groupby(cells).sum(),
            "resolution_s": steps.reindex(time_s.index),
        }
    )


def time_intervals(timed: pd.DataFrame, times: pd.DataFrame, pools: "pd.Series[str] | None" = None) -> pd.DataFrame:
    """Per cell_id: the 95 % interval of its time in seconds, `time_low_s` and `time_high_s`; NaN with one round.

    `timed` has the `median_s` of each (cell_id, round), `times` by cell_id the `time_s`, and the `resolution_s` of
    `timer_steps`. Variance is borrowed within each of `pools`, one name per row of `timed`.
    """
    spread = mean_interval(np.log(timed["median_s"]), timed["cell_id"], pools)
    # A stable kernel is rounded to the same step in every round: rounds do not average that out.
    half_step = (times["resolution_s"] / times["time_s"]).reindex(spread.index).fillna(0) / 2
    return pd.DataFrame(
        {"time_low_s": np.exp(spread["low"] - half_step), "time_high_s": np.exp(spread["high"] + half_step)}
    )


def timer_steps(samples: pd.DataFrame) -> "pd.Series[float]":
    """Smallest gap between different samples of one round, by cell_id, where at least half of the samples are ties.

    NaN elsewhere: a continuous timer gives no ties. Gaps between rounds are drift, and do not count.
    """
    cells, names = pd.factorize(samples["cell_id"])
    seconds, rounds = samples["time_s"].to_numpy(), samples["round"].to_numpy()
    counts = np.bincount(cells, minlength=len(names))
    order = np.lexsort((seconds, rounds, cells))
    ordered, cell, number = seconds[order], cells[order], rounds[order]
    begins = np.concatenate(([True], (cell[1:] != cell[:-1]) | (number[1:] != number[:-1])))[: len(cell)]
    step = np.diff(ordered, prepend=np.nan)
    # Closer than a millionth, two values are one tick that went through float32 milliseconds.
    moves = ~begins & (step > 1e-6 * ordered)
    values = np.bincount(cell[begins | moves], minlength=len(counts))
    smallest = np.full(len(counts), np.inf)
    np.minimum.at(smallest, cell[moves], step[moves])
    return pd.Series(np.where((2 * values <= counts) & np.isfinite(smallest), smallest, np.nan), index=names)


def _discarded(summary: pd.DataFrame, lost: pd.DataFrame) -> "pd.Series[float]":
    """Per passed cell how many samples do not count; NaN where that was not recorded."""
    counts = lost.groupby("cell_id").size().reindex(summary.index, fill_value=0).astype("float64")
    recorded = summary["records_discards"].astype(bool) | (counts > 0)
    return counts.where(recorded & (summary["verdict"] == Verdict.PASSED))


def _disturbed(cell_ids: "pd.Index[str]", run: RunData) -> list[str]:
    """Per cell what disturbed it: what its rounds say, and the canary around them.

    Of causes that differ in their numbers only, as rounds give them, the worst is kept.
    """
    passed = run.cells.loc[run.cells["verdict"] == Verdict.PASSED]
    own = passed.loc[passed["disturbed"] != ""].set_index("cell_id")["disturbed"]
    canary = disturbances(passed, run.canary, run.device_of, thresholds(run.starts, run.device.is_cpu))
    texts = pd.concat([own, canary]).groupby(level=0).agg(lambda cell: worst(cell.unique()))
    return list(map(str, texts.reindex(cell_ids, fill_value="")))


def _newest(summary: pd.DataFrame) -> pd.DataFrame:
    """Keep one row per coordinates and provider: the one that was measured last (another source has another id)."""
    where = [*COORDINATES, "provider"]
    summary = summary.sort_values("last_started", kind="stable")
    kept = summary.drop_duplicates(where, keep="last")
    return kept.assign(superseded=summary.duplicated(where, keep=False))


def _ordered(summary: pd.DataFrame, run: RunData) -> pd.DataFrame:
    shapes = [(shape.model, shape.layer) for shape in run.manifest.shapes]
    orders = {name: run.cells[name].unique().tolist() for name in ("dtype", "scheme", "pass")}
    orders["provider"] = list(run.manifest.providers)
    ranks = {name: _rank(summary[name].tolist(), order) for name, order in orders.items()}
    ranks["shape"] = _rank(list(zip(summary["model"], summary["layer"], strict=True)), shapes)
    by = ["cache", "dtype", "scheme", "shape", "pass", "B", "N", "K", "M", "provider"]
    order = summary.assign(**ranks).sort_values(by, kind="stable").index
    return summary.loc[order].reset_index(drop=True)


def _rank(values: Sequence[object], order: Sequence[object]) -> list[int]:
    position = {value: index for index, value in reversed(list(enumerate(order)))}
    return [position.get(value, len(order)) for value in values]
