"""What a reader is told about single cells: what to suspect of an impossible one, what to do about others."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ...shapes.run_folder.manifest import StoredDevice
from .bounds import IMPOSSIBLE_FACTOR, Bound
from .ceilings import Ceilings

SUSPECT = ": suspect "
"""Stands between what is wrong with a cell and the suspects, which are joined by "; "."""

SPARSE = 2
"""Structured sparsity doubles a published peak; such a rate of dense operands is a wrong figure."""

_FAST = "faster than its bound: a ceiling was measured too low, or output stayed in the cache"
_FIXED = "time does not grow with M: a fixed cost (dequantization, latency, partition camping)"


def notes(placed: pd.DataFrame, ceilings: Ceilings, device: StoredDevice) -> list[str]:
    """Return one text per placed cell, "" where its class says it all. Needs `hard_time_s` and `math_type`."""
    bound = placed["bound_class"]
    impossible = (bound == Bound.IMPOSSIBLE).to_numpy()
    fast = (bound != "") & (placed["cache"] == "cold") & (placed["time_s"] < IMPOSSIBLE_FACTOR * placed["bound_time_s"])
    fixed = placed["is_flat"] & (bound == Bound.UNEXPLAINED)
    texts = np.where(fast, _FAST, "").astype(object)
    texts = np.where(fixed, np.where(fast, f"{_FAST}; {_FIXED}", _FIXED), texts)
    for position in np.flatnonzero(impossible):
        row = placed.iloc[position].to_dict()
        share = row["time_s"] / row["hard_time_s"]
        named = "; ".join(_suspects(row, ceilings, float(device.llc_bytes or 0)))
        texts[position] = f"takes {share:.2f} of the least possible time{SUSPECT}{named}"
    return [str(text) for text in texts]


def _suspects(row: Mapping[Any, Any], ceilings: Ceilings, llc_bytes: float) -> Iterator[str]:
    if _needs_its_flops(row, ceilings):
        yield from _of_compute(row, ceilings)
        return
    if row["cache"] == "cold" and row["compulsory_bytes"] <= llc_bytes:
        yield "operands that stayed in the cache under a cold label"
    yield _not_its_own("bandwidth", "published")
    yield "a byte model that counts too much"


def _needs_its_flops(row: Mapping[Any, Any], ceilings: Ceilings) -> bool:
    """Tell whether the FLOPs are what takes the least possible time, as `hard_time_s` has them."""
    hard, published = ceilings.hard_peak(row["math_type"]), ceilings.published_peak(row["math_type"])
    if hard is None:
        return False
    peak = max(hard.value, published.value * np.fmax(row["clock_ratio"], 1.0) if published else 0.0)
    return bool(row["flops"] / peak >= row["hard_time_s"] * (1 - 1e-9))


def _of_compute(row: Mapping[Any, Any], ceilings: Ceilings) -> Iterator[str]:
    rate = row["flops"] / row["time_s"]
    hard = ceilings.hard_peak(row["math_type"])
    published = hard is not None and hard.kind == "spec"
    yield _not_its_own("GEMM peak", "published" if published else "derived")
    others = [dtype for dtype in ceilings.types_at(rate) if dtype != row["math_type"]]
    yield f"a wrong dtype ({', '.join(others)} could be as fast)" if others else "a wrong dtype"
    if hard and published and rate <= SPARSE * hard.value:
        yield "a peak with structured sparsity, which is twice the dense one"
    if row["E"] > 1 or row["top_k"] > 1:
        yield f"M counted per expert or in total (E = {row['E']}, top_k = {row['top_k']})"
    else:
        yield "M counted differently"
    yield "work that was skipped"


def _not_its_own(what: str, kind: str) -> str:
    return f"a {kind} {what} that is not this device's"
