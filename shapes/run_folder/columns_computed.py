"""Columns that no run folder stores: what `analysis` computes of each cell, one row per cell."""

from .columns import ColumnSchema, ColumnType, TableSchema

_SECONDS = {
    "time_low_s": "lower end of the 95 % interval of time_s, with half a step of a coarse timer; empty with one round",
    "time_high_s": "its upper end",
    "host_time_s": "geometric mean of the rounds' medians of host_time_s in samples.csv",
    "event_time_s": "geometric mean of the rounds' medians of event_time_s in samples.csv",
    "kernels_s": "geometric mean of the rounds' medians of kernels_s in samples.csv",
    "resolution_s": "step of the timer, where samples show one",
    "memory_time_s": "compulsory_bytes at the bandwidth of memory_level",
    "compute_time_s": "flops at the best measured GEMM of the multiplied type, else at the published peak",
    "compute_spec_time_s": "flops at the published peak",
    "compute_clock_time_s": "flops at the published peak at the observed clock",
    "launch_time_s": "an empty launch",
    "bound_time_s": "the longest of memory_time_s, compute_time_s and launch_time_s: one for each math_dtype",
    "dram_time_s": "as implemented: bytes that memory serves, at its bandwidth",
    "llc_time_s": "as implemented: bytes that the last-level cache serves, at its bandwidth",
    "l2_time_s": "as implemented: bytes that the L2 serves, at its bandwidth",
    "mma_time_s": "as implemented: compute_time_s times tile_factor over wave_share, or pipe_time_s of the matrix pipe",
    "decode_time_s": "as implemented: decoding weights on the busiest unit's vector units",
    "pipe_time_s": "as implemented: the busiest unit's busiest pipe",
    "alu_time_s": "as implemented: decode_time_s, or pipe_time_s of a pipe that does not multiply",
    "latency_time_s": "as implemented: an empty launch, and a unit's workgroups one after another, each as if alone",
    "fill_time_s": "as implemented: latency of filling and draining every kernel",
    "launches_time_s": "as implemented: an empty launch per kernel, and between_kernels_s",
    "between_kernels_s": "time in which no kernel of the launch ran; 0 where the timer does not see them",
    "implemented_time_s": (
        "max(launches_time_s, between_kernels_s + max(latency_time_s, fill_time_s + the longest other time))"
    ),
}

_RATES = {
    "flops_per_s": ("flops over time_s", "FLOP/s"),
    "bandwidth_bytes_per_s": ("compulsory_bytes over time_s", "byte/s"),
    "moved_bandwidth_bytes_per_s": ("moved_bytes over time_s", "byte/s"),
    "fraction_of_bound": ("bound_time_s over time_s, at most 1; empty for an impossible cell", ""),
    "fraction_of_implemented": ("implemented_time_s over time_s, at most 1; empty for an impossible cell", ""),
}

_FACTORS = {
    "intensity": ("FLOPs per compulsory byte; empty for a quantization", "FLOP/byte"),
    "moved_intensity": ("FLOPs per moved byte; empty for a quantization", "FLOP/byte"),
    "clock_hz": ("median clock during its samples", "Hz"),
    "clock_ratio": ("observed clock over the published one", ""),
    "tile_factor": ("FLOPs padded to tiles over useful ones", ""),
    "wave_share": ("mean load of the units over the load of the busiest one", ""),
    "waves": ("workgroups over those that are resident at once", ""),
    "bound_margin": ("the longest limit over the next one", ""),
}

_FLAGS = {
    "refined": "its M was added by --refine, for single shapes",
    "impossible": "its time is shorter than the device allows: it is shown, and decides nothing",
    "is_flat": "its time does not depend on M here while FLOPs grow fourfold",
}

_TEXTS = {
    "slowdown": "reasons of slowdowns during its samples",
    "note": "all remarks on the cell",
    "remarks": "the same as a list, in a form that cells share",
    "memory_level": "dram for cold cells, else the level that the working set fits in",
    "refuted": "models of the implementation that take longer than the cell did, so that they are not used",
    "bound_class": "the longest limit as implemented, or balanced, unexplained or impossible; empty when none is known",
    "bound_note": "what to suspect, or what to do about it",
    "memory_ceiling": "the bandwidth that was used, with kind and source",
    "compute_ceiling": "the peak that was used, with kind and source",
    "alu_ceiling": "the vector rate or pipe that was used, with kind and source",
    "launch_ceiling": "the launch floor that was used, with kind and source",
}

COMPUTED = TableSchema(
    "computed",
    "computed of each cell beside its stored columns, when a run is read; `rooflens roofline --json` lists them",
    (
        ColumnSchema("rounds", ColumnType.INT, "finished rounds"),
        ColumnSchema(
            "time_s", ColumnType.FLOAT, "time of one launch: geometric mean of the rounds' medians", "s", "lower"
        ),
        *(ColumnSchema(name, ColumnType.FLOAT, description, "s") for name, description in _SECONDS.items()),
        *(ColumnSchema(name, ColumnType.FLOAT, text, unit, "higher") for name, (text, unit) in _RATES.items()),
        *(ColumnSchema(name, ColumnType.FLOAT, text, unit) for name, (text, unit) in _FACTORS.items()),
        *(ColumnSchema(name, ColumnType.BOOL, description) for name, description in _FLAGS.items()),
        *(ColumnSchema(name, ColumnType.TEXT, description) for name, description in _TEXTS.items()),
    ),
)
"""A cell that has not passed has no time and no bound class. An empty value is unknown."""
