"""Where each cell stands against the limits of its device, and which of them bounds it.

Every limit is a time, and two byte models give two sets of them:

  bound        compulsory bytes at the cell's memory level: no implementation of this problem can be faster. How far
               from it a cell is (`fraction_of_bound`) compares all providers alike.
  implemented  what the provider's own algorithm moves, by the level that serves it (`traffic`). It says where the time
               goes (`bound_class`). A model that takes longer than the cell did is refuted by it, and falls back to the
               bytes that must be touched once.

A limit that was not measured limits nothing. Decoding on the vector units has no ceiling yet: a 4-bit kernel that is
limited by it is `unexplained`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..shapes.problem import Op
from ..shapes.verdict import Verdict
from .bounds import IMPOSSIBLE_FACTOR, LIMITS, UNEXPLAINED_FACTOR, Bound, classify, flat_cells
from .canary import MOVED_ON_CPU, Drift
from .ceilings import Ceiling, Ceilings, ceiling_warnings
from .traffic import first_bytes, output_bytes, pattern, served_bytes

Floats = NDArray[np.float64]

_DECODE = ("candidate", "dequant_blas", "upstream")
"""Roles whose kernels take quantized operands; blas multiplies what was decoded before, stock_triton mostly too."""

_SUSPECT = ": suspect "
_CANARY_OF = {"GEMM peak": "gemm", "bandwidth": "copy"}
"""Part of the canary that moves with a ceiling, by a word of the suspect."""


def place(summary: pd.DataFrame, ceilings: pd.DataFrame, device: Mapping[str, Any]) -> pd.DataFrame:
    """Return `summary` with the columns of the roofline; `bound_class` is "" for cells that have not passed.

    `ceilings` are the rows of ceilings.csv, `device` is that of run.json (its `llc_bytes`). Added, times in seconds:

    intensity, moved_intensity  FLOP per compulsory and per moved byte; NaN without FLOPs (a quantization)
    memory_level                dram for cold cells, else the level that the working set fits in
    memory_time_s               compulsory bytes at the bandwidth of that level
    compute_time_s              useful FLOPs at the GEMM peak of the type that is multiplied
    launch_time_s               an empty launch
    bound_time_s                the longest of these three; NaN when no limit is known
    fraction_of_bound           bound_time_s / time_s, at most 1; NaN for an impossible cell
    dram_time_s, llc_time_s, l2_time_s   as implemented: the bytes that each level serves, at its bandwidth
    fraction_of_implemented     the longest implemented time / time_s, at most 1; NaN for an impossible cell
    bound_class, bound_margin   the longest implemented time (or balanced, unexplained, impossible), and its ratio to
                                the next one; "" when no limit is known
    is_flat                     time does not depend on M here while FLOPs grow fourfold; never compute-bound
    bound_note                  what to suspect or do about it
    memory_ceiling, compute_ceiling, launch_ceiling   the limits that were used, with kind and source
    """
    llc_bytes = float(device.get("llc_bytes") or 0)
    cold = summary["cache"] == "cold"
    level = summary["cache_level"].where(~cold, "dram")
    used = _choose(Ceilings.of(ceilings), level.tolist(), pattern(summary), _math_dtypes(summary))
    placed = summary.assign(
        intensity=summary["flops"].where(summary["flops"] > 0) / summary["compulsory_bytes"],
        moved_intensity=summary["flops"].where(summary["flops"] > 0) / summary["moved_bytes"],
        memory_level=level,
        memory_time_s=summary["compulsory_bytes"] / _values(limits.memory for limits in used),
        compute_time_s=summary["flops"] / _values(limits.peak for limits in used),
        launch_time_s=_values(limits.launch for limits in used),
        **_implemented_times(summary, level, used, llc_bytes),
        is_flat=flat_cells(summary),
        memory_ceiling=[str(limits.memory or "") for limits in used],
        compute_ceiling=[str(limits.peak or "") for limits in used],
        launch_ceiling=[str(limits.launch or "") for limits in used],
    )
    time = placed["time_s"].to_numpy(dtype=np.float64)
    times = placed[[f"{limit}_time_s" for limit in LIMITS]].to_numpy(dtype=np.float64)
    hard = _hard_time(placed, used, cold, llc_bytes)
    classes, margins = classify(time, times, hard, placed["is_flat"].to_numpy(dtype=bool))
    possible = np.where(time < IMPOSSIBLE_FACTOR * hard, np.nan, time)
    bound = placed[["memory_time_s", "compute_time_s", "launch_time_s"]].max(axis=1).to_numpy(dtype=np.float64)
    longest = placed[[f"{limit}_time_s" for limit in LIMITS]].max(axis=1).to_numpy(dtype=np.float64)
    placed = placed.assign(
        bound_time_s=bound,
        fraction_of_bound=np.minimum(bound / possible, 1),
        fraction_of_implemented=np.minimum(longest / possible, 1),
        bound_class=classes,
        bound_margin=margins,
    )
    notes = [_note(row, llc_bytes) for row in placed.assign(hard_time_s=hard).to_dict("records")]
    return placed.assign(bound_note=notes)


def _math_dtypes(summary: pd.DataFrame) -> list[str]:
    """Type whose peak bounds each cell: what its provider multiplies in, the activations' where that is not stored."""
    return summary["math_dtype"].where(summary["math_dtype"] != "", summary["dtype"]).tolist()


