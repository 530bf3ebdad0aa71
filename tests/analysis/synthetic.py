"""Write a run folder with planted times: the truth that analysis and report tests are checked against.

    folder = write_run(tmp_path / "run")                          # looks like a quick sweep on a CPU
    write_run(folder, machine=H200, Ms=(1, 2, 4), caches=("cold", "warm"), rounds=5)
    write_run(folder, latency=lambda cell: 1e-3 * cell.M, round_noise=0, sample_noise=0)       # exact times
    write_run(folder, failures=lambda cell: ("oom", "out of memory") if cell.M > 512 else None)
    write_run(folder, shapes=(("NA", 'a,"b" <c>', 64, 96),), Ms=(1,), providers=("None", "dequant_blas"))
    write_run(folder, columns=lambda cell, round_: {"timer": "graph", "launches_per_sample": 16})
    write_run(folder, discards=lambda cell, round_, index: "thermal slowdown" if index == 3 else "")
    write_run(folder, telemetry=lambda cell, round_: [{"clock_hz": 1.98e9, "slowdown": "power_cap"}])
    write_run(folder, canary=[{"at": "2026-01-02T03:00:00Z", "process": 0, "gemm_s": 1e-3, "copy_s": 2e-3}])

The files follow `rooflens.shapes.run_folder.columns` exactly; this module knows the schema only from there. FLOPs and
compulsory bytes come from `rooflens.shapes`; latencies from the simple models below or from the caller.
"""

import csv
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from rooflens.shapes.problem import Problem
from rooflens.shapes.run_folder.columns import CANARY, CEILINGS, CELLS, SAMPLES, TELEMETRY, ColumnType, TableSchema
from rooflens.shapes.run_folder.manifest import VERSION
from rooflens.shapes.scheme import DType, Scheme
from rooflens.shapes.schemes import parse_scheme

SIX_SHAPES = (
    ("llama3.2-1b", "k/v", 512, 2048),
    ("llama3.2-1b", "down", 2048, 8192),
    ("llama2-7b", "q/k/v/o", 4096, 4096),
    ("llama3.1-8b/mistral-7b", "gate/up", 14336, 4096),
    ("qwen2.5-1.5b", "k/v", 256, 1536),
    ("gpt-oss", "o", 2880, 4096),
)
"""(model, layer, N, K) of a quick suite, the small GQA k/v and a 4096 square among them."""

QUICK_MS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Machine:
    """What the planted latencies and ceilings of one device follow; rates in base units."""

    device: dict[str, Any]
    spec_name: str | None
    read: float
    copy: float
    llc_read: float
    llc_copy: float
    peaks: dict[str, float]
    launch: float
    timer: str
    spec_bandwidth: float | None = None
    spec_peaks: dict[str, float] | None = None
    simt_share: float = 0.06  # of the GEMM peak that decoding on the vector units leaves to the fused kernel


CPU = Machine(
    device={
        "kind": "cpu", "index": 0, "name": "Planted CPU @ 2.10GHz", "vendor": "GenuineIntel",
        "arch": "x86-64-avx512", "compute_units": 2, "llc_bytes": 33554432, "l2_bytes": 2097152,
        "memory_bytes": 16 << 30, "uuid": "",
    },
    spec_name=None, read=48e9, copy=55e9, llc_read=140e9, llc_copy=110e9,
    peaks={"bf16": 430e9, "fp16": 130e9, "fp32": 150e9}, launch=1.5e-6, timer="host", simt_share=0.25,
)  # fmt: skip
"""Two AVX-512 cores."""

H200 = Machine(
    device={
        "kind": "cuda", "index": 0, "name": "NVIDIA H200", "vendor": "NVIDIA", "arch": "sm90",
        "compute_units": 132, "llc_bytes": 62914560, "l2_bytes": 62914560, "memory_bytes": 141 << 30,
        "uuid": "GPU-00000000-planted",
    },
    spec_name="NVIDIA H200", read=4.3e12, copy=4.1e12, llc_read=7.5e12, llc_copy=6.0e12,
    peaks={"bf16": 750e12, "fp16": 740e12, "fp32": 50e12}, launch=2.3e-6, timer="event",
    spec_bandwidth=4.8e12, spec_peaks={"bf16": 989e12, "fp16": 989e12, "fp32": 67e12},
)  # fmt: skip
"""A data-centre GPU with its specification rows."""

ROLES = {
    "dequant_blas": "dequant_blas",
    "blas": "reference",
    "stock_triton": "reference",
    "bitsandbytes_gemm": "upstream",
    "bitsandbytes_gemv": "upstream",
}
"""Roles of the provider names used here; any other name is a candidate."""

