"""The columns that say where a measurement stands, and how a shape is named to a reader."""

from collections.abc import Mapping
from typing import Any

SHAPE = ("model", "layer", "op", "pass", "B", "N", "K")
"""One weight of one model; what a crossover is found for."""

STORAGE = ("dtype", "scheme", "cache")
"""How operands are stored and where they are found; never mixed in one number."""

COORDINATES = (*SHAPE, "M", *STORAGE)
"""What two providers must have in common to be compared."""

METHOD = ("timer", "cold_by", "tuning")
"""How a time was taken, and of which configuration. Times of two timers, or of two ways to a cold cache, are not
compared; a ratio of a tuned configuration to a default one says that it is."""

GEMM = ("op", "pass", "B", "M", "N", "K", "dtype", "scheme", "cache")
"""What the hardware sees: the same GEMM under two model names is measured twice but is one case."""


def shape_label(row: Mapping[Any, Any]) -> str:
    """Name the shape of a row: "llama2-7b gate/up (11008x4096)", N x K."""
    batch = f"{row['B']}x" if row["B"] != 1 else ""
    return f"{row['model']} {row['layer']} ({batch}{row['N']}x{row['K']})"
