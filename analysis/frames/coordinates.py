"""The columns that say where a measurement stands, and how a shape is named to a reader."""

from collections.abc import Mapping
from typing import Any

from ...shapes.problem import Op
from ...shapes.run_folder.coverage import SHAPE as SHAPE

SETTING = ("pass", "dtype", "scheme", "cache")
"""What is computed, how operands are stored, and where they are found; never mixed in one number."""

COORDINATES = (*SHAPE, "M", *SETTING)
"""What two providers must have in common to be compared."""

METHOD = ("timer", "cold_by", "tuning")
"""How a time was taken, and of which configuration. Times of two timers, or of two ways to a cold cache, are not
compared; a ratio of a tuned configuration to a default one says that it is."""

CASE = (*COORDINATES, "provider")
"""One timed thing: what two versions of a kernel are compared at."""

DETAILS = ("config", "kernels", "dispatched", "artifact", "identity", "source", *METHOD, "disturbed", "note")
"""What each version says of a case, as text."""

GEMM = ("op", "pass", "B", "E", "top_k", "M", "N", "K", "dtype", "scheme", "cache")
"""What the hardware sees: the same GEMM under two model names is measured twice but is one case."""


def shape_label(row: Mapping[Any, Any]) -> str:
    """Name the shape of a row: "llama2-7b gate/up (11008x4096)", N x K; without a size where it has none."""
    name = f"{row['model']} {row['layer']}".strip()
    return f"{name} ({size_label(row, 'x')})" if row["N"] != 1 or row["K"] != 1 else name


def size_label(row: Mapping[Any, Any], times: str) -> str:
    """Write N `times` K, after "B=128" or "E=8" where there are batches or experts; a quantization has K alone."""
    many = "".join(f"{name}={row[name]} " for name in ("B", "E") if row[name] != 1)
    size = f"K={row['K']}" if row["op"] == Op.QUANTIZE else f"{row['N']}{times}{row['K']}"
    return f"{many}{size}"