COORDINATES = {
    "model": "m", "layer": "l", "op": "gemm", "pass": "fwd", "B": 1, "E": 1, "top_k": 1, "M": 1, "N": 4096, "K": 4096,
    "dtype": "bf16", "scheme": "nf4-g64", "cache": "cold",
}  # fmt: skip
"""Where a row of a table made by hand belongs, unless it says otherwise."""

DEFAULT_PROVIDERS = ("simt_4bit", "gemv_4bit", "dequant_blas", "blas")


@cache
def _storage(scheme: str, dtype: str) -> Scheme:
    return parse_scheme(scheme, DType(dtype))


@dataclass(frozen=True)
class PlantedCell:
    """Coordinates of one cell, as the latency and failure functions of the caller see them."""

    model: str
    layer: str
    N: int
    K: int
    M: int
    B: int
    dtype: str
    scheme: str
    provider: str
    cache: str

    @property
    def problem(self) -> Problem:
        return Problem(M=self.M, N=self.N, K=self.K, B=self.B)

    @property
    def storage(self) -> Scheme:
        return _storage(self.scheme, self.dtype)

    @property
    def cell_id(self) -> str:
        return sha256(repr(self).encode()).hexdigest()[:16]

    @property
    def moved_bytes(self) -> int:
        """Traffic by provider: dequantization writes and re-reads W; the GEMV re-reads it for every row."""
        weight = self.storage.weight_bytes(self.problem) + self.storage.scale_bytes(self.problem)
        dense = self.B * self.N * self.K * DType(self.dtype).bytes
        compulsory = self.storage.compulsory_bytes(self.problem)
        if self.provider == "dequant_blas":
            return compulsory + 2 * dense
        if self.provider == "blas":
            return compulsory - weight + dense
        passes = self.M if self.provider.startswith("gemv") else math.ceil(self.M / 8)
        return compulsory + (passes - 1) * weight


def modelled_latency(machine: Machine) -> Callable[[PlantedCell], float]:
    """Return seconds per launch as roofline-like models give them; plausible, not measured."""

    def latency(cell: PlantedCell) -> float:
        warm = cell.cache == "warm" and cell.moved_bytes < machine.device["llc_bytes"]
        bandwidth = machine.llc_read if warm else machine.read
        peak = machine.peaks[cell.dtype]
        flops = cell.problem.flops
        compulsory = cell.storage.compulsory_bytes(cell.problem)
        dense = cell.B * cell.N * cell.K * DType(cell.dtype).bytes
        outer = compulsory - cell.storage.weight_bytes(cell.problem)
        gemm = max((dense + outer) / bandwidth / 0.9, flops / (0.85 * peak))
        if cell.provider == "dequant_blas":
            dequantize = (cell.storage.weight_bytes(cell.problem) + dense) / (0.2 * machine.copy)
            return 2 * machine.launch + dequantize + gemm
        if cell.provider == "blas":
            return 1.1 * machine.launch + gemm
        if cell.provider.startswith("gemv"):
            reads = cell.M * compulsory / cell.M**0.2 / (0.8 * bandwidth)
            return 1.1 * machine.launch + max(reads, flops / (machine.simt_share * peak))
        share = 0.35 if cell.provider.startswith("mma") else machine.simt_share
        share *= min(2.0, (4096 * 4096 / (cell.N * cell.K)) ** 0.2)  # small weights decode out of a nearer cache
        return 1.2 * machine.launch + max(compulsory / (0.85 * bandwidth), flops / (share * peak))

    return latency


