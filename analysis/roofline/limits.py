"""The time of every limit of every cell, and the ceiling that it comes from.

A model of what an implementation does can be wrong: a tile that is not what was counted, a re-read that a cache served.
One that takes longer than the cell did is refuted, and falls back to the least that is needed; `refuted` says which.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...shapes.device import Device
from ...shapes.problem import Pass
from ..statistics.arrays import Flags, Floats, Ints, floats
from .bounds import IMPOSSIBLE_FACTOR, LIMITS, Bound, implemented
from .ceilings import Ceiling, Ceilings
from .traffic import first_bytes, output_bytes, pattern, served_bytes

COLUMNS = {limit: f"{limit}_time_s" for limit in LIMITS} | {
    Bound.COMPUTE: "mma_time_s",
    Bound.LAUNCH: "launches_time_s",
}
"""Column of a placed cell with the time of each limit, as implemented."""


@dataclass(frozen=True, slots=True)
class Used:
    """The ceilings of all cells: `at[i]` is the position in `kinds` of those of cell i; `clock` as published.

    Cells of one (memory level, pattern, type that is multiplied, cache) share theirs; None where one is unknown.
    """

    kinds: tuple[Mapping[str, Ceiling | None], ...]
    at: Ints
    clock: Ceiling | None

    def values(self, name: str) -> Floats:
        """Value of one ceiling for every cell, NaN where it is unknown."""
        values = [np.nan if (one := kind[name]) is None else one.value for kind in self.kinds]
        return np.array(values, dtype=np.float64)[self.at]

    def texts(self, name: str) -> list[str]:
        """Name, kind and source of one ceiling for every cell, "" where it is unknown."""
        texts = [str(kind[name] or "") for kind in self.kinds]
        return [texts[position] for position in self.at]


def math_dtypes(summary: pd.DataFrame) -> "pd.Series[str]":
    """Type whose peak bounds each cell: what its provider multiplies in, the activations' where that is not stored."""
    return summary["math_dtype"].where(summary["math_dtype"] != "", summary["dtype"])


def memory_level(summary: pd.DataFrame) -> "pd.Series[str]":
    """Where the operands are when a launch begins: dram when cold, else the level that the working set fits in."""
    return summary["cache_level"].where(summary["cache"] != "cold", "dram")


def choose(summary: pd.DataFrame, ceilings: Ceilings, device: Device) -> Used:
    """Find the ceilings of each cell."""
    keys = pd.DataFrame(
        {
            "level": memory_level(summary),
            "pattern": pattern(summary),
            "dtype": math_dtypes(summary),
            "cache": summary["cache"],
        }
    )
    groups = keys.groupby([*keys.columns], sort=False, dropna=False).ngroup()
    arch = device.arch
    kinds = tuple(
        _limits(ceilings, arch, *row) for row in keys[~groups.duplicated()].itertuples(index=False, name=None)
    )
    return Used(kinds, np.asarray(groups, dtype=np.int64), ceilings.clock() or published_clock(device))


def _limits(
    ceilings: Ceilings, arch: str, level: str, traffic: str, dtype: str, cache: str
) -> dict[str, Ceiling | None]:
    return {
        "memory": ceilings.bandwidth(level, traffic),
        "dram": ceilings.bandwidth("dram", traffic),
        "llc": ceilings.bandwidth("llc", traffic),
        "peak": ceilings.peak(dtype),
        "published_peak": ceilings.published_peak(dtype),
        "vector": ceilings.vector(arch),
        "integer": ceilings.integer(),
        "launch": ceilings.launch(),
        "fill": ceilings.fill(cache),
        "latency": ceilings.latency("dram" if level == "dram" else "llc"),
        "near": ceilings.latency("llc"),
    }


