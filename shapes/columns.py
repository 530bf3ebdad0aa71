"""THE schema: every column of every stored table, in one place.

The writer, the reader, the table headers of reports and the generated page `docs/columns.md` derive from these rows.
Values are in base units (seconds, bytes, FLOP); an unknown value is an empty field, never 0.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a column is written to CSV and read back."""

    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    JSON = "json"


class Better(StrEnum):
    """Which direction is good, for signs and colours."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name is its machine name everywhere; `required` columns are never empty."""

    name: str
    kind: Kind
    description: str
    unit: str = ""
    better: Better = Better.NEITHER
    required: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One CSV file of a run folder."""

    name: str
    description: str
    columns: tuple[Column, ...]

    @property
    def file(self) -> str:
        """File name inside the run folder."""
        return f"{self.name}.csv"

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in file order."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


def _text(name: str, description: str, required: bool = False) -> Column:
    return Column(name, Kind.TEXT, description, required=required)


def _int(name: str, description: str, unit: str = "", required: bool = False) -> Column:
    return Column(name, Kind.INT, description, unit, required=required)


def _float(name: str, description: str, unit: str = "", better: Better = Better.NEITHER) -> Column:
    return Column(name, Kind.FLOAT, description, unit, better)


CELL_ID = _text("cell_id", "content hash of problem, scheme, provider, its source, cache, device and protocol", True)

CELLS = Table(
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
        _int("B", "batch of independent GEMMs", required=True),
        _int("M", "rows of the activations, tokens", required=True),
        _int("N", "output features", required=True),
        _int("K", "input features, the contracted dimension", required=True),
        _text("dtype", "activation and output type", True),
        _text("scheme", "storage of the operands", True),
        _text("provider", "the implementation that was timed", True),
        _text("role", "candidate, dequant_blas, stock_triton, blas or upstream", True),
        _text("cache", "cold or warm", True),
        _text("timer", "how time was taken"),
        Column(
            "blocked", Kind.BOOL, "event timer: launches were queued behind a blocker, so host latency is not in it"
        ),
        _text("cache_level", "warm: the level that the working set fits in (l2, llc or dram); cold: dram"),
        _int("samples", "number of samples in samples.csv"),
        _text("stop_reason", "converged (interval of the median narrow enough) or budget"),
        _float("elapsed_s", "wall time of the round for this cell, flushes and bookkeeping included", "s"),
        _float("prepare_s", "wall time of prepare: packing, compiling, allocation; never part of a sample", "s"),
        _float("snr_db", "10 log10(sum ref^2 / sum (ref - out)^2) against the fp64 reference", "dB", Better.HIGHER),
        _float("relative_error", "norm(out - ref) / norm(ref)", "", Better.LOWER),
        _float("cosine", "cosine between output and reference", "", Better.HIGHER),
        _float("max_abs_error", "largest absolute difference to the reference", "", Better.LOWER),
        Column("config", Kind.JSON, "configuration that ran (tile sizes, warps, threads, ...)"),
        Column("kernels", Kind.JSON, "names of the kernels that one launch runs"),
        _text("dispatched", "which of its kernels a provider with a dispatch rule of its own chose"),
        _text("artifact", "hash of the compiled code, where there is one"),
        _text("source", "hash of the provider's source files", True),
        _int("flops", "useful FLOPs of one launch", "FLOP", True),
        _int("compulsory_bytes", "operands, scales and output once each", "byte", True),
        _int("moved_bytes", "traffic of this provider's algorithm, re-reads and intermediates included", "byte"),
        _int("seed", "seed of the operands", required=True),
        _text("started_at", "UTC time at which the round of this cell began", True),
    ),
)

SAMPLES = Table(
    "samples",
    "every raw timing, in the order it was taken; nothing is dropped",
    (
        CELL_ID,
        _int("round", "measurement round", required=True),
        _int("index", "order within the round", required=True),
        Column("time_s", Kind.FLOAT, "duration of one launch by the cell's timer", "s", Better.LOWER, True),
        Column("host_time_s", Kind.FLOAT, "wall time of launch and synchronize, where a device timer was used", "s"),
    ),
)

CEILINGS = Table(
    "ceilings",
    "limits of this device, measured beside the cells or taken from its published specification",
    (
        _text("ceiling", "bandwidth, peak or launch", True),
        _text("level", "bandwidth: dram, llc or l2"),
        _text("pattern", "bandwidth: copy, read or write; peak: gemm"),
        _text("dtype", "peak: activation type"),
        Column("value", Kind.FLOAT, "byte/s (bytes read plus written), FLOP/s, or seconds for launch", required=True),
        _text("unit", "unit of value", True),
        _text("kind", "measured or spec", True),
        _text("source", "how it was measured, or the document it comes from", True),
    ),
)

TABLES = (CELLS, SAMPLES, CEILINGS)
