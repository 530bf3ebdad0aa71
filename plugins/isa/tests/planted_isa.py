"""Tables of compiles that are planted."""

from rooflens.analysis.frames.tables import parse_table
from rooflens.harness.storage.tables import fields
from rooflens.shapes.files.csv_file import csv_text
from rooflens.shapes.run_folder.columns_isa import ISA


def frame(*rows):
    """Rows of isa.csv as they are read back; each argument overrides a binary without stores and spills."""
    fixed = {
        "arch": "gfx950", "provider": "p", "op": "gemm", "pass": "wgrad", "dtype": "bf16", "scheme": "s", "B": 1,
        "E": 1, "top_k": 1, "M": 64, "N": 64, "K": 64, "problems": 1, "config": {"T": 1}, "default": True,
        "kernel": "k", "verdict": "passed", "vgprs": 64, "agprs": 0, "scratch_bytes": 0, "shared_bytes": 0, "warps": 4,
        "occupancy": 8.0, "matrix": 1, "store_byte": 0, "store_short": 0, "store_dwordx4": 0, "triton": "3.9.0",
    }  # fmt: skip
    text = csv_text(ISA.names, [fields(ISA, fixed | {"code": f"c{number}"} | row) for number, row in enumerate(rows)])
    return parse_table(text.encode(), ISA, ISA.file)
