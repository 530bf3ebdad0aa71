"""What a report says of single cells and of the whole run: likely causes of impossible times, missing limits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...shapes.device import Device
from ...shapes.verdict import Verdict
from ..frames.notes import RunWarning, Topic
from ..stability.canary import SLOWDOWN_ON_CPU, Drift
from .bounds import IMPOSSIBLE_FACTOR, UNEXPLAINED_FACTOR, Bound
from .ceilings import REACHED, Ceilings, ceiling_warnings
from .limits import math_dtypes

SUSPECT = ": suspect "
"""Stands between what is wrong with a cell and the suspects, which are joined by "; "."""

SPARSE = 2
"""Structured sparsity doubles a published peak; such a rate of dense operands is a wrong figure."""

_FAST = "faster than its bound: a ceiling was measured too low, or output stayed in the cache"
_FIXED = "time does not grow with M: a fixed cost (dequantization, latency, partition camping)"


def cell_notes(placed: pd.DataFrame, ceilings: Ceilings, device: Device) -> list[str]:
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
    """Return whether the FLOPs are what takes the least possible time, as `hard_time_s` has them."""
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


_CANARY_OF = {"peak": "gemm", "bandwidth": "copy"}
"""Part of the canary that moves with a ceiling."""

_OPTIONAL = {
    "clock_ratio": "the observed clock",
    "tile_factor": "tile quantization",
    "wave_share": "wave quantization",
    "fill_time_s": "filling the device",
}
"""Columns that make a limit sharper, and what they describe."""


def roofline_warnings(
    placed: pd.DataFrame, ceilings: pd.DataFrame, device: Device, canary: Sequence[Drift] = ()
) -> tuple[str, ...]:
    """Say which limits are missing, low, raised or excluded, and how many cells have no explanation or cannot be.

    `ceilings` are those of `raise_ceilings`, and `device` is that of run.json.
    `canary` (`Analysis.canary` of the run) shows whether a ceiling was measured while the device was busy.
    """
    passed = placed.loc[placed["verdict"] == Verdict.PASSED]
    levels = sorted(set(passed["memory_level"]) - {""})
    warnings = list(ceiling_warnings(ceilings, pd.unique(math_dtypes(passed)), levels, device))
    warnings += _raised(ceilings, canary)
    warnings += _missing(passed, Ceilings.of(ceilings))
    if count := int((passed["bound_class"] == Bound.UNEXPLAINED).sum()):
        unexplained = passed.loc[passed["bound_class"] == Bound.UNEXPLAINED]
        warnings.append(
            f"{count} of {len(passed)} cells take more than {UNEXPLAINED_FACTOR:g}x all known limits combined: "
            + _by_code(unexplained)
        )
    impossible = passed.loc[passed["bound_class"] == Bound.IMPOSSIBLE, "bound_note"]
    if len(impossible):
        text = (
            f"{len(impossible)} of {len(passed)} cells are faster than possible, and no time of theirs is to be used "
            f"before it is known why. Main suspect: {_main_suspect(impossible)}"
        )
        warnings.append(RunWarning(text, Topic.IMPOSSIBLE))
    return tuple(warnings)


def _raised(ceilings: pd.DataFrame, canary: Sequence[Drift]) -> Iterator[str]:
    """Report which probes are below what cells reach, and whether the device was busy while it was calibrated."""
    raised = []
    for row in Ceilings.of(ceilings.loc[ceilings["source"].str.startswith(REACHED)]).rows:
        why = "; or its operands stayed in the cache" if row.what == "bandwidth" else ""
        raised.append(f"{row.name} ({row.source}{why})")
        part = _CANARY_OF.get(row.what, "")
        for drift in canary:
            if drift.kind == part and drift.range is not None and drift.range > SLOWDOWN_ON_CPU:
                name = "GEMM" if part == "gemm" else part
                raised[-1] += f" as the canary's {name} varied by {drift.range:.0%} over the run: the device was busy"
    if raised:
        yield f"probes are below what cells reach, which is used instead: {', '.join(raised)}"


def _missing(passed: pd.DataFrame, ceilings: Ceilings) -> Iterator[str]:
    """Name limits that no cell has although all else of it is known."""
    if "decode_per_weight" in passed and passed["decode_per_weight"].notna().any() and not ceilings.vector():
        text = "no vector rate in ceilings.csv: decoding limits no cell here; rooflens calibrate measures it"
        yield RunWarning(text, Topic.ROOFLINE)
    multiplied = passed.loc[(passed["flops"] > 0) & (passed["bound_class"] != "")]
    unknown = [words for column, words in _OPTIONAL.items() if multiplied[column].isna().all()]
    if unknown and len(multiplied):
        yield RunWarning(f"limits leave out what is unknown here: {', '.join(unknown)}", Topic.ROOFLINE)


def _by_code(unexplained: pd.DataFrame) -> str:
    """Count apart the cells whose machine code was not read, from which no limit follows, and the others."""
    unread = unexplained["schedule_clocks"].isna()
    parts = ((unread, "machine code not analysed"), (~unread, "although the code of their main kernel was analysed"))
    found = [(unexplained[here], words) for here, words in parts if here.any()]
    return "; ".join(
        f"{f'{len(cells)} of ' * (len(found) > 1)}{', '.join(dict.fromkeys(cells['provider']))} ({words})"
        for cells, words in found
    )


def _main_suspect(notes: "pd.Series[str]") -> str:
    """Name what most impossible cells are suspected of first."""
    suspects = notes.str.partition(SUSPECT)[2].str.partition("; ")[0].value_counts()
    return str(suspects.index[0])
