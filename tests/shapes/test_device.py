"""The device table against its own arithmetic and the names that drivers report."""

import dataclasses
import math

import pytest
from rooflens.shapes import device
from rooflens.shapes.errors import UsageError


def test_known_peaks():
    """MI300X: 304 CU x 2048 bf16 FLOP per clock x 2.1 GHz; 256 MiB behind 32 MiB of L2."""
    mi300x = device.spec("AMD Instinct MI300X")
    assert math.isclose(mi300x.peak_flops["bf16"], 304 * 2048 * 2.1e9, rel_tol=1e-3)
    assert mi300x.last_level_bytes == 256 << 20
    assert mi300x.l2_bytes == 32 << 20
    assert "mxfp8" not in mi300x.peak_flops


def test_the_last_level_is_l2_where_nothing_is_behind_it():
    h200 = device.spec("NVIDIA H200 SXM")
    assert h200.llc_bytes is None
    assert h200.last_level_bytes == h200.l2_bytes


@pytest.mark.parametrize(
    ("reported", "arch", "units", "row"),
    [
        ("NVIDIA H200", "sm90", None, "NVIDIA H200 SXM"),
        ("NVIDIA H100 80GB HBM3", "sm90", None, "NVIDIA H100 SXM"),
        ("NVIDIA H100 PCIe", "sm90", None, "NVIDIA H100 PCIe"),
        ("AMD Instinct MI300X OAM", "gfx942", None, "AMD Instinct MI300X"),
        ("NVIDIA GeForce RTX 4090", "sm89", None, "NVIDIA GeForce RTX 4090"),
        ("NVIDIA L40S", "sm89", None, "NVIDIA L40S"),
        ("NVIDIA L4", "sm89", None, "NVIDIA L4"),
        ("NVIDIA GB200", "sm100", None, "NVIDIA GB200 (per GPU)"),
        ("NVIDIA B200", "sm100", None, "NVIDIA B200 (HGX SXM)"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "sm89", None, None),
        ("AMD Instinct MI300A", "gfx942", None, "AMD Instinct MI300A"),
        ("AMD Radeon RX 9060 XT", "gfx1200", None, "AMD Radeon RX 9060 XT"),
        ("Tesla V100-SXM2-32GB", "sm70", None, "NVIDIA V100 SXM2"),
        ("NVIDIA H800", "sm90", None, "NVIDIA H800 SXM"),
        ("NVIDIA B300 SXM6 AC", "sm103", None, "NVIDIA B300 (HGX SXM)"),
        ("AMD Instinct MI250X", "gfx90a", None, None),  # torch sees one half of what the row describes
        ("NVIDIA H200", "sm100", None, None),
        # AMD GPUs are told apart by their size too
        ("AMD Radeon Graphics", "gfx1151", 20, "AMD Strix Halo / Radeon 8060S"),  # 40 CUs, which torch counts in pairs
        ("AMD Radeon Graphics", "gfx1151", 40, None),
        ("AMD Radeon Graphics", "gfx1100", 48, None),  # two rows have as many
        ("AMD Radeon Graphics", "gfx942", 228, "AMD Instinct MI300A"),
        ("AMD Radeon RX 7950", "gfx1151", 20, None),  # a model that the table lacks
        ("AMD Radeon RX 7900 XTX", "gfx1100", 48, "AMD Radeon RX 7900 XTX"),
        ("AMD Instinct MI300X", "gfx942", 304, "AMD Instinct MI300X"),
        ("AMD Instinct MI300X", "gfx942", 38, None),  # one of eight partitions
        ("NVIDIA H200", "sm90", 16, "NVIDIA H200 SXM"),
        ("Graphics Device", "sm90", 132, None),
    ],
)
def test_driver_names(reported, arch, units, row):
    found = device.match_spec(reported, arch, units)
    assert (found.name if found else None) == row


@pytest.mark.parametrize(
    ("arch", "units", "reported", "chiplets"),
    [("gfx942", 304, 0, 8), ("gfx942", 228, 0, 6), ("gfx942", 38, 0, 1), ("gfx950", 256, 0, 8), ("gfx942", 80, 4, 4),
     ("gfx1100", 48, 0, 1), ("gfx90a", 104, 0, 1), ("sm90", 132, 0, 1)],
)  # fmt: skip
def test_chiplets_are_those_of_the_device(arch, units, reported, chiplets):
    gpu = device.Device("cuda", 0, "", "", arch, units, 0, 0, 0, reported_chiplets=reported)
    assert gpu.chiplets == chiplets


def test_every_row_has_a_source():
    assert len(device.specs()) == 29
    assert all(row.source and row.status for row in device.specs())


def test_unknown_device():
    with pytest.raises(UsageError, match="did you mean"):
        device.spec("AMD Instinct MI300")


@pytest.mark.parametrize(
    ("name", "lanes"),
    [
        ("NVIDIA H200 SXM", 132 * 128 * 1.98e9),  # fp32 is published at 1980 MHz
        ("NVIDIA A100-SXM4-80GB", 108 * 64 * 1.41e9),
        ("AMD Instinct MI210", 104 * 64 * 1.7e9),
        ("AMD Instinct MI300X", 304 * 64 * 2.1e9),  # its 163.4 TFLOPS count packed multiply-adds
        ("AMD Instinct MI355X", 256 * 64 * 2.4e9),
        ("AMD Radeon RX 7900 XTX", 96 * 64 * 2.5e9),  # dual-issued ones
    ],
)
def test_the_vector_rate_is_a_lane_instruction_per_clock_and_lane(name, lanes):
    assert device.spec(name).vector_ops_per_s == pytest.approx(lanes, rel=2e-3)


def test_without_an_fp32_peak_there_is_no_vector_rate():
    assert dataclasses.replace(device.spec("NVIDIA L4"), peak_flops={}).vector_ops_per_s is None
