"""Occupancy against figures worked out from the hardware's tables by hand."""

import pytest
from rooflens.plugins.isa.compiled.occupancy import Occupancy, occupancy, waves_by_registers


@pytest.mark.parametrize(
    "arch, vector, scalar, waves",
    [
        ("gfx942", 64, 30, 8),  # 512 / 64
        ("gfx942", 65, 30, 7),  # rounded up to 72: 512 / 72 = 7.1
        ("gfx942", 256, 30, 2),
        ("gfx942", 512, 30, 1),
        ("gfx942", 32, 30, 8),  # not 16: 8 slots
        ("gfx90a", 32, 102, 7),  # above 100 scalar registers
        ("gfx950", 128, 102, 4),
        ("gfx1100", 96, 106, 16),  # 1536 / 96; scalar registers do not limit
        ("gfx1100", 97, 106, 12),  # rounded up to 120: 1536 / 120 = 12.8
        ("gfx1201", 256, 106, 5),  # rounded up to 264: 1536 / 264 = 5.8
    ],
)
def test_waves_by_registers(arch, vector, scalar, waves):
    assert waves_by_registers(arch, vector, scalar) == waves


@pytest.mark.parametrize(
    "arch, warps, vector, shared, expected",
    [
        # 4 waves of 104 registers: one per SIMD, 4 programs by registers; 20 KiB of LDS: 3 of 64 KiB
        ("gfx942", 4, 99, 20480, Occupancy(3, 8, "shared", 3)),
        ("gfx942", 4, 99, 16384, Occupancy(4, 8, "registers", 4)),
        # 24 KiB of 160 KiB, in granules of 1280 bytes (25600): 6 programs, registers allow 5 (96)
        ("gfx950", 4, 96, 24576, Occupancy(5, 8, "registers", 5)),
        ("gfx950", 4, 64, 24576, Occupancy(6, 8, "shared", 6)),
        # two waves per program: half a wave per SIMD and program; barriers for 16 programs
        ("gfx942", 2, 16, 0, Occupancy(8, 8, "slots", 16)),
        ("gfx942", 2, 250, 0, Occupancy(2, 8, "registers", 4)),
        # a pair of compute units shares 128 KiB: 6 programs of 20 KiB, 1.5 waves per SIMD each
        ("gfx1100", 4, 64, 20480, Occupancy(6, 16, "shared", 6)),
        ("gfx1100", 8, 64, 65536, Occupancy(4, 16, "shared", 2)),
        ("gfx942", 8, 64, 70000, Occupancy(0, 8, "shared", 0)),  # does not fit at all
        # A100: 65536 / (32 x 168) registers: 12 warps, 3 programs; 67584 + 1024 bytes: 2 of 164 KiB
        ("sm80", 4, 167, 67584, Occupancy(8, 64, "shared", 2)),
        # H200: 128 registers: 16 warps; 228 KiB / (49152 + 1024) = 4 programs
        ("sm90", 4, 128, 49152, Occupancy(16, 64, "registers", 4)),
        ("sm90", 8, 255, 0, Occupancy(8, 64, "registers", 1)),
        ("sm90", 1, 32, 0, Occupancy(32, 64, "slots", 32)),  # 32 programs
        ("sm90", 4, 32, 0, Occupancy(64, 64, "slots", 16)),
        ("sm120", 4, 40, 0, Occupancy(48, 48, "slots", 12)),
        # 72 registers: 2304 per warp, 7 per quarter, 28 warps
        ("sm90", 4, 72, 0, Occupancy(28, 64, "registers", 7)),
    ],
)
def test_occupancy(arch, warps, vector, shared, expected):
    assert occupancy(arch, warps, vector, 30, shared) == expected
