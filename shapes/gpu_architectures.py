"""GPU architectures: one table of what each can do, from which kernels, tiles and peaks are chosen.

Occupancy limits of AMD are those of LLVM (AMDGPUBaseInfo.cpp, GCNSubtarget.cpp), of NVIDIA those of the CUDA C++
Programming Guide, table "Technical Specifications per Compute Capability". What tl.dot_scaled compiles to was read from
the output of Triton 3.9.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Simd:
    """Limits of one AMD SIMD: registers per lane, their granule, wave slots; and of what four SIMDs share."""

    registers: int
    granule: int
    waves: int
    lds_bytes: int
    lds_granule: int
    programs: int
    scalar_limit: bool


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """Limits of one NVIDIA SM: warps, programs, and bytes of shared memory."""

    warps: int
    programs: int
    shared_bytes: int


_MI200 = Simd(512, 8, 8, 64 << 10, 512, 16, True)
_MI350 = Simd(512, 8, 8, 160 << 10, 1280, 16, True)
_WGP = Simd(1536, 24, 16, 128 << 10, 512, 32, False)
_A100 = Multiprocessor(64, 32, 164 << 10)
_H100 = Multiprocessor(64, 32, 228 << 10)
_SMALL = Multiprocessor(48, 24, 100 << 10)


@dataclass(frozen=True, slots=True)
class Architecture:
    """One row.

    family          "cuda" (NVIDIA), "cdna" (gfx9, waves of 64) or "rdna"
    source          where the row comes from
    like            architecture whose tiles it shares, where those of the family do not suit it
    multiplies_fp8  its matrix units take FP8; fnuz: of the fnuz types (largest e4m3 240, no negative zero), not OCP's
    scaled_rows     least rows of a tile's first operand for which tl.dot_scaled uses matrix units with block scales;
                    0: it always multiplies bf16 copies
    mx_library      torch multiplies MX-FP8 here, with scales in the 128x4 layout
    dot_scaled      why tl.dot_scaled must not be compiled
    double_fp32     the published fp32 rate counts two multiply-adds per lane and clock (packed, or dual issue)
    xcd_units       compute units of a chiplet with an L2 of its own, to which workgroups are assigned in turn; 0: none
    slow_integers   all integer instructions but multiplications issue at the rate of shifts and logic, half of fp32's
    limits          of occupancy; None: unknown
    """

    name: str
    family: str
    source: str = ""
    like: str = ""
    multiplies_fp8: bool = False
    fnuz: bool = False
    scaled_rows: int = 0
    mx_library: bool = False
    dot_scaled: str = ""
    double_fp32: bool = False
    xcd_units: int = 0
    slow_integers: bool = False
    limits: Simd | Multiprocessor | None = None

    @property
    def converts_fp8(self) -> bool:
        """Triton knows e4m3 here: AMD's GPUs without instructions for it compute the conversion."""
        return self.multiplies_fp8 or self.family != "cuda"

    @property
    def is_amd(self) -> bool:
        """True for AMD's."""
        return self.family != "cuda"

    @property
    def wave_size(self) -> int:
        """Lanes of a wave (AMD) or warp (NVIDIA)."""
        return 64 if self.family == "cdna" else 32

    @property
    def issued_lanes(self) -> int:
        """Lanes of vector instructions that a published compute unit or SM can issue per clock.

        NVIDIA: four schedulers with a warp of 32 each (CUDA C++ Programming Guide, "Hardware Multithreading"). CDNA:
        four SIMDs of 16 lanes, each of which may issue two at once (ROCm Compute Profiler documentation, FAQ on "VALU
        Utilization" above its peak). RDNA: two SIMDs of 32, where two instructions issued as one count once.
        """
        return 64 if self.family == "rdna" else 128

    @property
    def logic_lanes(self) -> int:
        """Those of shifts and logic: 64 of NVIDIA's (see `plugins.isa.compiled.integer_rate`), all of AMD's."""
        return self.issued_lanes if self.is_amd else 64

    @property
    def units_per_processor(self) -> int:
        """Published compute units per unit that torch and HIP count: RDNA's are counted in pairs (WGPs)."""
        return 2 if self.family == "rdna" else 1

    @property
    def units_name(self) -> str:
        """What the units are called that torch and HIP count."""
        return "work-group processors" if self.family == "rdna" else "compute units"

    @property
    def small_shared(self) -> bool:
        """At most 99 KiB of shared memory per program: two stages of prefetching at most."""
        return isinstance(self.limits, Multiprocessor) and self.limits.shared_bytes <= 100 << 10

    def of(self, table: Mapping[str, T]) -> T:
        """Return the entry of this architecture, else of the one that it is like, else of its family."""
        return next(table[key] for key in (self.name, self.like, self.family) if key in table)


