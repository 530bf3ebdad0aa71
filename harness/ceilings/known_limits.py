"""Rows of ceilings.csv that are not measured: published limits of a device, and those derived from them. No torch."""

from collections.abc import Iterable
from typing import Any

from ...kernels import cpu_info
from ...shapes.device import Device
from ...shapes.scheme import DType
from .cpu_peak import derived_peaks, maximum_clock_hz

Row = dict[str, Any]


def known_limits(device: Device, types: Iterable[str]) -> list[Row]:
    """Return the published limits of a device, with the GEMM peaks of `types` among them.

    Of a CPU, the peaks that the cores in use cannot exceed (`cpu_peak`); none where its maximum clock is unknown.
    """
    types = list(types)
    return _published(device, types) if device.is_gpu or device.spec else _derived(device, types)


def ceiling(what: str, level: str, pattern: str, dtype: str, value: float, unit: str, source: str) -> Row:
    """Make a row of ceilings.csv, of kind measured."""
    return {
        "ceiling": what,
        "level": level,
        "pattern": pattern,
        "dtype": dtype,
        "value": value,
        "unit": unit,
        "kind": "measured",
        "source": source,
    }


def _published(device: Device, types: Iterable[str]) -> list[Row]:
    spec = device.spec
    if spec is None:
        return []
    rows = []
    if spec.bandwidth_bytes_per_s:
        rows.append(ceiling("bandwidth", "dram", "", "", spec.bandwidth_bytes_per_s, "byte/s", spec.source))
    for math_dtype in dict.fromkeys((*DType, *types)):
        if peak := spec.peak_flops.get(math_dtype):
            rows.append(ceiling("peak", "", "gemm", str(math_dtype), peak, "FLOP/s", spec.source))
    if spec.clock_hz:
        rows.append(ceiling("clock", "", "boost", "", spec.clock_hz, "Hz", spec.source))
    rows = [row | {"kind": "spec"} for row in rows]
    if rate := spec.vector_ops_per_s:
        how = f"fp32 peak / {spec.peak_flops['fp32'] / rate:.0f} FLOP per lane and instruction: {spec.source}"
        rows.append(ceiling("vector", "", "fma", "", rate, "op/s", how) | {"kind": "derived"})
    return rows


def _derived(device: Device, types: Iterable[str]) -> list[Row]:
    peaks = derived_peaks(types, device.compute_units, maximum_clock_hz(), cpu_info.flags())
    rows = [ceiling("peak", "", "gemm", name, value, "FLOP/s", how) for name, (value, how) in peaks.items()]
    return [row | {"kind": "derived"} for row in rows]
