"""A tuned table of aiter: per GEMM the fastest provider and its configuration, in the columns of `shapes.aiter`.

Source: ROCm/aiter @e404860, whose aiter/configs/a8w8_bpreshuffle_tuned_gemm.csv has these columns, but for dtype;
tables of other formats have some of them, and dtype.
"""

import json

from ...analysis.frames.deciding import deciding
from ...analysis.run.pipeline import Analysis
from ...shapes.aiter import tuned_csv
from ...shapes.errors import UsageError
from ...shapes.problem import Op, Pass
from ...shapes.suite import Cache
from ...shapes.tuned import Key, TunedConfiguration

_OF_DEVICE = ("arch", "compute_units")


def content(analysis: Analysis) -> bytes:
    """Write the table of the cold times, or of the warm ones where there are no others.

    It has no references, and only the forward pass of GEMMs: aiter tunes others in tables of other columns. Raises
    UsageError for a run without such cells.
    """
    run = analysis.run
    cells = deciding(analysis.cells)
    fits = (cells["op"] == Op.GEMM) & (cells["pass"] == Pass.FWD)
    cells = cells[fits & ~cells["provider"].map(run.is_reference).astype(bool)]
    if cells.empty:
        raise UsageError(f"aiter: {run.id} has no time of a GEMM's forward pass, other than of references")
    cold = cells[cells["cache"] == Cache.COLD]
    cells = cells if cold.empty else cold
    choices: dict[Key, TunedConfiguration] = {}
    for row in cells.to_dict("records"):
        same = {name: row[name.rstrip("_")] for name in Key._fields if name not in _OF_DEVICE}
        key = Key(arch=run.device.arch, compute_units=run.device.compute_units or 0, **same)
        if key not in choices or row["time_s"] < choices[key].time_s:  # a GEMM of two models was measured twice
            config = json.loads(row["config"]) if row["config"] else {}
            choices[key] = TunedConfiguration(config, row["time_s"], None, 0, 0, row["source"], None)
    return tuned_csv(choices).encode("utf-8")
