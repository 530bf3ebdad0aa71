"""`bench`: the time of a call with its interval, as rates, and as a share of what the device allows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import escape

from ..analysis.frames.load import table_content
from ..analysis.frames.tables import parse_table
from ..analysis.roofline.bounds import IMPOSSIBLE_FACTOR
from ..analysis.roofline.ceilings import Ceilings
from ..harness.ceilings.known_limits import known_limits
from ..harness.timing.cache import level_of
from ..harness.worker.agreement import UNCHECKED
from ..reports import formatting as fmt
from ..shapes.device import RATES
from ..shapes.errors import UsageError, unknown_name
from ..shapes.protocol import Protocol
from ..shapes.run_folder.columns import CEILINGS
from ..shapes.run_folder.manifest import MANIFEST, read_manifest
from ..shapes.suite import Cache
from .estimates import estimates
from .sampling import Rounds, check_calls, open_bench, take_rounds

ROUNDS, BUDGET_S = Protocol().rounds, Protocol().budget_s
"""What `rooflens run` takes by default."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The measured time of one call. Times are in seconds; None or empty is unknown.

    median_s    geometric mean of the medians of the rounds: the time of a cell in a run
    interval_s  95 % interval of it, from the scatter between rounds of this process; None with one round
    rounds_s    the samples that count, in order, per round
    flops       what one call computes, bytes what it reads and writes, as they were given
    roof_s      what the ceilings of the device allow at best for these; None where one that it takes is unknown
    impossible  True for a time shorter than the device allows: it decides nothing
    output      "agrees" with the reference, "unchecked" and why, or "not checked" (docs/api.md); "" of the baseline
    """

    name: str
    median_s: float
    interval_s: tuple[float, float] | None
    rounds_s: tuple[tuple[float, ...], ...]
    flops: float | None
    bytes: float | None
    roof_s: float | None
    device: str
    timer: str
    cache: str
    impossible: bool = False
    warnings: tuple[str, ...] = ()
    output: str = "not checked"

    @property
    def samples_s(self) -> tuple[float, ...]:
        """All samples that count."""
        return tuple(sample for taken in self.rounds_s for sample in taken)

    @property
    def tflops(self) -> float | None:
        """Rate in TFLOPS; None without `flops`."""
        return self.flops / self.median_s * 1e-12 if self.flops else None

    @property
    def gb_per_s(self) -> float | None:
        """Bandwidth in GB/s (1e9 bytes); None without `bytes`."""
        return self.bytes / self.median_s * 1e-9 if self.bytes else None

    @property
    def roof_fraction(self) -> float | None:
        """Least time that the device allows over the measured one; None where it is unknown."""
        return self.roof_s / self.median_s if self.roof_s else None

    def row(self) -> dict[str, str]:
        """Figures as a reader sees them, by the header of their column; unknown ones are empty."""
        low, high = self.interval_s or (None, None)
        return {
            "time": fmt.time(self.median_s, low, high),
            "95% interval": fmt.time_interval(low, high),
            "rate": fmt.flops(self.flops / self.median_s if self.flops else None),
            "bandwidth": fmt.bandwidth(self.bytes / self.median_s if self.bytes else None),
            "roof": fmt.share(self.roof_fraction),
            "output": self.output.partition(":")[0],
        }

    def __str__(self) -> str:
        figures = self.row()
        roof, output = figures.pop("roof"), figures.pop("output")
        taken = f"{fmt.plural(len(self.rounds_s), 'round')}, {fmt.plural(len(self.samples_s), 'sample')}, {self.cache}"
        taken += f", output {output}"
        warned = f", {fmt.plural(len(self.warnings), 'warning')}" if self.warnings else ""
        parts = [*figures.values(), f"{roof} of the roof" if roof else "", f"({taken}{warned})"]
        return f"{self.name}: {'  '.join(filter(None, parts))}"

    def _repr_html_(self) -> str:
        return html([{"": self.name} | self.row()], self.warnings)


def bench(
    fn: Callable[..., object],
    *,
    args: Sequence[Any] = (),
    reference: Callable[..., object] | None = None,
    name: str | None = None,
    cold: bool = True,
    flops: float | None = None,
    bytes: float | None = None,
    dtype: str | None = None,
    rounds: int = ROUNDS,
    budget_s: float = BUDGET_S,
    timer: str = "auto",
    device: str = "auto",
    ceilings: Path | str | None = None,
) -> Timing:
    """Time `fn(*args)` in this process, with the timers, the flush, the stop rule and the rounds of `rooflens run`.

    reference a function that computes the same from `args`: outputs are compared, before and between rounds
    cold      evict the last-level cache before every sample, else call back to back
    flops     floating-point operations of one call, bytes what it reads and writes at least: give rates and the roof
    dtype     what it multiplies in ("bf16", "fp8", ...): selects the compute roof; without it, `flops` have none
    rounds    measured rounds; the interval comes from them
    budget_s  seconds of sampling per round at most; a slow call gets a few samples in any case
    timer     "profiler", "event", "graph" (warm only), "host", or "auto" as in a run
    device    "auto" (torch's current GPU, else the CPU), "cpu", "cuda" or "cuda:N": what `fn` computes on
    ceilings  a ceilings.csv, or the folder of a run on this device, with measured ceilings; published ones otherwise

    Raises UsageError for a wrong option, RooflensError where no timer can time `fn`, CorrectnessError where its output
    is not that of `reference`, and what `fn` raises.
    """
    check_work(flops, bytes, dtype)
    chosen = name or name_of(fn)
    check_calls({chosen: fn})
    limits, measured_on = read_ceilings(ceilings) if ceilings is not None else (None, "")
    if measured_on and measured_on != (here := open_bench(device, timer).device.name):
        raise UsageError(f"ceilings {ceilings}: those of {measured_on}, and this is {here}")
    call = partial(fn, *args) if args else fn
    other = partial(reference, *args) if reference else None
    taken = take_rounds({chosen: call}, other, cold=cold, rounds=rounds, budget_s=budget_s, timer=timer, device=device)
    for error in taken.failed.values():
        raise error
    return timings(taken, flops, bytes, dtype, limits)[chosen]


def timings(
    taken: Rounds,
    flops: float | None = None,
    moved_bytes: float | None = None,
    dtype: str | None = None,
    ceilings: pd.DataFrame | None = None,
) -> dict[str, Timing]:
    """Return the timing of every measured call, all of the same work."""
    published = pd.DataFrame(known_limits(taken.device, [dtype] if dtype else []), columns=list(_LIMIT))
    table = published if ceilings is None else pd.concat([published, ceilings[list(_LIMIT)]], ignore_index=True)
    roof_s = _roof_s(Ceilings.of(table), taken, flops, moved_bytes, dtype)
    least_s = _least_s(Ceilings.of(published), taken, flops, moved_bytes, dtype)
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
            flops=flops,
            bytes=moved_bytes,
            roof_s=roof_s or None,
            device=taken.device.name,
            timer=taken.timer,
            cache=taken.cache.value,
            impossible=impossible,
            warnings=warnings,
            output=output,
        )
    return found


def check_work(flops: float | None, moved_bytes: float | None, dtype: str | None) -> None:
    """Raise UsageError for work that no call can do, and for a type that no device has a rate for."""
    for what, value in (("flops", flops), ("bytes", moved_bytes)):
        if value is not None and not 0 < value < math.inf:
            raise UsageError(f"{what}={value!r} must be a positive number")
    if dtype is not None and dtype not in RATES:
        raise unknown_name("dtype", str(dtype), list(RATES))


def name_of(fn: Callable[..., object]) -> str:
    """Name a callable as it names itself; "call" for one without a name."""
    return str(getattr(fn, "__name__", "") or getattr(getattr(fn, "func", None), "__name__", "") or "call")


def read_ceilings(path: Path | str) -> tuple[pd.DataFrame, str]:
    """Return the rows of a ceilings.csv, or of that in a run folder, and the device of the run ("" of a lone file)."""
    folder = Path(path) if Path(path).is_dir() else None
    file = folder / CEILINGS.file if folder else Path(path)
    try:
        content = table_content(folder, CEILINGS) if folder else file.read_bytes()
    except OSError as error:
        content, reason = None, error.strerror
    else:
        reason = "no such file"
    if content is None:
        raise UsageError(f"ceilings {file}: {reason}; make one with rooflens calibrate -o {file}")
    is_run = folder is not None and (folder / MANIFEST).is_file()
    device = read_manifest(folder / MANIFEST).device if folder and is_run else None
    return parse_table(content, CEILINGS, str(file)), device.name if device else ""


def html(rows: Sequence[dict[str, str]], remarks: Sequence[str] = ()) -> str:
    """Write rows as an HTML table, and remarks under it; columns without any text are left out."""
    frame = pd.DataFrame(rows)
    table = frame.loc[:, (frame != "").any()].to_html(index=False, border=0, justify="left")
    notes = "".join(f"<p>{escape(text)}</p>" for text in remarks)
    return f"{table}{notes}"


_LIMIT = ("ceiling", "level", "pattern", "dtype", "value", "unit", "kind", "source")


def _roof_s(
    ceilings: Ceilings, taken: Rounds, flops: float | None, moved_bytes: float | None, dtype: str | None
) -> float:
    """Seconds that the work takes at the best known rates; 0 where one of these is unknown: half a roof is none."""
    level = level_of(int(moved_bytes or 0), taken.cache, taken.device)
    bandwidth, peak = ceilings.bandwidth(level), ceilings.peak(dtype or "")
    if (flops and not peak) or (moved_bytes and not bandwidth):
        return 0.0
    return _longest(flops, peak.value if peak else None, moved_bytes, bandwidth.value if bandwidth else None)


def _least_s(
    published: Ceilings, taken: Rounds, flops: float | None, moved_bytes: float | None, dtype: str | None
) -> float:
    """Seconds that no kernel can beat, 0 where none are known: as of a cell (`roofline.limits.hard_times`)."""
    uncached = max(0.0, (moved_bytes or 0) - (0 if taken.cache is Cache.COLD else taken.device.llc_bytes))
    bandwidth, peak = published.published_bandwidth("dram"), published.hard_peak(dtype or "")
    return _longest(flops, peak.value if peak else None, uncached, bandwidth.value if bandwidth else None)


def _longest(flops: float | None, peak: float | None, moved_bytes: float | None, bandwidth: float | None) -> float:
    return max((flops or 0) / peak if peak else 0.0, (moved_bytes or 0) / bandwidth if bandwidth else 0.0)
