"""Occupancy: how many waves of one kernel the registers, the shared memory and the slots of a processor hold.

AMD, waves per SIMD, as LLVM computes it (AMDGPUBaseInfo.cpp: getNumWavesPerEUWithNumVGPRs and getLdsDwGranularity;
AMDGPUSubtarget.cpp: getOccupancyWithWorkGroupSizes): a lane's vector registers, accumulation registers included, are
allocated in granules of the register file; programs share the LDS of a compute unit (gfx9) or of a pair of them in WGP
mode (gfx11, gfx12), both with four SIMDs. Above 100 scalar registers gfx9 loses a wave (GCNSubtarget.cpp,
getOccupancyWithNumSGPRs).

NVIDIA, warps per SM (CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability", and the CUDA
occupancy calculator): registers are allocated per warp in units of 256, warps in fours, one per quarter of the SM;
shared memory in units of 128 bytes, 1 KiB of it per program for the system. sm100's tensor memory is not accounted for.
"""

from dataclasses import dataclass

from ....kernels.geometry import padded
from ....shapes.gpu_architectures import Multiprocessor, Simd, architecture

_SIMDS = 4
_MOST_SCALARS, _WAVES_BEYOND = 100, 7


_REGISTERS, _REGISTER_UNIT, _QUARTERS = 64 << 10, 256, 4
_SHARED_UNIT, _SYSTEM_SHARED = 128, 1 << 10


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident waves per SIMD (AMD) or warps per SM (NVIDIA), how many the hardware has slots for, and what limits.

    waves is 0 when not even one program fits. `limit`: registers, shared or slots. `programs` are resident together on
    an SM, a CU (gfx9) or a pair of CUs (gfx11, gfx12).
    """

    waves: float
    slots: int
    limit: str
    programs: int


def waves_by_registers(arch: str, vector: int, scalar: int = 0) -> int:
    """Waves per SIMD of an AMD architecture that fit by registers; `vector`: accumulation registers included."""
    unit = _simd(arch)
    waves = min(unit.waves, unit.registers // padded(max(vector, 1), unit.granule))
    return min(waves, _WAVES_BEYOND) if unit.scalar_limit and scalar > _MOST_SCALARS else waves


def occupancy(arch: str, warps: int, vector: int, scalar: int, shared_bytes: int) -> Occupancy:
    """Return the occupancy of programs of `warps` waves.

    vector  vector registers per lane, accumulation registers included; scalar  per wave (AMD)
    shared_bytes  shared memory (LDS) per program
    """
    if architecture(arch).is_amd:
        unit = _simd(arch)
        by_registers = waves_by_registers(arch, vector, scalar) * _SIMDS // warps
        lds = padded(shared_bytes, unit.lds_granule)
        by_shared = unit.lds_bytes // lds if lds else by_registers
        by_slots = min(unit.waves * _SIMDS // warps, unit.programs if warps > 1 else unit.waves * _SIMDS)
        slots, processors = unit.waves, _SIMDS
    else:
        sm = architecture(arch).limits
        assert isinstance(sm, Multiprocessor)
        per_warp = padded(max(vector, 1) * 32, _REGISTER_UNIT)
        by_registers = _REGISTERS // _QUARTERS // per_warp * _QUARTERS // warps
        by_shared = sm.shared_bytes // (padded(shared_bytes, _SHARED_UNIT) + _SYSTEM_SHARED)
        by_slots = min(sm.warps // warps, sm.programs)
        slots, processors = sm.warps, 1
    programs, limit = min(
        (by_slots, "slots"), (by_registers, "registers"), (by_shared, "shared"), key=lambda one: one[0]
    )
    return Occupancy(programs * warps / processors, slots, limit, programs)


def _simd(arch: str) -> Simd:
    limits = architecture(arch).limits
    assert isinstance(limits, Simd)
    return limits
