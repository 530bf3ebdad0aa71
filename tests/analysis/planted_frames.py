"""Summaries and ceilings made by hand, for tests of the roofline that need no run folder."""

import math
from typing import Any

import pandas as pd
from rooflens.shapes.run_folder.columns import GEOMETRY as GEOMETRY_COLUMNS

from .synthetic import COORDINATES, PlantedCell

N = K = 4096
NK = N * K
NF4 = NK // 2 + 4 * (NK // 64)
"""Bytes of the weight of `cell` and its absmax."""
GEMV_BYTES = NF4 + 2 * (N + K)
"""What `cell` has to move at M = 1."""

GEOMETRY = tuple(column.name for column in GEOMETRY_COLUMNS)
"""Columns of a cell about how its launch divides the work."""


def cell(time_s: float, *, M: int = 1, N: int = N, K: int = K, **values: Any) -> dict[str, Any]:
    """One row of a summary: a passed cold bf16 NF4 cell whose provider moves the compulsory bytes only."""
    names = {"dtype": "bf16", "scheme": "nf4-g64", "provider": "simt_4bit", "cache": "cold"}
    chosen = names | {name: values.pop(name) for name in names if name in values}
    planted = PlantedCell("m", "l", N=N, K=K, M=M, B=1, **chosen)
    compulsory = planted.storage.compulsory_bytes(planted.problem)
    row = COORDINATES | {
        "M": M, "N": N, "K": K,
        **chosen, "math_dtype": "", "output_bytes": planted.storage.output_bytes(planted.problem),
        "role": "candidate", "verdict": "passed", "time_s": time_s, "cache_level": "dram",
        "flops": planted.problem.flops, "compulsory_bytes": compulsory, "moved_bytes": float(compulsory),
        **dict.fromkeys((*GEOMETRY, "clock_hz", "time_low_s", "time_high_s", "kernels_s"), math.nan),
        "kernels": '["one"]',
        "cell_id": "", "timer": "event", "tuning": "default", "impossible": False,
    }  # fmt: skip
    assert set(values) <= set(row), set(values) - set(row)
    return row | values


def ceilings(*rows: tuple[str, str, str, str, float, str]) -> pd.DataFrame:
    """Rows (ceiling, level, pattern, dtype, value, kind) as ceilings.csv has them; source and unit filled in."""
    columns = ["ceiling", "level", "pattern", "dtype", "value", "kind"]
    return pd.DataFrame(list(rows), columns=columns).assign(unit="", source="test")
