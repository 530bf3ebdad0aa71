"""When decoding ends on the vector units, from compiled code: a roof for GPUs that nothing was measured on.

A launch that decodes w weights with i vector instructions each (of one lane) takes at least w i / (units x clock x
lanes that a unit issues per clock), and those of them that need NVIDIA's shift and logic unit at least as long as that
unit takes. Loads, waits and the rest of the kernel come on top, so that no launch is faster at the published clock,
unless its main loop was unrolled, which counts instructions of several iterations for one.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ...analysis.statistics.arrays import Floats, floats
from ...shapes.device import DeviceSpec, first_spec
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import SIZES, Op, Pass, Problem
from ...shapes.scheme import DType
from ...shapes.schemes import parse_scheme
from ...shapes.verdict import Verdict

COLUMNS = (
    *("arch", "device", "provider", "part", "op", "pass", "dtype", "scheme", *SIZES, "decode_per_weight"),
    *("decode_s", "memory_s", "matrix_s", "decode_bytes_per_s", "read_share"),
)


def decode_seconds(cells: pd.DataFrame, device: DeviceSpec) -> Floats:
    """Return the least time that decoding takes in each launch, in s; NaN where unknown.

    `cells` has the columns decoded_weights, decode_per_weight and decode_integer_per_weight.
    """
    kind = architecture(device.arch)
    unit_clocks = (device.compute_units or np.nan) * (device.clock_hz or np.nan)
    issued = floats(cells, "decode_per_weight") / kind.issued_lanes
    logic = floats(cells, "decode_integer_per_weight") / kind.logic_lanes
    return np.asarray(floats(cells, "decoded_weights") * np.fmax(issued, logic) / unit_clocks)


def decoding_roofs(isa: pd.DataFrame) -> pd.DataFrame:
    """Set decoding against memory and matrix units, on the first published device of each architecture.

    `isa` has the rows of isa.csv. One row for each default configuration whose decoding is known, with `COLUMNS`:
    decode_s, and for the same problem memory_s (compulsory bytes at the published bandwidth) and matrix_s (useful FLOPs
    at the published peak of the dtype); decode_bytes_per_s, the bytes over decode_s, and read_share, the part of the
    bandwidth that this is, at most 1. NaN is unknown.
    """
    known = isa["default"].fillna(value=False).astype(bool) & (isa["verdict"] == Verdict.PASSED)
    rows = isa.loc[known & isa["decode_per_weight"].notna() & isa["decoded_weights"].notna()]
    found = [_against(group, first_spec(str(arch))) for arch, group in rows.groupby("arch", sort=False)]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=[*COLUMNS])


def _against(rows: pd.DataFrame, device: DeviceSpec) -> pd.DataFrame:
    bandwidth = device.bandwidth_bytes_per_s or np.nan
    amounts = [_amounts(row) for row in rows.to_dict("records")]
    moved = np.array([amount for amount, _ in amounts], dtype=np.float64)
    peaks = np.array([device.peak_flops.get(dtype, np.nan) for dtype in rows["dtype"]])
    decode = decode_seconds(rows, device)
    return rows.assign(
        device=device.name,
        decode_s=decode,
        memory_s=moved / bandwidth,
        matrix_s=np.array([flops for _, flops in amounts], dtype=np.float64) / peaks,
        decode_bytes_per_s=moved / decode,
        read_share=np.minimum(moved / decode / bandwidth, 1.0),
    )[[*COLUMNS]]


def _amounts(row: Mapping[Hashable, Any]) -> tuple[int, int]:
    """Compulsory bytes and useful FLOPs of a row's problem."""
    problem = Problem(**{name: row[name] for name in SIZES}, op=Op(row["op"]), pass_=Pass(row["pass"]))
    return parse_scheme(row["scheme"], DType(row["dtype"])).compulsory_bytes(problem), problem.flops
