"""THE schema: every column of every stored table, in one place.

The writer, the reader and the generated page `docs/columns.md` derive from these rows.
Values are in base units (seconds, bytes, FLOP); an unknown value is an empty field, never 0.
"""

from dataclasses import dataclass
from enum import StrEnum


class ColumnType(StrEnum):
    """How a column is written to CSV and read back."""

    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """One column: its name is its machine name everywhere; `required` columns are never empty.

    `better` is "lower" or "higher", "" for neither.
    `absent` is what a file has in every row that was written before there was this column; None: it is unknown.
    """

    name: str
    kind: ColumnType
    description: str
    unit: str = ""
    better: str = ""
    required: bool = False
    absent: int | None = None


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One CSV file of a run folder; `former` columns are in files of earlier versions and are not read."""

    name: str
    description: str
    columns: tuple[ColumnSchema, ...]
    former: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """File name inside the run folder."""
        return f"{self.name}.csv"

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in file order."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> ColumnSchema:
        for column in self.columns:
            if column.name == name:
                return column
        if name in self.former:
            return ColumnSchema(name, ColumnType.TEXT, "of an earlier version")
        raise KeyError(name)


def _text(name: str, description: str, required: bool = False) -> ColumnSchema:
    return ColumnSchema(name, ColumnType.TEXT, description, required=required)


def _int(name: str, description: str, unit: str = "", required: bool = False) -> ColumnSchema:
    return ColumnSchema(name, ColumnType.INT, description, unit, required=required)


def _float(name: str, description: str, unit: str = "", better: str = "") -> ColumnSchema:
    return ColumnSchema(name, ColumnType.FLOAT, description, unit, better)


CELL_ID = _text("cell_id", "address of the cell: hash of what is measured, not of the code or the device", True)

SIZES = (
    _int("B", "batch of independent GEMMs", required=True),
    ColumnSchema("E", ColumnType.INT, "groups or experts, each with its own weight", required=True, absent=1),
    ColumnSchema("top_k", ColumnType.INT, "experts that each token is routed to", required=True, absent=1),
    _int("M", "rows of the activations: of one batch entry, of all groups together, or tokens", required=True),
    _int("N", "output features; 1 of a quantization", required=True),
    _int("K", "input features, the contracted dimension; the row length of a quantization", required=True),
)
"""Sizes of the problem."""

GEOMETRY = (
    _int("tile_M", "rows of the output that one workgroup of the main kernel computes at a time; empty where unknown"),
    _int("tile_N", "columns of the output that one workgroup of the main kernel computes at a time"),
    _int(
        "workgroups",
        "workgroups (thread blocks) of the main kernel in one launch that have something to do, parts of a divided K "
        "included; a persistent kernel has fewer than tiles",
    ),
    _int(
        "resident",
        "workgroups of it that one SM or CU (gfx11, gfx12: pair of CUs, as HIP counts them) holds at once, by "
        "registers, shared memory and threads",
    ),
    ColumnSchema(
        "issued_flops",
        ColumnType.INT,
        "FLOPs handed to the matrix units: useful ones with M, N and K padded to whole tiles; empty for kernels on "
        "vector units",
        "FLOP",
        "lower",
    ),
    _float(
        "decode_per_weight",
        "vector instructions of all lanes per decoded weight in the main loop, counted in the machine code that ran; "
        "empty where that could not be read (no disassembler, no such loop)",
        "",
        "lower",
    ),
    _int("decoded_weights", "weights decoded in one launch, padding and decoding again for each row of tiles included"),
    _float(
        "decode_integer_per_weight",
        "those of decode_per_weight that issue at the rate of shifts and logic (pattern integer of ceilings.csv); "
        "empty where unknown, and on AMD, which issues them at the rate of all others",
        "",
        "lower",
    ),
    _float("iterations", "iterations of its main loop in one workgroup, the mean over them"),
    _float(
        "schedule_clocks",
        "clocks that one workgroup takes which has a unit to itself, by an in-order schedule of the machine code that "
        "ran, but for waiting for memory; empty where the code or the costs of its instructions are unknown",
        "clock",
        "lower",
    ),
    _float(
        "memory_waits",
        "answers of memory that this workgroup waits for one after another",
        "",
        "lower",
    ),
    _float("pipe_clocks", "clocks that one workgroup occupies the busiest pipe of its unit", "clock", "lower"),
    _text("pipe", "that pipe: issue (the schedulers), integer, fp16, fp32, conversion, load/store, matrix or uniform"),
    _float(
        "other_clocks",
        "schedule_clocks of the workgroups that one unit runs one after another, of all other kernels of the launch "
        "whose code is known; of several that multiply, theirs too",
        "clock",
        "lower",
    ),
    _float("other_waits", "answers of memory that these wait for one after another", "", "lower"),
)
"""How a launch divides its work: of the main kernel, the one that multiplies (or the only one)."""

CELLS = TableSchema(
    "cells",
    "one row per finished (cell, round): the commit record, written after its samples",
    (
        CELL_ID,
        _int("round", "measurement round, from 0; providers of one problem alternate within a round", required=True),
        _int("order", "position in the shuffled order of that round", required=True),
        _int("process", "number of the worker process that measured it", required=True),
        _text("verdict", "what became of it; samples exist if and only if it is passed", True),
        _text("reason", "why it is not passed, or a remark on how it was measured"),
        _text("suite", "suite name", True),
        _text("model", "model that the weight shape comes from", True),
        _text("layer", "layer of that model", True),
        _text("op", "operation", True),
        _text("pass", "fwd; training passes have their own names", True),
        *SIZES,
        _int("M_total", "rows that are multiplied, of all batch entries and experts: B M top_k"),
        _float("M_per_expert", "M_total / E, the mean over the experts; empty without experts"),
        _text("dtype", "activation and output type", True),
        _text("scheme", "storage of the operands", True),
        _text("provider", "the implementation that was timed", True),
        _text("role", "candidate, dequant_blas, stock_triton, reference (older runs: blas) or upstream", True),
        _text("cache", "cold or warm", True),
        _text("timer", "how time was taken: event, graph, profiler or host"),
        _text("cold_by", "how a cold sample was made cold: flush or rotation; empty when warm"),
        _int(
            "copies",
            "copies of the operands that were launched on in turn: of a rotation, or those that share one flush",
        ),
        _int(
            "launches_per_sample",
            "launches that one sample is the mean of: many in a graph, or for a coarse clock",
        ),
        ColumnSchema(
            "blocked",
            ColumnType.BOOL,
            "event, profiler: launches were queued behind a blocker, no host latency is in them",
        ),
        _text("cache_level", "warm: the level that the working set fits in (l2, llc or dram); cold: dram"),
        _int("samples", "number of samples in samples.csv, discarded ones included"),
        _int("discarded", "samples that do not count; samples.csv says why for each"),
        _text("disturbed", "what disturbed the measurement (clock, other processes, ...); empty when nothing did"),
        _text(
            "stop_reason",
            "converged (interval of the median narrow enough), resolution (one timer step) or budget",
        ),
        _float("elapsed_s", "wall time of the round for this cell, flushes and bookkeeping included", "s"),
        _float("prepare_s", "wall time of prepare: packing, compiling, allocation; never part of a sample", "s"),
        _float("snr_db", "10 log10(sum ref^2 / sum (ref - out)^2) against the fp64 reference", "dB", "higher"),
        _float("relative_error", "norm(out - ref) / norm(ref)", "", "lower"),
        _float("cosine", "cosine between output and reference", "", "higher"),
        _float("max_abs_error", "largest absolute difference to the reference", "", "lower"),
        ColumnSchema("config", ColumnType.JSON, "configuration that ran (tile sizes, warps, threads, ...)"),
        _text("tuning", "where the configuration comes from: default, pinned (a stored table) or cold (searched anew)"),
        _int("candidates", "configurations that the search tried; empty without a search"),
        _float("tuning_s", "wall time of the search; never part of a sample", "s"),
        ColumnSchema("kernels", ColumnType.JSON, "names of the kernels that one launch runs"),
        _text("dispatched", "which of its kernels a provider with a dispatch rule of its own chose"),
        _text("artifact", "hash of the compiled code, where there is one"),
        _text(
            "identity",
            "hash of what was timed: syntax trees of the kernels that ran, or text of C++ and CUDA C++, or versions of "
            "libraries; configuration, timer, cold_by and the model of the device",
        ),
        _text("source", "hash of the provider's source files", True),
        _text("math_dtype", "type that the matrix units multiply in: whose peak can bound the launch"),
        _int("flops", "useful FLOPs of one launch; 0 of a quantization", "FLOP", True),
        _int("compulsory_bytes", "operands, scales and output once each", "byte", True),
        _int("output_bytes", "of compulsory_bytes, what is written", "byte"),
        _int("moved_bytes", "traffic of this provider's algorithm, re-reads and intermediates included", "byte"),
        *GEOMETRY,
        _int("seed", "seed of the operands", required=True),
        _text("operands", "checksum of the bits of weights and activations in this round"),
        _text("started_at", "UTC time at which the round of this cell began", True),
    ),
)

SAMPLES = TableSchema(
    "samples",
    "every raw timing, in the order it was taken, to 0.1 ns and at least five digits; nothing is dropped, what does "
    "not count says why",
    (
        CELL_ID,
        _int("round", "measurement round", required=True),
        _int("index", "order within the round", required=True),
        ColumnSchema("time_s", ColumnType.FLOAT, "duration of one launch by the cell's timer", "s", "lower", True),
        ColumnSchema(
            "host_time_s", ColumnType.FLOAT, "wall time of launch and synchronize, where a device timer was used", "s"
        ),
        ColumnSchema(
            "event_time_s", ColumnType.FLOAT, "profiler: time between device events around the same launch", "s"
        ),
        ColumnSchema(
            "kernels_s", ColumnType.FLOAT, "profiler: summed durations of the launch's kernels, without gaps", "s"
        ),
        _text("discarded", "why this sample does not count; empty when it does"),
    ),
    former=("span_s",),
)

TELEMETRY = TableSchema(
    "telemetry",
    "what the device reported during each batch of samples; unknown is empty",
    (
        CELL_ID,
        _int("round", "measurement round", required=True),
        _int("batch", "batch within the round, from 0", required=True),
        _int("first", "index of the batch's first sample", required=True),
        _float("clock_hz", "clock of the multiprocessors or compute units", "Hz"),
        _float("memory_clock_hz", "clock of the memory", "Hz"),
        _float("temperature_c", "temperature of the chip", "°C"),
        _float("power_w", "power drawn", "W"),
        _text("slowdown", "reasons that held the clock down, space-separated: thermal, hardware, power_cap, ..."),
        _int("other_processes", "processes of others that compute on the device"),
        _float("busy_elsewhere", "CPU: share of all cores that other processes used since the reading before"),
    ),
)

CANARY = TableSchema(
    "canary",
    "a frozen GEMM and a frozen copy, several times as a process starts, about every minute and at the end: drift of "
    "the device itself",
    (
        _text("at", "UTC time", True),
        _int("process", "number of the worker process that measured it", required=True),
        ColumnSchema("gemm_s", ColumnType.FLOAT, "median time of the GEMM", "s", "lower", True),
        ColumnSchema("copy_s", ColumnType.FLOAT, "median time of the copy", "s", "lower", True),
    ),
)

TUNING = TableSchema(
    "tuning",
    "every candidate of every search: the tuned table, with what it cost and how near the runners-up came",
    (
        CELL_ID,
        _int("search", "number of the search, from 0; each begins in a fresh process", required=True),
        _int("candidate", "position in the provider's list; 0 is its default", required=True),
        _text("arch", "architecture of the device", True),
        _int("compute_units", "SMs or CUs (gfx11, gfx12: pairs of CUs) of the device", required=True),
        _text("op", "operation", True),
        _text("pass", "fwd; training passes have their own names", True),
        *SIZES,
        _text("dtype", "activation and output type", True),
        _text("scheme", "storage of the operands", True),
        _text("provider", "the implementation that was tuned", True),
        _text("cache", "cold or warm", True),
        ColumnSchema("config", ColumnType.JSON, "the configuration that was tried"),
        _text("verdict", "passed, or why this configuration has no time", True),
        _text("reason", "what failed"),
        _float("time_s", "median time of one launch", "s", "lower"),
        _float("time_low_s", "lower end of the 95 % interval of the median", "s", "lower"),
        _float("time_high_s", "upper end of the 95 % interval of the median", "s", "lower"),
        _int("samples", "samples behind the median"),
        _text("disturbed", "what disturbed the timing (clock, other processes, ...); empty when nothing did"),
        _float(
            "error_ratio",
            "share of the output outside rtol = atol = 1e-2 of the fp64 product rounded to the output type; a correct "
            "kernel has 0 when its weights stay exact, and about 0.1 when it rounds them to bf16 (under 0.01: to fp16)",
            "",
            "lower",
        ),
        ColumnSchema("winner", ColumnType.BOOL, "the configuration that the search chose", required=True),
        ColumnSchema("near_tie", ColumnType.BOOL, "not the winner, but not proven slower than it", required=True),
        _int("candidates", "rows of this search: its configurations, or one that says why none", required=True),
        _float("search_s", "wall time of the whole search", "s"),
        _text("source", "hash of the provider's source files", True),
    ),
)

CEILINGS = TableSchema(
    "ceilings",
    "limits of this device, measured beside the cells or taken from its published specification",
    (
        _text(
            "ceiling",
            "bandwidth, peak, vector (instructions of single lanes per second), launch, latency (of one load) or clock",
            True,
        ),
        _text("level", "bandwidth, latency: dram, llc or l2"),
        _text(
            "pattern",
            "bandwidth: copy, read or write; peak: gemm; vector: integer or fma, of which the best counts; launch: "
            "empty or tile, with its cache; clock: boost",
        ),
        _text("dtype", "peak: activation type"),
        ColumnSchema(
            "value", ColumnType.FLOAT, "byte/s (bytes read plus written), FLOP/s, op/s, seconds or Hz", required=True
        ),
        _text("unit", "unit of value: byte/s, FLOP/s, op/s, s or Hz", True),
        _text("kind", "measured; spec: published; derived: computed from figures of the device, source says how", True),
        _text("source", "how it was measured, or the document it comes from", True),
    ),
)

PUBLISHED = ("spec", "derived")
"""Kinds of ceilings that were not measured here: what a measurement must not exceed."""

TABLES = (CELLS, SAMPLES, CEILINGS, TELEMETRY, CANARY, TUNING)
"""Of these, CELLS, SAMPLES and CEILINGS are in every run folder; the others may be absent."""
