"""Devices: the table of published peaks, and the description of the device that a run is measured on."""

import csv
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from .errors import RooflensError, unknown_name
from .files.record import Size, Whole, about, others
from .gpu_architectures import architecture


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """Published peaks of one device, in base units; None is unknown or not native. `source` names the document.

    Rates are dense FLOP/s; `l2_bytes` is the total; `llc_bytes` is the cache behind L2 (None when there is none).
    """

    name: str
    reported_as: str
    vendor: str
    arch: str
    compute_units: int | None
    clock_hz: float | None
    peak_flops: dict[str, float]
    bandwidth_bytes_per_s: float | None
    l2_bytes: int | None
    llc_bytes: int | None
    memory_bytes: int | None
    notes: str
    source: str
    status: str

    @property
    def vector_ops_per_s(self) -> float | None:
        """Vector instructions of single lanes per second: the published fp32 rate over the FLOPs of one of them.

        Two in a multiply-add; four where that rate counts packed (gfx942, gfx950) or dual-issued (gfx11, gfx12) ones,
        which the decoding of weights has none of.
        """
        fp32 = self.peak_flops.get("fp32")
        return fp32 / (4 if architecture(self.arch).double_fp32 else 2) if fp32 else None

    @property
    def multiprocessors(self) -> int | None:
        """Compute units as torch and HIP count them: on RDNA (gfx1...) in pairs, the work-group processors."""
        return self.compute_units // architecture(self.arch).units_per_processor if self.compute_units else None

    @property
    def last_level_bytes(self) -> int | None:
        """Bytes of the last cache before memory: what a cold measurement must evict."""
        return self.llc_bytes or self.l2_bytes


@dataclass(frozen=True, slots=True)
class Device:
    """The device of a run, as it is found and as run.json describes it; a size of 0 is unknown.

    `spec` is the row of the device table when the name is known there, `reported_chiplets` what the driver counts.
    """

    kind: str = about("cpu or cuda (NVIDIA and AMD alike)", "")
    index: Whole | None = about("number among the devices that the process saw", None)
    name: str = about("name that the driver reports", "")
    vendor: str = about("NVIDIA, AMD, or the vendor of the CPU", "")
    arch: str = about("architecture: sm90, gfx942, x86_64-avx512, ...", "")
    compute_units: Size = about("SMs or CUs (gfx11, gfx12: pairs of CUs), or cores", 0, unknown=0)
    llc_bytes: Whole = about("last-level cache, which a cold sample evicts", 0, unknown=0)
    l2_bytes: Whole = about("L2 cache", 0, unknown=0)
    memory_bytes: Whole = about("device memory", 0, unknown=0)
    uuid: str = about("absent where there is none, as of a CPU", "")
    spec: DeviceSpec | None = None
    reported_chiplets: int = 0
    host: str = about("of several devices: host name", "")
    slot: Whole | None = about("of several: position on its host", None)
    stations: Whole | None = about("of several: sessions that measured on it", None)
    processes: tuple[Whole, ...] | None = about("of several devices: its values of the column `process`", None)
    unknown: dict[str, Any] = others()

    @property
    def chiplets(self) -> int:
        """L2 slices that workgroups are assigned to in turn: XCDs of this device, which may be a part of a GPU."""
        each = architecture(self.arch).xcd_units
        return self.reported_chiplets or (max(1, round(self.compute_units / each)) if each else 1)

    @property
    def torch_name(self) -> str:
        """Name for `torch.device`."""
        return "cpu" if self.kind == "cpu" else f"{self.kind}:{self.index}"

    @property
    def is_cpu(self) -> bool:
        """True where cells are timed on the host."""
        return self.kind == "cpu"

    @property
    def is_gpu(self) -> bool:
        """True for NVIDIA and AMD GPUs."""
        return self.kind == "cuda"

    @property
    def is_rocm(self) -> bool:
        """True for AMD GPUs, which torch also calls "cuda"."""
        return self.is_gpu and self.vendor == "AMD"

    def looked_up(self) -> "Device":
        """Return the device with its row of the device table."""
        return replace(self, spec=match_spec(self.name, self.arch, self.compute_units))


@cache
def specs() -> tuple[DeviceSpec, ...]:
    """Return all rows of the device table."""
    text = (files(__package__) / "devices.csv").read_text(encoding="utf-8")
    return tuple(_spec(row) for row in csv.DictReader(text.splitlines()))


def spec(name: str) -> DeviceSpec:
    """Return the row named `name`; raise UsageError with near names otherwise."""
    for row in specs():
        if row.name == name:
            return row
    raise unknown_name("device", name, [row.name for row in specs()])


def first_spec(arch: str) -> DeviceSpec:
    """Return the first row of an architecture with its compute units; RooflensError when there is none."""
    for row in specs():
        if row.arch == arch and row.multiprocessors:
            return row
    raise RooflensError(f"the device table has no {arch} with its compute units: rooflens list devices")


def match_spec(reported: str, arch: str, multiprocessors: int | None = None) -> DeviceSpec | None:
    """Find the row for a name that a driver reports ("NVIDIA H200"), by its `reported_as` pattern; None when unsure.

    `arch` must agree as well (sm90, gfx942). A row without a pattern (a package of two devices, say) matches nothing.
    `multiprocessors`, as torch counts them, decides for AMD GPUs where the driver knows no model ("AMD Radeon
    Graphics"): the only row of that size is meant. A partition of a GPU (CPX mode), half as large or less, has no row.
    """
    rows = [row for row in specs() if row.reported_as and row.arch == arch]
    found = next((row for row in rows if re.search(row.reported_as, reported)), None)
    if not multiprocessors or not architecture(arch).is_amd:
        return found
    if found is None and not re.search(r"\d", reported):
        same = [row for row in rows if row.multiprocessors == multiprocessors]
        return same[0] if len(same) == 1 else None
    return None if found and 2 * multiprocessors <= (found.multiprocessors or 0) else found


RATES = ("fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "mxfp4", "int8")
"""Types that peaks are published for."""


def _spec(row: dict[str, str]) -> DeviceSpec:
    def number(column: str, scale: float) -> float | None:
        return float(row[column]) * scale if row[column] else None

    def size(column: str, unit: int) -> int | None:
        return round(float(row[column]) * unit) if row[column] else None

    rates = {rate: number(f"{rate}_tflops", 1e12) for rate in RATES}
    return DeviceSpec(
        name=row["device"],
        reported_as=row["reported_as"],
        vendor=row["vendor"],
        arch=row["arch"].replace("_", ""),
        compute_units=int(row["compute_units"]) if row["compute_units"] else None,
        clock_hz=number("boost_mhz", 1e6),
        peak_flops={rate: value for rate, value in rates.items() if value is not None},
        bandwidth_bytes_per_s=number("mem_bw_gbs", 1e9),
        l2_bytes=size("l2_mib", 1 << 20),
        llc_bytes=size("llc_mib", 1 << 20),
        memory_bytes=size("mem_gib", 1 << 30),
        notes=row["notes"],
        source=row["source"],
        status=row["status"],
    )
