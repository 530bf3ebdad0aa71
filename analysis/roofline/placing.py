"""Where each cell is against the limits of its device, and which of them bounds it."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...shapes.run_folder.manifest import StoredDevice
from ..statistics.arrays import Flags, Floats, floats
from .bounds import FLAT_SPREAD, IMPOSSIBLE_FACTOR, LIMITS, Bound, classify, flat_cells, near_floor, terms
from .ceilings import Ceilings
from .limits import COLUMNS, choose, hard_times, limit_times, math_dtypes
from .notes import cell_notes


def place(summary: pd.DataFrame, ceilings: pd.DataFrame, device: StoredDevice) -> pd.DataFrame:
    """Return `summary` with the columns of the roofline; `bound_class` is "" for cells that have not passed.

    `ceilings` are the rows of ceilings.csv, `device` is that of run.json (`llc_bytes`, `compute_units`, and `name` and
    `arch`, by which the published clock is found where no ceiling has it). Added, times in seconds:

    intensity, moved_intensity  FLOP per compulsory and per moved byte; NaN without FLOPs (a quantization)
    memory_level                dram for cold cells, else the level that the working set fits in

    The yardstick, alike for all providers of a problem:

    memory_time_s               compulsory bytes at the bandwidth of that level
    compute_time_s              useful FLOPs at the best measured GEMM of the multiplied type, else the published
    compute_spec_time_s, compute_clock_time_s   the same at the published peak, and at that peak and the observed clock
    launch_time_s               an empty launch
    bound_time_s                the longest of memory_, compute_ and launch_time_s; NaN when no limit is known
    fraction_of_bound           bound_time_s / time_s, at most 1; NaN for an impossible cell

    As implemented, what is not refuted by the time of the cell itself (`refuted` names what is):

    dram_time_s, llc_time_s, l2_time_s   the bytes that each level serves, at its bandwidth
    mma_time_s                  compute_time_s of FLOPs padded to tiles, on the busiest unit: x tile_factor / wave_share
    alu_time_s                  decoding weights on the vector units, or the busiest pipe of all that its machine code
                                needs, on the busiest unit
    latency_time_s              an empty launch, and the workgroups that one unit runs one after another, each as if it
                                were alone: its instructions in order, and what it waits for memory
    fill_time_s                 latency of filling and draining every kernel of the launch
    launches_time_s             an empty launch for each of them, and between_kernels_s: when none of them ran
    implemented_time_s          max(launches, latency, fill + max(memory levels, mma, alu))
    fraction_of_implemented     implemented_time_s / time_s, at most 1; NaN for an impossible cell
    clock_ratio                 observed clock over the published one
    tile_factor                 FLOPs padded to tiles over useful ones
    wave_share                  mean load of the units over that of the busiest; waves: workgroups over resident ones

    bound_class, bound_margin   the longest term as implemented (or balanced, unexplained, impossible), and its ratio to
                                the next one; "" when no limit is known
    is_flat                     time does not depend on M here while FLOPs grow fourfold
    bound_note                  what to suspect or do about it
    memory_ceiling, compute_ceiling, alu_ceiling, launch_ceiling   the limits that were used, with kind and source
    """
    limits = Ceilings.of(ceilings)
    with np.errstate(invalid="ignore", divide="ignore"):
        times = limit_times(summary, choose(summary, limits, device), device)
        hard = hard_times(summary, limits, device)
    flops = summary["flops"].where(summary["flops"] > 0)
    placed = summary.assign(
        intensity=flops / summary["compulsory_bytes"], moved_intensity=flops / summary["moved_bytes"], **times
    )
    time = floats(placed, "time_s")
    parts = placed[[COLUMNS[limit] for limit in LIMITS]].to_numpy(dtype=np.float64)
    fill = floats(placed, "fill_time_s")
    classes, margins, flat = _classes(placed, time, parts, fill, hard)
    possible = np.where(time < IMPOSSIBLE_FACTOR * hard, np.nan, time)
    bound = placed[["memory_time_s", "compute_time_s", "launch_time_s"]].max(axis=1).to_numpy(dtype=np.float64)
    implemented = np.where(np.isnan(parts).all(axis=1), np.nan, terms(parts, fill).max(axis=1))
    placed = placed.assign(
        bound_time_s=bound,
        fraction_of_bound=np.minimum(bound / possible, 1),
        implemented_time_s=implemented,
        fraction_of_implemented=np.minimum(implemented / possible, 1),
        is_flat=flat,
        bound_class=classes,
        bound_margin=margins,
    )
    limited = placed.assign(hard_time_s=hard, math_type=math_dtypes(summary))
    return placed.assign(bound_note=cell_notes(limited, limits, device))


def _classes(
    placed: pd.DataFrame, time: Floats, parts: Floats, fill: Floats, hard: Floats
) -> tuple[list[str], Floats, Flags]:
    """Return class and margin of each cell, and whether its time is flat."""
    launch = parts[:, LIMITS.index(Bound.LAUNCH)]
    flat = flat_cells(placed).to_numpy()
    # A time that is flat because a tile is as large for one row as for many may well be that of the matrix units.
    padded = placed.assign(work=placed["flops"] * placed["tile_factor"].fillna(1.0))
    incomputable = flat & flat_cells(padded, "work").to_numpy()
    incomputable |= time <= FLAT_SPREAD * launch
    classes, margins = classify(time, parts, fill, hard, flat, incomputable)
    near = near_floor(placed, classes, flat, launch)
    return [Bound.LAUNCH.value if is_near else name for name, is_near in zip(classes, near, strict=True)], margins, flat


def bound_shares(placed: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Share of the passed cells per bound class, within each group of `by`: by, bound_class, cells, share.

    Classes in the order of `Bound`, absent ones excluded; cells without any known limit are not counted.
    """
    known = placed.loc[placed["bound_class"] != "", [*by, "bound_class"]]
    order = {bound.value: position for position, bound in enumerate(Bound)}
    counts = known.groupby([*by, "bound_class"], sort=False).size().rename("cells").reset_index()
    keys = [tuple(key) for key in counts[[*by]].to_numpy()]
    position = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    counts = counts.assign(group=[position[key] for key in keys], rank=counts["bound_class"].map(order))
    counts["share"] = counts["cells"] / counts.groupby("group")["cells"].transform("sum")
    return counts.sort_values(["group", "rank"]).drop(columns=["group", "rank"]).reset_index(drop=True)