_CDNA_GUIDE = "AMD Instinct {} Instruction Set Architecture guide"
_RDNA_GUIDE = "AMD RDNA{} Instruction Set Architecture guide"
_CUDA_GUIDE = "CUDA C++ Programming Guide, compute capability {}"

_ROWS = (
    Architecture("gfx908", "cdna", _CDNA_GUIDE.format("MI100 (CDNA1)")),
    Architecture(
        "gfx90a", "cdna", _CDNA_GUIDE.format("MI200 (CDNA2)"), limits=_MI200,
        dot_scaled="dot_scaled may abort inside LLVM on gfx90a (Triton 3.7), which has no FP8",
    ),
    Architecture(
        "gfx942", "cdna", _CDNA_GUIDE.format("MI300 (CDNA3)"), multiplies_fp8=True, fnuz=True, double_fp32=True,
        xcd_units=38, limits=_MI200,
    ),
    Architecture(
        "gfx950", "cdna", _CDNA_GUIDE.format("MI350 (CDNA4)"), multiplies_fp8=True, double_fp32=True, xcd_units=32,
        scaled_rows=16, limits=_MI350,
    ),
    Architecture("gfx1100", "rdna", _RDNA_GUIDE.format("3"), double_fp32=True, limits=_WGP),
    Architecture("gfx1150", "rdna", _RDNA_GUIDE.format("3.5"), double_fp32=True),
    Architecture("gfx1151", "rdna", _RDNA_GUIDE.format("3.5"), double_fp32=True, limits=_WGP),
    Architecture("gfx1200", "rdna", _RDNA_GUIDE.format("4"), double_fp32=True, multiplies_fp8=True),
    Architecture("gfx1201", "rdna", _RDNA_GUIDE.format("4"), double_fp32=True, multiplies_fp8=True, limits=_WGP),
    Architecture("sm70", "cuda", _CUDA_GUIDE.format("7.0"), like="sm80"),
    Architecture("sm75", "cuda", _CUDA_GUIDE.format("7.5"), like="sm80"),
    Architecture("sm80", "cuda", _CUDA_GUIDE.format("8.0"), slow_integers=True, limits=_A100),
    Architecture("sm86", "cuda", _CUDA_GUIDE.format("8.6"), like="sm80", limits=Multiprocessor(48, 16, 100 << 10)),
    Architecture("sm89", "cuda", _CUDA_GUIDE.format("8.9"), multiplies_fp8=True, slow_integers=True, limits=_SMALL),
    Architecture("sm90", "cuda", _CUDA_GUIDE.format("9.0"), multiplies_fp8=True, slow_integers=True, limits=_H100),
    Architecture(
        "sm100", "cuda", _CUDA_GUIDE.format("10.0"), multiplies_fp8=True, scaled_rows=128, mx_library=True, limits=_H100
    ),
    Architecture(
        "sm103", "cuda", _CUDA_GUIDE.format("10.3"), like="sm100", multiplies_fp8=True, scaled_rows=128,
        mx_library=True, limits=_H100,
    ),
    Architecture(
        "sm120", "cuda", _CUDA_GUIDE.format("12.0"), multiplies_fp8=True, scaled_rows=16, mx_library=True, limits=_SMALL
    ),
    Architecture("sm121", "cuda", _CUDA_GUIDE.format("12.1"), multiplies_fp8=True, scaled_rows=16, limits=_SMALL),
)  # fmt: skip

ARCHITECTURES = {row.name: row for row in _ROWS}
"""By name. To add an architecture, write its row here, and its die and rates in `tests/shapes/device_laws.py`."""

_FIRST_FP8_SM = 89


@cache
def architecture(name: str) -> Architecture:
    """Return the row of an architecture; of one without a row, what its name says.

    A CPU, where Triton's interpreter runs, counts as a recent NVIDIA GPU.
    """
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    if name.startswith("gfx"):
        family = "cdna" if name.startswith("gfx9") else "rdna"
        return Architecture(name, family, multiplies_fp8=name.startswith("gfx12"))
    digits = name.removeprefix("sm")
    recent = not digits.isdecimal() or int(digits) >= _FIRST_FP8_SM
    return Architecture(name, "cuda", like="" if recent else "sm80", multiplies_fp8=recent)
