"""`bench`: the time of a call, or of several against a baseline; `do_bench`: that of a call, as triton returns it.

What samples of rounds say of a time is found by the method of a run (`analysis.run.summarize`), and what they say of a
change by that of `rooflens compare`. Samples are given by the name of a call: one sequence of seconds per round.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd

from ..analysis.comparison.decide import Word, decide
from ..analysis.comparison.effects import Order, margins_of
from ..analysis.frames.load import load_run
from ..analysis.frames.tables import parse_table
from ..analysis.roofline.bounds import IMPOSSIBLE_FACTOR
from ..analysis.roofline.ceilings import Ceiling, Ceilings
from ..analysis.run.summarize import time_intervals, timer_steps
from ..analysis.statistics.arrays import Moments, difference, moments
from ..harness.ceilings.known_limits import known_limits
from ..harness.isolation.faults import describe
from ..harness.timing.cache import level_of
from ..harness.worker.agreement import UNCHECKED
from ..reports import formatting as fmt
from ..shapes.device import RATES
from ..shapes.errors import UsageError, unknown_name
from ..shapes.protocol import COMPARED_ROUNDS, Protocol
from ..shapes.run_folder.columns import CEILINGS
from ..shapes.suite import Cache
from .sampling import Rounds, check_calls, open_bench, take_rounds, take_samples
from .times import Change, Comparison, Timing

Samples = Mapping[str, Sequence[Sequence[float]]]

ROUNDS, BUDGET_S = Protocol().rounds, Protocol().budget_s
"""What `rooflens run` takes by default."""

_LIMIT = ("ceiling", "level", "pattern", "dtype", "value", "unit", "kind", "source")
"""Columns of a limit, measured or published."""

MODES = ("mean", "median", "min", "max", "all")
"""What `do_bench` makes of its times, as triton's does."""


@overload
def bench(calls: Callable[..., object], /, **options: Any) -> Timing: ...


@overload
def bench(calls: Mapping[str, Callable[..., object]], /, **options: Any) -> Comparison: ...


def bench(  # type: ignore[misc]  # the overloads leave options to this signature
    calls: Callable[..., object] | Mapping[str, Callable[..., object]],
    *,
    args: Sequence[Any] = (),
    reference: Callable[..., object] | None = None,
    name: str | None = None,
    baseline: str | None = None,
    check: bool = True,
    cold: bool = True,
    flops: float | None = None,
    bytes: float | None = None,
    dtype: str | None = None,
    rounds: int | None = None,
    budget_s: float = BUDGET_S,
    within_s: float | None = None,
    timer: str = "auto",
    device: str = "auto",
    ceilings: Path | str | None = None,
    begun: Callable[[str], object] = lambda name: None,
) -> Timing | Comparison:
    """Time a call in this process, with the timers, the flush, the stop rule and the rounds of `rooflens run`.

    Several calls of the same work, by name, are timed in interleaved rounds, and each is judged against `baseline` (by
    default the first): a change has to exceed a margin (1 %; 3 % below 10 us), and of all changes that are called, 5 %
    are expected to be false. It holds for this process: what differs from process to process, such as addresses, is not
    in it. A call that is wrong or raises has no time, and one that cannot be compared no verdict.

    args      arguments of every call
    reference a function that computes the same from `args`: outputs are compared, before and between rounds; of several
              calls, those of the baseline are compared with unless `check` is False
    name      of one call
    cold      evict the last-level cache before every sample, else call back to back
    flops     floating-point operations of one call, bytes what it reads and writes at least: give rates and the roof
    dtype     what it multiplies in ("bf16", "fp8", ...): selects the compute roof; without it, `flops` have none
    rounds    measured rounds, 3 of one call and 8 of several by default; the interval comes from them
    budget_s  seconds of sampling per call and round at most; a slow call gets a few samples in any case
    within_s  seconds of all rounds: sampling is cut short so that two fit
    timer     "profiler", "event", "graph" (warm only), "host", or "auto" as in a run
    device    "auto" (torch's current GPU, else the CPU), "cpu", "cuda" or "cuda:N": what calls compute on
    ceilings  a ceilings.csv, or the folder of a run on this device, with measured ceilings; published ones otherwise
    begun     is told the name of a call before it is made

    Raises UsageError for a wrong option and RooflensError where no timer can time a call; for one call also
    CorrectnessError where its output is not that of `reference`, and what it raises.
    """
    several = isinstance(calls, Mapping)
    named = calls if isinstance(calls, Mapping) or not callable(calls) else {name or name_of(calls): calls}
    if several and name:
        raise UsageError(f"name={name!r} is of one call: the keys of a dictionary are the names of several")
    work = _Work(flops, bytes, dtype)
    check_calls(named)
    base = next(iter(named)) if baseline is None else baseline
    if base not in named:
        raise unknown_name("baseline", base, list(named))
    limits = _read_ceilings(ceilings, device, timer) if ceilings is not None else None
    bound = {one: partial(call, *args) if args else call for one, call in named.items()}
    other = partial(reference, *args) if reference else bound[base] if check and several else None
    taken = take_rounds(
        *(bound, other, begun),
        cold=cold,
        rounds=(COMPARED_ROUNDS if several else ROUNDS) if rounds is None else rounds,
        budget_s=budget_s,
        within_s=within_s,
        timer=timer,
        device=device,
    )
    found = _timings(taken, work, limits)
    if not several:
        for error in taken.failed.values():
            raise error
        return found[base]
    others = [one for one in found if one != base and not found[one].output.startswith(UNCHECKED)]
    changes = _interleaved(taken, base, others) if others and base in found else {}
    for one in changes:
        if found[base].impossible or found[one].impossible:
            changes[one] = replace(changes[one], verdict=Word.INCONCLUSIVE, detectable=None)
    return Comparison(base, found, changes, taken.failed, {one: describe(why) for one, why in taken.failed.items()})