def write_run(
    folder: Path,
    *,
    run_id: str = "",
    suite: str = "llm4bit-quick",
    shapes: Sequence[tuple[str, str, int, int]] = SIX_SHAPES,
    Ms: Sequence[int] = QUICK_MS,
    providers: Sequence[str] = DEFAULT_PROVIDERS,
    baseline: str = "dequant_blas",
    challengers: Sequence[str] = ("simt_4bit",),
    dtypes: Sequence[str] = ("bf16",),
    schemes: Sequence[str] = ("nf4-g64",),
    caches: Sequence[str] = ("cold",),
    rounds: int = 3,
    samples: int = 10,
    machine: Machine = CPU,
    latency: Callable[[PlantedCell], float] | None = None,
    failures: Callable[[PlantedCell], tuple[str, str] | None] = lambda cell: None,
    skip: Callable[[PlantedCell, int], bool] = lambda cell, round_: False,
    drift: Callable[[int], float] = lambda round_: 1.0,
    round_noise: float | Callable[[PlantedCell], float] = 0.01,
    sample_noise: float = 0.02,
    quantum_s: float = 0.0,
    ceilings: bool = True,
    columns: Callable[[PlantedCell, int], dict[str, Any]] = lambda cell, round_: {},
    discards: Callable[[PlantedCell, int, int], str] = lambda cell, round_, index: "",
    telemetry: Callable[[PlantedCell, int], Sequence[dict[str, Any]]] | None = None,
    canary: Sequence[dict[str, Any]] | None = None,
    manifest: dict[str, Any] | None = None,
    seed: int = 0,
) -> Path:
    """Write `folder`/{run.json,cells.csv,samples.csv,ceilings.csv,events.log} and return `folder`.

    latency   seconds of a cell's launch (the planted truth); by default the models above
    failures  (verdict, reason) of a cell that fails in round 0, None for one that passes
    skip      True for a (cell, round) that was not reached, as in an interrupted run
    drift     factor on all times of a round
    noise     standard deviation of ln time: `round_noise` per (cell, round), `sample_noise` per sample
    quantum_s step of the timer; 0 for a continuous one
    columns   of the commit row of a (cell, round) that passed, in place of the usual
    discards  why sample `index` of a (cell, round) does not count; its time is then ten times what it should be, or
              negative where the reason says so
    telemetry readings of a (cell, round), one per batch, with what is known; None: no telemetry.csv
    canary    rows of canary.csv; None: no such file
    manifest  keys of run.json in place of, or beside, the usual
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    planted = latency or modelled_latency(machine)
    cells = [
        PlantedCell(*shape, M=M, B=1, dtype=dtype, scheme=scheme, provider=provider, cache=cache)
        for cache, dtype, scheme, shape, M, provider in product(caches, dtypes, schemes, shapes, Ms, providers)
    ]
    cell_rows: list[dict[str, Any]] = []
    sample_rows: list[dict[str, Any]] = []
    telemetry_rows: list[dict[str, Any]] = []
    for round_ in range(rounds):
        for order, cell in enumerate(cells):
            failed = failures(cell)
            if skip(cell, round_) or (failed and round_ > 0):
                continue
            row = _commit_row(cell, suite, machine, round_, order, samples, seed)
            if failed:
                row |= dict.fromkeys(("samples", "stop_reason", "snr_db", "relative_error", "cosine"), None)
                row |= {"max_abs_error": None, "verdict": failed[0], "reason": failed[1]}
            else:
                noise = round_noise(cell) if callable(round_noise) else round_noise
                centre = planted(cell) * drift(round_) * math.exp(rng.gauss(0, noise))
                times = [centre * math.exp(rng.gauss(0, sample_noise)) for _ in range(samples)]
                if quantum_s:
                    times = [max(1, round(time / quantum_s)) * quantum_s for time in times]
                host, cell_id = machine.timer != "host", cell.cell_id
                reasons = [discards(cell, round_, index) for index in range(samples)]
                sample_rows += [
                    {"cell_id": cell_id, "round": round_, "index": index,
                     "time_s": time * (-1 if reason.startswith("negative") else 10 if reason else 1),
                     "host_time_s": time + 6e-6 if host else None, "discarded": reason}
                    for index, (time, reason) in enumerate(zip(times, reasons, strict=True))
                ]  # fmt: skip
                row |= {"discarded": sum(map(bool, reasons))} | columns(cell, round_)
                telemetry_rows += [
                    {"cell_id": cell_id, "round": round_, "batch": batch, "first": batch} | reading
                    for batch, reading in enumerate(telemetry(cell, round_) if telemetry else ())
                ]
            cell_rows.append(row)
    write_table(folder, CELLS, cell_rows)
    write_table(folder, SAMPLES, sample_rows)
    if telemetry:
        write_table(folder, TELEMETRY, telemetry_rows)
    if canary is not None:
        write_table(folder, CANARY, canary)
    write_table(folder, CEILINGS, ceiling_rows(machine) if ceilings else [])
    (folder / "events.log").write_text("")
    usual = {
        "id": run_id or folder.name,
        "version": VERSION,
        "created_at": "2026-01-02T03:04:05Z",
        "suite": suite,
        "baseline": baseline,
        "challengers": list(challengers),
        "rounds": rounds,
        "seed": seed,
        "planned_units": len(cells) * rounds,
        "protocol": {
            "timer": machine.timer, "target_ci": 0.01, "min_samples": samples, "budget_s": 0.2, "timeout_s": 120,
            "caches": list(caches), "threads": 2, "llc_bytes": machine.device["llc_bytes"],
        },
        "device": machine.device,
        "device_spec": machine.spec_name,
        "environment": {
            "python": "3.11.9", "torch": "2.13.0", "triton": "3.9.0", "rooflens": "0.1.0", "os": "Linux 6.1",
            "cpu": "Planted CPU @ 2.10GHz", "driver": "",
        },
        "command": ["rooflens", "run", suite],
        "providers": {
            name: {"role": ROLES.get(name, "candidate"), "source": sha256(name.encode()).hexdigest()[:12]}
            for name in providers
        },
        "shapes": [
            {"model": model, "layer": layer, "N": N, "K": K, "B": 1, "alias": ""} for model, layer, N, K in shapes
        ],
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(usual | (manifest or {}), indent=2) + "\n")
    return folder


def ceiling_rows(machine: Machine) -> list[dict[str, Any]]:
    """Return the rows of ceilings.csv that a quick calibration of `machine` would store."""
    measured = [
        ("bandwidth", "dram", "copy", "", machine.copy, "byte/s", "measured", "copy of 8 x LLC, best of 20"),
        ("bandwidth", "dram", "read", "", machine.read, "byte/s", "measured", "sum of 8 x LLC, best of 20"),
        ("bandwidth", "llc", "copy", "", machine.llc_copy, "byte/s", "measured", "copy of LLC / 4, best of 20"),
        ("bandwidth", "llc", "read", "", machine.llc_read, "byte/s", "measured", "sum of LLC / 4, best of 20"),
        *(
            ("peak", "", "gemm", dtype, value, "FLOP/s", "measured", "torch.mm 2048 x 2048 x 2048, best of 20")
            for dtype, value in machine.peaks.items()
        ),
        ("launch", "", "", "", machine.launch, "s", "measured", "empty launch, same timer"),
    ]
    spec = []
    if machine.spec_bandwidth:
        spec.append(("bandwidth", "dram", "", "", machine.spec_bandwidth, "byte/s", "spec", "vendor data sheet"))
    for dtype, value in (machine.spec_peaks or {}).items():
        spec.append(("peak", "", "", dtype, value, "FLOP/s", "spec", "vendor data sheet"))
    return [dict(zip(CEILINGS.names, row, strict=True)) for row in [*measured, *spec]]


def write_table(folder: Path, table: TableSchema, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows (None: empty) as the store does: header, comma, quotes where needed, one newline per row."""
    kinds = {column.name: column.kind for column in table.columns}
    with (folder / table.file).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.names)
        for row in rows:
            assert row.keys() <= kinds.keys(), row.keys() - kinds.keys()
            writer.writerow([_field(kind, row.get(name)) for name, kind in kinds.items()])


