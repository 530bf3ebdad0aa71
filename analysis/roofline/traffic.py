"""What a provider's own algorithm moves, and which level of the memory hierarchy serves it.

A stored row counts `compulsory_bytes` (the operands as the scheme stores them) and `moved_bytes` (everything that the
algorithm reads and writes). How the two differ follows from the role:

  reference            reads operands that were dequantized before: dense ones, not those of the scheme
  dequant_blas         writes a dense weight, and reads it back
  any other            reads operands of the scheme, some of them more than once

First reads of cold operands come from memory. Everything beyond them (re-reads, intermediates) is served by the
last-level cache when the whole footprint fits into it, by memory when it does not.
"""

import numpy as np
import pandas as pd

from ...shapes.problem import Op, Pass
from ...shapes.scheme import DType
from ..frames.load import REFERENCE

READ_SHARE = 0.9
"""Traffic with at least this share of reads is limited by the read bandwidth, other traffic by the copy."""


def output_bytes(cells: pd.DataFrame) -> "pd.Series[float]":
    """Bytes that are written; of a run that did not store them, those of Y[B,M,N]."""
    known = cells["output_bytes"].astype("float64")
    return known.fillna(cells["B"] * cells["M"] * cells["N"] * _element_bytes(cells))


def pattern(cells: pd.DataFrame) -> list[str]:
    """Bandwidth pattern that the compulsory traffic of each cell resembles: "read" (a GEMV) or "copy"."""
    reads = cells["compulsory_bytes"] - output_bytes(cells)
    return ["read" if mostly else "copy" for mostly in reads >= READ_SHARE * cells["compulsory_bytes"]]


def first_bytes(cells: pd.DataFrame) -> "pd.Series[float]":
    """Bytes of the operands that the provider is given and of its output, once each."""
    size = _element_bytes(cells)
    dense = cells["B"] * (cells["N"] * cells["K"] + cells["M"] * (cells["N"] + cells["K"])) * size
    given = (cells["role"] == REFERENCE) & (size > 0) & _is_plain(cells)
    return cells["compulsory_bytes"].where(~given, dense).astype("float64")


def footprint_bytes(cells: pd.DataFrame) -> "pd.Series[float]":
    """Distinct bytes that one launch touches, a dequantized weight in between included."""
    weight = cells["B"] * cells["N"] * cells["K"] * _element_bytes(cells)
    return first_bytes(cells) + weight.where((cells["role"] == "dequant_blas") & _is_plain(cells), 0)


def _is_plain(cells: pd.DataFrame) -> "pd.Series[bool]":
    """Tell which cells are one GEMM per batch entry, forward: of others only the stored bytes are known."""
    return (cells["op"] == Op.GEMM) & (cells["pass"] == Pass.FWD)


def served_bytes(cells: pd.DataFrame, level: "pd.Series[str]", llc_bytes: float) -> pd.DataFrame:
    """Bytes that each level serves: columns dram, llc, l2; NaN where a level serves none.

    `level` is where the operands are when the launch begins: dram when cold, else where the working set fits.
    """
    first, footprint = first_bytes(cells), footprint_bytes(cells)
    moved = pd.Series(np.fmax(cells["moved_bytes"].astype("float64"), first), index=cells.index)
    fits = footprint <= llc_bytes
    from_dram = ~fits | (level == "dram")
    dram = moved.where(~fits, first).where(from_dram)
    behind = (moved - first).where(fits & (level == "dram") & (moved > first))
    return pd.DataFrame(
        {
            "dram": dram,
            "llc": behind.where(from_dram, moved.where(level == "llc")),
            "l2": moved.where(~from_dram & (level == "l2")),
        }
    )


def _element_bytes(cells: pd.DataFrame) -> "pd.Series[int]":
    """Bytes of an activation; 0 for a dtype that is not known here: then nothing is assumed beyond the stored bytes."""
    codes, names = pd.factorize(cells["dtype"])
    sizes = np.array([DType(name).bytes if name in tuple(DType) else 0 for name in names], dtype=np.int64)
    return pd.Series(sizes[codes], index=cells.index)
