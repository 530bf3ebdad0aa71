"""Where each cell is against the limits of its device, and which of them bounds it."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...shapes.device import Device
from ..statistics.arrays import Flags, Floats, floats
from .bounds import FLAT_SPREAD, IMPOSSIBLE_FACTOR, LIMITS, Bound, classify, flat_cells, implemented, near_floor
from .ceilings import Ceilings
from .limits import COLUMNS, choose, hard_times, limit_times, math_dtypes
from .notes import cell_notes


def place(summary: pd.DataFrame, ceilings: pd.DataFrame, device: Device) -> pd.DataFrame:
    """Return `summary` with the columns of the roofline; `bound_class` is "" for cells that have not passed.

    `ceilings` are the rows of ceilings.csv, `device` is that of run.json (`llc_bytes`, `compute_units`, and `name` and
    `arch`, by which the published clock is found where no ceiling has it). `COMPUTED` describes the added columns:
    those of the bound are the yardstick, alike for all providers of a problem; those of the implementation are what a
    provider does, as far as the time of the cell itself does not refute it.
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
    taken = implemented(parts, fill, floats(placed, "between_kernels_s"))
    taken = np.where(np.isnan(parts).all(axis=1), np.nan, taken)
    placed = placed.assign(
        bound_time_s=bound,
        fraction_of_bound=np.minimum(bound / possible, 1),
        implemented_time_s=taken,
        fraction_of_implemented=np.minimum(taken / possible, 1),
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
    launch = floats(placed, "launch_time_s")
    flat = flat_cells(placed).to_numpy()
    # A time that is flat because a tile is as large for one row as for many may well be that of the matrix units.
    padded = placed.assign(work=placed["flops"] * placed["tile_factor"].fillna(1.0))
    incomputable = flat & flat_cells(padded, "work").to_numpy()
    incomputable |= time <= FLAT_SPREAD * launch
    classes, margins = classify(time, parts, fill, launch, hard, flat, incomputable)
    near = near_floor(placed, classes, flat, launch)
    return [Bound.LAUNCH.value if is_near else name for name, is_near in zip(classes, near, strict=True)], margins, flat


def bound_shares(placed: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Share of the passed cells per bound class, within each group of `by`: by, bound_class, cells, share.

    Classes in the order of `Bound`, absent ones excluded; cells without any known limit are not counted.
    """
    known = placed.loc[placed["bound_class"] != "", [*by, "bound_class"]]
    order = {bound.value: position for position, bound in enumerate(Bound)}
    group = known.groupby([*by], sort=False).ngroup() if by else 0
    known = known.assign(group=group, rank=known["bound_class"].map(order))
    counts = known.groupby(["group", "rank", *by, "bound_class"]).size().rename("cells").reset_index()
    share = counts["cells"] / counts.groupby("group")["cells"].transform("sum")
    return counts.assign(share=share).drop(columns=["group", "rank"])
