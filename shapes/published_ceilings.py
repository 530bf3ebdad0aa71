"""What others measured on a device, with who and how: for comparison, never in place of a calibration."""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_UNITS = {"GB/s": (1e9, "byte/s"), "TFLOPS": (1e12, "FLOP/s")}
"""Unit of the file -> its size in base units, and their name. Other rows are no rates (assumed fractions of a peak)."""


@dataclass(frozen=True, slots=True)
class PublishedCeiling:
    """One published measurement: `ceiling` is bandwidth or peak, `value` in byte/s or FLOP/s."""

    device: str
    ceiling: str
    dtype: str
    pattern: str
    value: float
    unit: str
    source: str
    caveat: str


def published_ceilings(device_name: str) -> tuple[PublishedCeiling, ...]:
    """Return the measurements of the device of that name in the device table, the highest of each kind first."""
    return tuple(one for one in _all() if one.device == device_name)


@cache
def _all() -> tuple[PublishedCeiling, ...]:
    text = (files(__package__) / "published_ceilings.csv").read_text(encoding="utf-8")
    found = [_ceiling(row) for row in csv.DictReader(text.splitlines()) if row["unit"] in _UNITS]
    return tuple(sorted(found, key=lambda one: (one.device, one.ceiling, one.dtype, -one.value)))


def _ceiling(row: dict[str, str]) -> PublishedCeiling:
    size, unit = _UNITS[row["unit"]]
    return PublishedCeiling(
        device=row["device"],
        ceiling={"bw": "bandwidth", "gemm": "peak"}[row["kind"]],
        dtype=row["dtype"],
        pattern=row["pattern_or_shape"],
        value=float(row["value"]) * size,
        unit=unit,
        source=row["source"],
        caveat=row["caveat"],
    )
