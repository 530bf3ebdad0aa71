"""What a reader of placed cells must know of the whole run: limits that are missing or low, cells without a cause."""

from collections.abc import Iterator, Sequence

import pandas as pd

from ...shapes.problem import Op
from ...shapes.run_folder.manifest import StoredDevice
from ...shapes.verdict import Verdict
from ..frames.load import REFERENCE
from ..frames.notes import RunWarning, Topic
from ..stability.canary import SLOWDOWN_ON_CPU, Drift
from .bounds import UNEXPLAINED_FACTOR, Bound
from .ceilings import Ceilings, ceiling_warnings
from .limits import math_dtypes
from .raising import REACHED
from .suspects import SUSPECT

_CANARY_OF = {"peak": "gemm", "bandwidth": "copy"}
"""Part of the canary that moves with a ceiling."""

_OPTIONAL = {
    "clock_ratio": "the observed clock",
    "tile_factor": "tile quantization",
    "wave_share": "wave quantization",
    "fill_time_s": "filling the device",
}
"""Columns that make a limit sharper, and what they stand for."""


def roofline_warnings(
    placed: pd.DataFrame, ceilings: pd.DataFrame, device: StoredDevice, canary: Sequence[Drift] = ()
) -> tuple[str, ...]:
    """Say which limits are missing, low, raised or left out, and how many cells have no explanation or cannot be.

    `ceilings` are those of `raise_ceilings`, and `device` is that of run.json.
    `canary` (`canary.drifts` of the run) tells whether a ceiling was measured while the device was busy.
    """
    passed = placed.loc[placed["verdict"] == Verdict.PASSED]
    levels = sorted(set(passed["memory_level"]) - {""})
    warnings = list(ceiling_warnings(ceilings, pd.unique(math_dtypes(passed)), levels, device))
    warnings += _raised(ceilings, canary)
    warnings += _missing(passed, Ceilings.of(ceilings))
    if count := int((passed["bound_class"] == Bound.UNEXPLAINED).sum()):
        unexplained = passed.loc[passed["bound_class"] == Bound.UNEXPLAINED]
        warnings.append(
            f"{count} of {len(passed)} cells take over {UNEXPLAINED_FACTOR:g} x all their limits added up: "
            + _missing_limit(unexplained)
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
    """Say which probes fall short of what cells reach, and whether the device was busy while it was calibrated."""
    rows = ceilings.loc[ceilings["source"].str.startswith(REACHED)]
    told = []
    for what, level, pattern, dtype, source in rows[["ceiling", "level", "pattern", "dtype", "source"]].itertuples(
        index=False, name=None
    ):
        why = "; or its operands stayed in the cache" if what == "bandwidth" else ""
        told.append(f"{' '.join(filter(None, (level, dtype, pattern, what)))} ({source}{why})")
        part = _CANARY_OF.get(what, "")
        for drift in canary:
            if drift.kind == part and drift.range is not None and drift.range > SLOWDOWN_ON_CPU:
                name = "GEMM" if part == "gemm" else part
                told[-1] += f" as the canary's {name} varied by {drift.range:.0%} over the run: the device was busy"
    if told:
        yield f"probes fall short of what cells reach, which stands in for them: {', '.join(told)}"


def _missing(passed: pd.DataFrame, ceilings: Ceilings) -> Iterator[str]:
    """Name limits that no cell has although all else of it is known."""
    if "decode_per_weight" in passed and passed["decode_per_weight"].notna().any() and not ceilings.vector():
        text = "no vector rate in ceilings.csv: decoding limits no cell here; rooflens calibrate measures it"
        yield RunWarning(text, Topic.ROOFLINE)
    multiplied = passed.loc[(passed["flops"] > 0) & (passed["bound_class"] != "")]
    unknown = [words for column, words in _OPTIONAL.items() if multiplied[column].isna().all()]
    if unknown and len(multiplied):
        yield RunWarning(f"not known here, so it limits no cell: {', '.join(unknown)}", Topic.ROOFLINE)


def _missing_limit(unexplained: pd.DataFrame) -> str:
    """Name the limit that is missing, for providers that may decode; of others nothing is claimed."""
    decode = (unexplained["role"] != REFERENCE) & (unexplained["op"] != Op.QUANTIZE) & unexplained["alu_time_s"].isna()
    if not decode.any():
        return "nothing that was measured as a limit explains them"
    cause = "decoding and scaling on the vector units are not among the limits, and a likely cause"
    if decode.all():
        return cause
    others = ", ".join(dict.fromkeys(unexplained.loc[~decode, "provider"]))
    return f"for {int(decode.sum())} of them, {cause}; nothing that was measured explains those of {others}"


def _main_suspect(notes: "pd.Series[str]") -> str:
    """Name what most impossible cells are suspected of first."""
    suspects = notes.str.partition(SUSPECT)[2].str.partition("; ")[0].value_counts()
    return str(suspects.index[0])
