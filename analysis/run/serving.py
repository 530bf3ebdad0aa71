"""What a serving stack reaches on the problems of a run: rows of AIConfigurator's tables beside its cells.

They were measured by another tool in another way, so that they enter no ratio, mean or verdict. Rows of the same GPU
and exact sizes are read; `classes_of` says which of them a cell may stand beside.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ...shapes.device import Device, match_spec
from ...shapes.errors import UsageError
from ...shapes.problem import Op, Pass
from ...shapes.scheme import DType
from ...shapes.verdict import Verdict
from ..frames.deciding import deciding
from ..imports import aiconfigurator
from ..imports.read import read_table
from .pipeline import Analysis

_CLASSES = (
    (r"(nf4|fp4|int4)-|(mx|nv)fp4$", ("int4_wo",)),
    (r"a16w8-", ("int8_wo",)),
    (r"fp8-blockwise|ao-1x128-128x128|ao-linear|mxfp8-(?!quant|moe)", ("fp8", "fp8_static", "fp8_block")),
)
"""Names of schemes -> the `gemm_dtype`s that store weights and activations in as many bits: their scales may differ."""

DECODED = ("bfloat16",)
"""What a reference in bf16 computes: operands that are not quantized."""

_SIZES = ("M", "N", "K")


@dataclass(frozen=True, slots=True, eq=False)
class Serving:
    """A table beside a run: its name, and what of it matches.

    rows   one per matching row of the table: _SIZES, dtype class `stored`, stack, kernel, time_s
    unmet  why there are none, a clause; "" where there are some
    """

    name: str
    rows: pd.DataFrame
    unmet: str = ""


def load_serving(paths: Sequence[Path], analysis: Analysis) -> tuple[Serving, ...]:
    """Read the rows that match a run. Raises UsageError for a file that is no such table."""
    return tuple(_load(path, analysis) for path in paths)


def classes_of(scheme: str, dtype: str, is_reference: bool) -> tuple[str, ...]:
    """Return the `gemm_dtype`s that a cell may stand beside."""
    if is_reference:
        return DECODED if dtype == DType.BF16 else ()
    return next((found for pattern, found in _CLASSES if re.match(pattern, scheme)), ())


def comparable(analysis: Analysis) -> pd.DataFrame:
    """Return the cells that a serving stack may have a row for: single GEMMs of the forward pass, with a time."""
    cells = deciding(analysis.cells)
    return cells[(cells["op"] == Op.GEMM) & (cells["pass"] == Pass.FWD) & (cells["B"] == 1)]


def _load(path: Path, analysis: Analysis) -> Serving:
    table = read_table(path)
    if not aiconfigurator.matches(table):
        raise UsageError(f"--serving {path}: not a table of AIConfigurator; give its gemm_perf.parquet")
    aiconfigurator.require_gemms(table)
    devices = dict.fromkeys(table.text(row, "device") for row in range(len(table)))
    here = [name for name in devices if _same_gpu(name, analysis.run.device)]
    nothing = pd.DataFrame(columns=[*_SIZES, "stored", "stack", "kernel", "time_s"])
    if not here:
        return Serving(path.name, nothing, f"it was measured on {', '.join(devices)}")
    cells = comparable(analysis)
    sizes = {tuple(map(int, size)) for size in cells[[*_SIZES]].itertuples(index=False, name=None)}
    if (found := aiconfigurator.of_sizes(table, sizes)) is None:
        return Serving(path.name, nothing, "it has no row of these M, N and K")
    frame = aiconfigurator.read(found, {}).frame
    frame = frame[(frame["verdict"] == Verdict.PASSED) & frame["device"].isin(here)]
    rows = frame.rename(columns={"scheme": "stored", "provider": "stack", "kernels": "kernel"})[list(nothing.columns)]
    return Serving(path.name, rows.reset_index(drop=True))


def _same_gpu(name: str, device: Device) -> bool:
    """True for one model of GPU, by the device table; by its very name where that does not know it."""
    if name == device.name:
        return True
    known = match_spec(device.name, device.arch)
    return known is not None and match_spec(name, device.arch) == known