def _field(kind: ColumnType, value: Any) -> str:
    if value is None:
        return ""
    if kind is ColumnType.JSON:
        return json.dumps(value, sort_keys=True)
    if kind is ColumnType.BOOL:
        return "true" if value else "false"
    return repr(value) if kind is ColumnType.FLOAT else str(value)


def _commit_row(
    cell: PlantedCell, suite: str, machine: Machine, round_: int, order: int, samples: int, seed: int
) -> dict[str, Any]:
    fits = cell.moved_bytes < machine.device["llc_bytes"]
    candidate = ROLES.get(cell.provider, "candidate") == "candidate"
    return {
        "cell_id": cell.cell_id,
        "round": round_,
        "order": order,
        "process": 0,
        "verdict": "passed",
        "reason": "",
        "suite": suite,
        **COORDINATES,
        **vars(cell),
        "role": ROLES.get(cell.provider, "candidate"),
        "timer": machine.timer,
        "cold_by": "flush" if cell.cache == "cold" else "",
        "copies": 1,
        "launches_per_sample": 1,
        "blocked": True if machine.timer == "event" else None,
        "cache_level": "dram" if cell.cache == "cold" or not fits else "llc",
        "samples": samples,
        "stop_reason": "converged",
        "elapsed_s": 0.25,
        "prepare_s": 0.5 if round_ == 0 else 0.01,
        "snr_db": {"bf16": 52.9, "fp16": 71.2, "fp32": 149.0}[cell.dtype],
        "relative_error": {"bf16": 2.3e-3, "fp16": 2.8e-4, "fp32": 3.5e-8}[cell.dtype],
        "cosine": 0.999997,
        "max_abs_error": 0.03,
        "config": {"BLOCK_N": 64, "num_warps": 4} if candidate else {},
        "tuning": "default",
        "kernels": ["dequantize", "gemm"] if cell.provider == "dequant_blas" else [f"{cell.provider}_kernel"],
        "dispatched": "",
        "artifact": "",
        "source": sha256(cell.provider.encode()).hexdigest()[:12],
        "flops": cell.problem.flops,
        "compulsory_bytes": cell.storage.compulsory_bytes(cell.problem),
        "moved_bytes": cell.moved_bytes,
        "seed": seed,
        "started_at": f"2026-01-02T03:{round_ % 60:02d}:05Z",
    }