def do_bench(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """Time `fn` as `triton.testing.do_bench` does, with the timers and the flush of `rooflens run`; returns ms.

    warmup        milliseconds of untimed calls
    rep           milliseconds of sampling, flushes included
    grad_to_none  tensors whose `grad` is reset before every call, untimed
    quantiles     such as [0.2, 0.5, 0.8]: return these, or a single one; `return_mode` is ignored
    return_mode   "mean", "median", "min", "max", or "all" for every time

    Raises UsageError for a wrong option, and what `fn` raises.
    """
    if not callable(fn):
        raise UsageError(f"a {type(fn).__name__} cannot be measured: give a function")
    if return_mode not in MODES:
        raise unknown_name("return_mode", str(return_mode), list(MODES))
    if quantiles is not None and not (isinstance(quantiles, Sequence) and all(0 <= one <= 1 for one in quantiles)):
        raise UsageError(f"quantiles={quantiles!r}: give a list of numbers from 0 to 1")
    tensors = tuple(grad_to_none or ())

    def reset() -> None:
        for tensor in tensors:
            tensor.grad = None

    times_ms = [time_s * 1e3 for time_s in take_samples(fn, reset, warmup * 1e-3, rep * 1e-3)]
    if quantiles is not None:
        found: list[float] = np.quantile(times_ms, list(quantiles)).tolist()
        return found[0] if len(found) == 1 else found
    return times_ms if return_mode == "all" else float(getattr(np, return_mode)(times_ms))


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


def round_medians(samples: Samples) -> pd.DataFrame:
    """Return one row per (call, round): cell_id (the name of the call), round, median_s."""
    groups = _frame(samples).groupby(["cell_id", "round"], sort=False)
    return groups["time_s"].median().rename("median_s").reset_index()


def estimates(samples: Samples) -> pd.DataFrame:
    """Return by name: time_s, the geometric mean of the round medians; time_low_s, time_high_s; resolution_s.

    The bounds are NaN with one round; resolution_s is the step of a coarse timer, NaN where there is none.
    """
    medians = round_medians(samples)
    time_s = np.exp(np.log(medians["median_s"]).groupby(medians["cell_id"], sort=False).mean())
    times = pd.DataFrame({"time_s": time_s, "resolution_s": timer_steps(_frame(samples)).reindex(time_s.index)})
    return times.join(time_intervals(medians, times))


def _frame(samples: Samples) -> pd.DataFrame:
    rows = [
        (name, number, time_s)
        for name, rounds in samples.items()
        for number, taken in enumerate(rounds)
        for time_s in taken
    ]
    return pd.DataFrame(rows, columns=["cell_id", "round", "time_s"])


@dataclass(frozen=True, slots=True)
class _Work:
    """What one call does: floating-point operations, bytes, and the type it multiplies in; None is unknown.

    Raises UsageError for work that no call can do, and for a type that no device has a rate for.
    """

    flops: float | None
    bytes: float | None
    dtype: str | None

    def __post_init__(self) -> None:
        for what, value in (("flops", self.flops), ("bytes", self.bytes)):
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{what}={value!r} must be a positive number")
        if self.dtype is not None and self.dtype not in RATES:
            raise unknown_name("dtype", str(self.dtype), list(RATES))

    def roof_s(self, ceilings: Ceilings, taken: Rounds) -> float | None:
        """Seconds that it takes at the best known rates; None where one of these is unknown: half a roof is none."""
        level = level_of(int(self.bytes or 0), taken.cache, taken.device)
        bandwidth, peak = ceilings.bandwidth(level), ceilings.peak(self.dtype or "")
        if (self.flops and not peak) or (self.bytes and not bandwidth):
            return None
        return _longest(self.flops, peak, self.bytes, bandwidth) or None

    def least_s(self, published: Ceilings, taken: Rounds) -> float:
        """Seconds that no kernel can beat, 0 where none are known: as of a cell (`roofline.limits.hard_times`)."""
        uncached = max(0.0, (self.bytes or 0) - (0 if taken.cache is Cache.COLD else taken.device.llc_bytes))
        peak, bandwidth = published.hard_peak(self.dtype or ""), published.published_bandwidth("dram")
        return _longest(self.flops, peak, uncached, bandwidth)


def _longest(flops: float | None, peak: Ceiling | None, moved_bytes: float | None, bandwidth: Ceiling | None) -> float:
    return max((flops or 0) / peak.value if peak else 0.0, (moved_bytes or 0) / bandwidth.value if bandwidth else 0.0)


def _timings(taken: Rounds, work: _Work, ceilings: pd.DataFrame | None) -> dict[str, Timing]:
    """Return the timing of every measured call, all of the same work."""
    published = pd.DataFrame(known_limits(taken.device, [work.dtype] if work.dtype else []), columns=list(_LIMIT))
    table = published if ceilings is None else pd.concat([published, ceilings[list(_LIMIT)]], ignore_index=True)
    roof_s, least_s = work.roof_s(Ceilings.of(table), taken), work.least_s(Ceilings.of(published), taken)
    found = {}
    for name, row in estimates(taken.samples).iterrows():
        warnings, output = taken.warnings(str(name)), taken.outputs.get(str(name), "")
        if output.startswith(UNCHECKED):
            warnings += (output,)
        impossible = bool(row["time_s"] < IMPOSSIBLE_FACTOR * least_s)
        if impossible:
            warnings += (
                f"faster than {taken.device.name} allows ({fmt.time(least_s)}): do flops, bytes and dtype hold?",
            )
        low, high = float(row["time_low_s"]), float(row["time_high_s"])
        found[str(name)] = Timing(
            name=str(name),
            median_s=float(row["time_s"]),
            interval_s=None if math.isnan(low) else (low, high),
            rounds_s=taken.samples[str(name)],
            flops=work.flops,
            bytes=work.bytes,
            roof_s=roof_s,
            device=taken.device.name,
            timer=taken.timer,
            cache=taken.cache.value,
            impossible=impossible,
            warnings=warnings,
            output=output,
        )
    return found


def name_of(fn: Callable[..., object]) -> str:
    """Name a callable as it names itself; "call" for one without a name."""
    return str(getattr(fn, "__name__", "") or getattr(getattr(fn, "func", None), "__name__", "") or "call")


def _read_ceilings(path: Path | str, device: str, timer: str) -> pd.DataFrame:
    """Return the rows of a ceilings.csv, or the ceilings of a run, which must be on the same device."""
    if Path(path).is_dir():
        run, here = load_run(Path(path)), open_bench(device, timer).device
        if run.device.name != here.name:
            raise UsageError(f"ceilings {path}: those of {run.device.name}, and this is {here.name}")
        return run.ceilings
    try:
        return parse_table(Path(path).read_bytes(), CEILINGS, str(path))
    except OSError as error:
        raise UsageError(f"ceilings {path}: {error.strerror}; make one with rooflens calibrate -o {path}") from None