def bound_shares(placed: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Share of the passed cells per bound class, within each group of `by`: by, bound_class, cells, share.

    Classes in the order of `Bound`, absent ones left out; cells without any known limit are not counted.
    """
    known = placed.loc[placed["bound_class"] != "", [*by, "bound_class"]]
    order = {bound.value: position for position, bound in enumerate(Bound)}
    counts = known.groupby([*by, "bound_class"], sort=False).size().rename("cells").reset_index()
    keys = [tuple(key) for key in counts[[*by]].to_numpy()]
    position = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    counts = counts.assign(group=[position[key] for key in keys], rank=counts["bound_class"].map(order))
    counts["share"] = counts["cells"] / counts.groupby("group")["cells"].transform("sum")
    return counts.sort_values(["group", "rank"]).drop(columns=["group", "rank"]).reset_index(drop=True)


def roofline_warnings(placed: pd.DataFrame, ceilings: pd.DataFrame, canary: Sequence[Drift] = ()) -> tuple[str, ...]:
    """Say what a reader of the placed cells must know: limits that are missing or low, cells without explanation.

    `canary` (`canary.drifts` of the run) tells whether a ceiling was measured while the device was busy.
    """
    passed = placed.loc[placed["verdict"] == Verdict.PASSED]
    levels = sorted(set(passed["memory_level"]) - {""})
    warnings = list(ceiling_warnings(ceilings, pd.unique(pd.Series(_math_dtypes(passed))), levels))
    if count := int((passed["bound_class"] == Bound.UNEXPLAINED).sum()):
        unexplained = passed.loc[passed["bound_class"] == Bound.UNEXPLAINED]
        warnings.append(
            f"{count} of {len(passed)} cells take over {UNEXPLAINED_FACTOR:g} x all their limits added up: "
            + _missing_limit(unexplained)
        )
    impossible = passed.loc[passed["bound_class"] == Bound.IMPOSSIBLE, "bound_note"]
    if len(impossible):
        warnings.append(
            f"{len(impossible)} of {len(passed)} cells are faster than possible, and no time of theirs is to be used "
            f"before it is known why. Main suspect: {_main_suspect(impossible, canary)}"
        )
    return tuple(warnings)


def _missing_limit(unexplained: pd.DataFrame) -> str:
    """Name the limit that is missing, for providers that may decode; of others nothing is claimed."""
    decode = unexplained["role"].isin(_DECODE) & (unexplained["op"] != Op.QUANTIZE)
    if not decode.any():
        return "nothing that was measured as a limit explains them"
    cause = "decoding and scaling on the vector units are not among the limits, and a likely cause"
    if decode.all():
        return cause
    others = ", ".join(dict.fromkeys(unexplained.loc[~decode, "provider"]))
    return f"for {int(decode.sum())} of them, {cause}; nothing that was measured explains those of {others}"


def _main_suspect(notes: "pd.Series[str]", canary: Sequence[Drift]) -> str:
    """Name what most impossible cells are suspected of first, and how far the canary's part of the kind moved."""
    suspects = notes.str.partition(_SUSPECT)[2].str.partition("; ")[0].value_counts()
    suspect = str(suspects.index[0])
    part = next((kind for ceiling, kind in _CANARY_OF.items() if ceiling in suspect), "")
    for drift in canary:
        if drift.kind == part and drift.range is not None and drift.range > MOVED_ON_CPU:
            name = "GEMM" if part == "gemm" else part
            return f"{suspect}, as the canary's {name} moved by {drift.range:.0%} over the run: the device was busy"
    return suspect


@dataclass(frozen=True, slots=True)
class _Limits:
    """Limits of the cells with one (level, pattern, dtype); None where unknown."""

    memory: Ceiling | None
    dram: Ceiling | None
    llc: Ceiling | None
    peak: Ceiling | None
    launch: Ceiling | None
    hard_dram: Ceiling | None
    hard_peak: Ceiling | None


def _choose(ceilings: Ceilings, levels: list[str], patterns: list[str], dtypes: list[str]) -> list[_Limits]:
    keys = list(zip(levels, patterns, dtypes, strict=True))
    known = {
        (level, traffic, dtype): _Limits(
            memory=ceilings.bandwidth(level, traffic),
            dram=ceilings.bandwidth("dram", traffic),
            llc=ceilings.bandwidth("llc", traffic),
            peak=ceilings.peak(dtype),
            launch=ceilings.launch(),
            hard_dram=ceilings.hard_bandwidth("dram"),
            hard_peak=ceilings.hard_peak(dtype),
        )
        for level, traffic, dtype in dict.fromkeys(keys)
    }
    return [known[key] for key in keys]


def _implemented_times(
    cells: pd.DataFrame, level: "pd.Series[str]", used: list[_Limits], llc_bytes: float
) -> dict[str, "pd.Series[float]"]:
    """Time of each memory level for the bytes that it serves; NaN where it serves none or its bandwidth is unknown."""
    served = served_bytes(cells, level, llc_bytes)
    longest = cells["time_s"] / IMPOSSIBLE_FACTOR
    once = first_bytes(cells)
    bandwidths = {
        "dram": _values(limits.dram for limits in used),
        "llc": _values(limits.llc for limits in used),
        "l2": _values(limits.memory for limits in used),
    }
    times = {}
    for name, bandwidth in bandwidths.items():
        time = served[name] / bandwidth
        # Of a refuted model only what must be touched once is left; re-reads behind memory are then served elsewhere.
        least = once / bandwidth if name == "dram" else (once / bandwidth).where(level == name)
        times[f"{name}_time_s"] = time.where((time <= longest) | time.isna(), least)
    return times


def _hard_time(cells: pd.DataFrame, used: list[_Limits], cold: "pd.Series[bool]", llc_bytes: float) -> Floats:
    """Least possible seconds: reads that no cache can hold, useful FLOPs at the highest known peak, a launch."""
    reads = cells["compulsory_bytes"] - output_bytes(cells)
    uncached = reads.where(cold, (reads - llc_bytes).clip(lower=0))
    memory = uncached / _values(limits.hard_dram for limits in used)
    compute = cells["flops"] / _values(limits.hard_peak for limits in used)
    times = np.stack([memory, compute, cells["launch_time_s"]]).astype(np.float64)
    return np.asarray(np.nan_to_num(times, nan=0.0).max(axis=0), dtype=np.float64)


def _note(row: Mapping[Any, Any], llc_bytes: float) -> str:
    """Text for a reader about one placed cell; "" where the class says it all."""
    if row["bound_class"] == Bound.IMPOSSIBLE:
        share = row["time_s"] / row["hard_time_s"]
        return f"takes {share:.2f} of the least possible time{_SUSPECT}{'; '.join(_suspects(row, llc_bytes))}"
    notes = []
    if row["bound_class"] and row["cache"] == "cold" and row["time_s"] < IMPOSSIBLE_FACTOR * row["bound_time_s"]:
        notes.append("faster than its bound: a ceiling was measured too low, or output stayed in the cache")
    if row["is_flat"] and row["bound_class"] == Bound.UNEXPLAINED:
        notes.append("time does not grow with M: a fixed cost (dequantization, latency, partition camping)")
    return "; ".join(notes)


def _suspects(row: Mapping[Any, Any], llc_bytes: float) -> Iterator[str]:
    if row["hard_time_s"] == row["launch_time_s"]:
        yield "a launch floor that was measured too high"
        return
    if row["memory_time_s"] > np.nan_to_num(row["compute_time_s"]):
        if row["cache"] == "cold" and row["compulsory_bytes"] <= llc_bytes:
            yield "operands that stayed in the cache under a cold label"
        yield "a bandwidth that was measured too low"
        yield "a byte model that counts too much"
        return
    yield "a GEMM peak that was measured too low"
    yield "work that was skipped, a wrong dtype, or M counted differently"


def _values(ceilings: Iterable[Ceiling | None]) -> Floats:
    return np.array([np.nan if ceiling is None else ceiling.value for ceiling in ceilings], dtype=np.float64)