def impossible(summary: pd.DataFrame, ceilings: pd.DataFrame, device: Device) -> "pd.Series[bool]":
    """Find the cells whose time is under 0.98 of `hard_times`; False without a time.

    `ceilings` are the rows of ceilings.csv, and `device` is that of run.json. `place` marks the same cells.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        hard = hard_times(summary, Ceilings.of(ceilings), device)
    return summary["time_s"] < IMPOSSIBLE_FACTOR * hard


def published_clock(device: Device) -> Ceiling | None:
    """Clock of the published rates by the device table, for runs whose ceilings lack it."""
    spec = device.looked_up().spec
    if spec is None or spec.clock_hz is None:
        return None
    return Ceiling(spec.clock_hz, "boost clock", "spec", spec.source)


def limit_times(cells: pd.DataFrame, used: Used, device: Device) -> dict[str, "pd.Series[Any] | Floats | list[str]"]:
    """Return the columns of `place` that are times of limits, and what they are made of."""
    llc_bytes = float(device.llc_bytes or 0)
    level = memory_level(cells)
    time = floats(cells, "time_s")
    flops = floats(cells, "flops")
    compute, published = flops / used.values("peak"), flops / used.values("published_peak")
    clock_ratio = _clock_ratio(cells, used.clock)
    tile_factor = _tile_factor(cells, flops)
    wave = _wave_share(cells, device)
    launch = used.values("launch")
    count, between, counted = _kernels(cells, launch, time)
    running = time - between  # no model of a kernel may take longer
    mma, quantized = _accept(
        compute, compute * np.nan_to_num(tile_factor, nan=1.0) / np.nan_to_num(wave, nan=1.0), running
    )
    alu, decoded, by_integer = _decode_time(cells, used, wave, running)
    fill = count * used.values("fill")
    latency, pipe, scheduled = _schedule_times(cells, used, device, running)
    multiplies = (cells["pipe"] == "matrix").to_numpy() if "pipe" in cells else np.zeros(len(cells), dtype=bool)
    other_pipe = np.where(multiplies, np.nan, pipe)
    by_pipe = other_pipe > np.nan_to_num(alu)
    served, remembered = _memory_times(cells, level, used, llc_bytes, running)
    parts = served | {
        "mma_time_s": np.fmax(mma, np.where(multiplies, pipe, np.nan)),
        "alu_time_s": np.fmax(alu, other_pipe),
        "latency_time_s": latency,
        "launches_time_s": count * launch + between,
    }
    stacked = np.stack([parts[COLUMNS[limit]] for limit in LIMITS], axis=1)
    filled = implemented(stacked, fill, between) <= _longest(time)
    filled |= np.isnan(time) | np.isnan(fill)
    doubts = {"tile and wave": ~quantized, "decoding": ~decoded, "moved bytes": ~remembered, "fill": ~filled}
    doubts |= {"schedule": ~scheduled, "kernels": ~counted}
    return {
        "memory_level": level,
        "memory_time_s": cells["compulsory_bytes"] / used.values("memory"),
        "compute_time_s": compute,
        "compute_spec_time_s": published,
        "compute_clock_time_s": published / clock_ratio,
        "clock_ratio": clock_ratio,
        "tile_factor": tile_factor,
        "wave_share": wave,
        "waves": floats(cells, "workgroups") / (_units(device) * floats(cells, "resident")),
        "fill_time_s": np.where(filled, fill, 0.0),
        "between_kernels_s": between,
        "launch_time_s": launch,
        "decode_time_s": alu,
        "pipe_time_s": pipe,
        **parts,
        "refuted": _named(doubts),
        "memory_ceiling": used.texts("memory"),
        "compute_ceiling": used.texts("peak"),
        "alu_ceiling": np.where(
            by_pipe, _PIPES, np.where(by_integer, used.texts("integer"), used.texts("vector"))
        ).tolist(),
        "launch_ceiling": used.texts("launch"),
    }


SCHEDULE_ERROR = 1.1
"""A schedule that takes up to this many times as long as its cell did may still be right: costs are known to 10 %."""

_PIPES = "the busiest pipe (derived: instructions of the machine code, at the observed clock)"


def _units(device: Device) -> float:
    return float(device.compute_units or np.nan)


def _tile_factor(cells: pd.DataFrame, flops: Floats) -> Floats:
    """FLOPs that the matrix units are given over useful ones; NaN where unknown, 1 without any."""
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.fmax(floats(cells, "issued_flops") / flops, 1.0)
    factor[np.isnan(floats(cells, "issued_flops"))] = np.nan
    return np.where(flops > 0, factor, 1.0)


def _wave_share(cells: pd.DataFrame, device: Device) -> Floats:
    """Mean load of the units over that of the busiest: (workgroups / units) / ceil(workgroups / units).

    Workgroups that share a unit share its rate, and one that has it alone has all of it, so the busiest unit has
    ceil(workgroups / units) of them to do, however many it holds at once.
    """
    per_unit = floats(cells, "workgroups") / _units(device)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = per_unit / np.ceil(per_unit)
    return np.asarray(np.where(share > 0, share, np.nan), dtype=np.float64)


def _longest(time: Floats) -> Floats:
    """Seconds that a limit of a cell can take at most."""
    return time / IMPOSSIBLE_FACTOR


def _accept(least: Floats, model: Floats, time: Floats) -> tuple[Floats, Flags]:
    """Take `model` where its cell took that long, `least` elsewhere; and return where it was not refuted."""
    accepted = (model <= _longest(time)) | np.isnan(model) | np.isnan(time)
    return np.where(accepted & ~np.isnan(model), model, least), accepted


def _decode_time(cells: pd.DataFrame, used: Used, wave: Floats, time: Floats) -> tuple[Floats, Flags, Flags]:
    """Time of decoding, where nothing of it was refuted, and where the rate of shifts and logic bounds it.

    Every instruction is issued, and some of them wait for a slower unit on top: the longer of both times decides. Where
    only the latter is refuted, the former is left.
    """
    weights, share = floats(cells, "decoded_weights"), np.nan_to_num(wave, nan=1.0)
    issued = floats(cells, "decode_per_weight") * weights / used.values("vector") / share
    integer = floats(cells, "decode_integer_per_weight") * weights / used.values("integer") / share
    all_kinds, fits = _accept(np.full_like(time, np.nan), issued, time)
    alu, both_fit = _accept(all_kinds, np.fmax(issued, integer), time)
    return alu, fits & both_fit, both_fit & (integer > issued)


TICK_S = 1e-9
"""Profilers stamp whole nanoseconds: less than half of one between kernels is an error of rounding."""

STORED_DIGITS = 1e-4
"""Some runs store times in five digits, and the durations of kernels in more: a smaller share is one too."""


def _kernels(cells: pd.DataFrame, launch: Floats, time: Floats) -> tuple[Floats, Floats, Flags]:
    """Kernels of a launch, seconds in which none of them ran, and where neither was refuted.

    1 and 0 where the timer does not see them. 1 where so many would take longer than the cell did: a provider may state
    more kernels than it launches, or fewer.
    """
    counts = {text: len(json.loads(text or "[]")) for text in pd.unique(cells["kernels"])}
    stated = cells["kernels"].map(counts).to_numpy(dtype=np.float64)
    between = time - floats(cells, "kernels_s")
    seen = np.isfinite(between)
    between = np.where(seen & (between >= np.fmax(TICK_S / 2, STORED_DIGITS * time)), between, 0.0)
    least = np.where(between > 0, 2.0, 1.0)  # what is between two kernels proves both of them
    count = np.where(seen, np.fmax(stated, least), 1.0)
    possible = ~(count * launch + between > _longest(time)) | (count == 1)
    return np.where(possible, count, 1.0), between, possible


def _schedule_times(cells: pd.DataFrame, used: Used, device: Device, time: Floats) -> tuple[Floats, Floats, Flags]:
    """Time of the workgroups that one unit runs one after another, of its busiest pipe, and where neither was refuted.

    As many workgroups as fit onto a unit run at once; each takes at least what it takes alone, on top of an empty
    launch. All of them together occupy the pipe.
    """
    clock = floats(cells, "clock_hz")
    clock = np.where(np.isnan(clock), used.clock.value if used.clock else np.nan, clock)
    per_unit = np.ceil(floats(cells, "workgroups") / _units(device))
    turns = np.ceil(per_unit / np.nan_to_num(floats(cells, "resident"), nan=1.0))
    alone = floats(cells, "schedule_clocks") / clock + floats(cells, "memory_waits") * used.values("latency")
    started = turns * alone + used.values("launch")
    started = np.where(np.isnan(started), _library_times(cells, used, clock), started)
    # what another kernel of the launch left is in the last-level cache
    others = floats(cells, "other_clocks") / clock + floats(cells, "other_waits") * used.values("near")
    started = np.where(np.isnan(others), started, np.fmax(started, used.values("launch")) + others)
    none = np.full_like(time, np.nan)
    latency, possible = _accept(none, started, SCHEDULE_ERROR * time)
    pipe, occupied = _accept(none, per_unit * floats(cells, "pipe_clocks") / clock, SCHEDULE_ERROR * time)
    return np.minimum(latency, time), np.minimum(pipe, time), possible & occupied


def _library_times(cells: pd.DataFrame, used: Used, clock: Floats) -> Floats:
    """Least time of the GEMMs of cuBLAS in each launch, one after another: NaN where there are none that are known.

    Each takes an empty launch, the answer of memory that its first product waits for, and the passage of one tile's
    operands through shared memory.
    """
    least = cells[["M", "N", "K"]].min(axis=1)
    keys = pd.DataFrame({"kernels": cells["kernels"], "K": cells["K"].where(cells["pass"] == Pass.FWD, least)})
    known = {key: library_gemms(*key) for key in set(keys.itertuples(index=False, name=None))}
    gemms = np.array([known[key] for key in keys.itertuples(index=False, name=None)], dtype=np.float64).reshape(-1, 2)
    each = used.values("launch") + used.values("latency")
    return np.asarray(np.where(gemms[:, 0] > 0, gemms[:, 0] * each + gemms[:, 1] / clock, np.nan))


def _memory_times(
    cells: pd.DataFrame, level: "pd.Series[str]", used: Used, llc_bytes: float, time: Floats
) -> tuple[dict[str, Floats], Flags]:
    """Time of each memory level for the bytes that it serves, NaN where it serves none or its bandwidth is unknown.

    Of a refuted model only what must be touched once is left; re-reads behind memory are then served elsewhere.
    """
    served = served_bytes(cells, level, llc_bytes)
    once = first_bytes(cells).to_numpy(dtype=np.float64)
    bandwidths = {"dram": used.values("dram"), "llc": used.values("llc"), "l2": used.values("memory")}
    times, accepted = {}, np.ones(len(cells), dtype=bool)
    for name, bandwidth in bandwidths.items():
        starts_here = np.full(len(cells), name == "dram") | (level == name).to_numpy()
        least = np.where(starts_here, once / bandwidth, np.nan)
        model = served[name].to_numpy(dtype=np.float64) / bandwidth
        fits = (model <= _longest(time)) | np.isnan(model)
        times[f"{name}_time_s"] = np.where(fits, model, least)
        accepted &= fits | np.isnan(time)
    return times, accepted


def hard_times(cells: pd.DataFrame, ceilings: Ceilings, device: Device) -> Floats:
    """Return the least possible seconds of each cell, 0 where nothing is known that no kernel can beat.

    Reads that no cache can hold at the published bandwidth, useful FLOPs at the published or derived peak. Published
    peaks hold at the published clock; a device that was seen above it may beat them in proportion.
    """
    dtypes = math_dtypes(cells)
    clock_ratio = _clock_ratio(cells, ceilings.clock() or published_clock(device))
    hard, published = (
        dtypes.map({name: peak.value for name in pd.unique(dtypes) if (peak := find(name))}).to_numpy(dtype=np.float64)
        for find in (ceilings.hard_peak, ceilings.published_peak)
    )
    compute = floats(cells, "flops") / np.fmax(hard, published * np.fmax(clock_ratio, 1.0))
    bandwidth = ceilings.published_bandwidth("dram")
    memory = uncached_bytes(cells, device) / (bandwidth.value if bandwidth else np.nan)
    return np.asarray(np.nan_to_num(np.fmax(memory, compute), nan=0.0), dtype=np.float64)


def uncached_bytes(cells: pd.DataFrame, device: Device) -> Floats:
    """Bytes that each cell must read from memory, whatever stays in the last-level cache."""
    llc_bytes = float(device.llc_bytes or 0)
    reads = cells["compulsory_bytes"] - output_bytes(cells)
    return np.asarray(reads.where(cells["cache"] == "cold", (reads - llc_bytes).clip(lower=0)), dtype=np.float64)


def _clock_ratio(cells: pd.DataFrame, published: Ceiling | None) -> Floats:
    return floats(cells, "clock_hz") / (published.value if published else np.nan)


def _named(flags: Mapping[str, Flags]) -> list[str]:
    """Join the names of the flags that are set, per cell."""
    names = [""] * len(next(iter(flags.values())))
    for name, flag in flags.items():
        for position in np.flatnonzero(flag):
            names[position] = f"{names[position]}, {name}" if names[position] else name
    return names


_NAME = re.compile(r"nvjet_sm90_(?:(qq)?tst|hsh)_(\d+)x(\d+)_(\d+)x\d+_\w+")
"""FP8 or not, tile, step along K x steps in flight: nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT multiplies bf16 operands
(hsh: fp16) in tiles of 64 x 8, 64 of K at a time. That the second pair are steps and their number shows in the shared
memory: in all names of the stored runs, (rows + columns) x step x bytes x number is at most the 227 KiB that a
workgroup has."""

_INSTRUCTION_ROWS = 64

SHARED_BYTES_PER_CLOCK = 128
"""Of a multiprocessor of compute capability 9.0: 32 banks of 32 bits (CUDA C++ Programming Guide, "Shared Memory")."""


def library_gemms(kernels: str, contracted: int) -> tuple[int, float]:
    """Return how many kernels of a launch are such GEMMs, and for how many clocks they read shared memory at least.

    `kernels` is the JSON list of their names, `contracted` the least size of K in any of them.

    Each runs one tile on some multiprocessor, however few or many there are. An instruction multiplies 64 rows with all
    columns of the tile, both in shared memory (PTX ISA, "wgmma.mma_async"): (rows + rows / 64 x columns) K elements, K
    padded to whole steps. Copies into shared memory take no turn of the reads (docs/measured-facts.md). A kernel that
    divides K has an unknown part of it, of which nothing is counted.
    """
    found = [(name, match) for name in json.loads(kernels or "[]") if (match := _NAME.match(name))]
    octets = 0
    for name, match in found:
        rows, columns, step = map(int, match.groups()[1:])
        if rows % _INSTRUCTION_ROWS:  # then the other side is that of an instruction's rows
            rows, columns = columns, rows
        read = rows + -(-rows // _INSTRUCTION_ROWS) * columns
        octets += 0 if "splitK" in name else (1 if match[1] else 2) * read * -(-contracted // step) * step
    return len(found), octets / SHARED_BYTES_PER_CLOCK
