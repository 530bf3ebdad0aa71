"""Tables of compiled kernels that are planted."""

from pathlib import Path

from rooflens.harness.storage.tables import fields
from rooflens.shapes.files.csv_file import csv_text
from rooflens.shapes.run_folder.columns_isa import ISA

COMPILED = {
    "arch": "gfx950", "provider": "p", "op": "gemm", "pass": "wgrad", "dtype": "bf16", "scheme": "s", "B": 1, "E": 1,
    "top_k": 1, "M": 64, "N": 64, "K": 64, "problems": 1, "config": {"T": 1}, "default": True, "kernel": "k",
    "verdict": "passed", "vgprs": 64, "agprs": 0, "scratch_bytes": 0, "shared_bytes": 0, "warps": 4, "occupancy": 8.0,
    "matrix": 1, "store_byte": 0, "store_short": 0, "store_dwordx4": 0, "triton": "3.9.0",
}  # fmt: skip
"""A row of isa.csv: a binary without stores and spills."""


def write_isa(path: Path, *rows: dict[str, object]) -> None:
    """Write binaries, each told by what it has otherwise."""
    path.write_text(csv_text(ISA.names, [fields(ISA, COMPILED | row) for row in rows]), encoding="utf-8")
