"""Which limit is taken, and what is said about missing and low ones."""

import pandas as pd
import pytest
from rooflens.analysis.roofline.ceilings import Ceilings, ceiling_warnings
from rooflens.shapes.device import Device

from ..planted_frames import ceilings

TABLE = ceilings(
    ("bandwidth", "dram", "copy", "", 50e9, "measured"),
    ("bandwidth", "dram", "read", "", 60e9, "measured"),
    ("bandwidth", "dram", "write", "", 70e9, "measured"),
    ("bandwidth", "dram", "", "", 100e9, "spec"),
    ("bandwidth", "llc", "read", "", 200e9, "measured"),
    ("peak", "", "gemm", "bf16", 400e9, "measured"),
    ("peak", "", "gemm", "bf16", 1000e9, "spec"),
    ("peak", "", "gemm", "fp32", 150e9, "measured"),
    ("peak", "", "gemm", "fp16", 90e9, "measured"),
    ("launch", "", "", "", 3e-6, "measured"),
    ("launch", "", "", "", 2e-6, "measured"),
)


def test_bandwidth_matches_the_traffic():
    limits = Ceilings.of(TABLE)
    assert limits.bandwidth("dram", "read").value == 60e9
    assert limits.bandwidth("dram", "copy").value == 50e9
    assert limits.bandwidth("llc", "copy").value == 200e9  # no copy was measured there: the read is used instead
    assert limits.bandwidth("l2", "read") is None
    slow_read = TABLE.assign(value=TABLE["value"].replace(60e9, 40e9))
    assert Ceilings.of(slow_read).bandwidth("dram", "read").value == 50e9  # a copy reads as well


def test_a_cache_that_was_measured_slower_than_memory_gives_way_to_it():
    table = TABLE.assign(value=TABLE["value"].where(TABLE["level"] != "llc", 1e9))
    assert str(Ceilings.of(table).bandwidth("llc")) == "dram read bandwidth (measured: test)"
    first, *_ = ceiling_warnings(table, [], ["llc"], Device())
    assert first.startswith("measured llc bandwidth is below that of memory")


def test_the_published_value_stands_in_only_where_nothing_was_measured():
    assert Ceilings.of(TABLE).bandwidth("dram").kind == "measured"
    spec = Ceilings.of(TABLE[TABLE["kind"] == "spec"])
    assert (spec.bandwidth("dram").value, spec.bandwidth("dram").kind) == (100e9, "spec")
    assert (spec.peak("bf16").value, spec.peak("bf16").kind) == (1000e9, "spec")


def test_sixteen_bits_may_be_computed_in_fp32():
    limits = Ceilings.of(TABLE)
    assert limits.peak("bf16").value == 400e9
    assert limits.peak("fp16").value == 150e9

    assert limits.peak("fp32").value == 150e9  # never the other way round: that would be TF32
    assert limits.peak("fp8") is None


def test_hard_limits_are_published_or_derived():
    limits = Ceilings.of(TABLE)
    assert limits.published_bandwidth("dram").value == 100e9
    assert limits.hard_peak("bf16").value == 1000e9
    measured = Ceilings.of(TABLE[TABLE["kind"] == "measured"])
    assert measured.hard_peak("bf16") is None
    assert measured.published_bandwidth("dram") is None
    derived = Ceilings.of(pd.concat([TABLE, ceilings(("peak", "", "gemm", "fp32", 200e9, "derived"))]))
    assert derived.hard_peak("fp16").value == 200e9  # in fp32; the fp16 that was measured is no limit
    assert derived.peak("fp16").value == 150e9


def test_the_launch_floor_is_the_least_empty_launch():
    table = ceilings(
        ("launch", "", "empty cold", "", 4e-6, "measured"),
        ("launch", "", "empty warm", "", 3e-6, "measured"),
        ("launch", "", "tile warm", "", 2e-6, "measured"),  # noise: it computes something, so it is no floor
        ("launch", "", "tile cold", "", 9e-6, "measured"),
    )
    assert Ceilings.of(table).launch().value == 3e-6
    assert str(Ceilings.of(table).launch()) == "empty warm launch (measured: test)"
    old = ceilings(("launch", "", "", "", 2.5e-6, "measured"))
    assert Ceilings.of(old).launch().value == 2.5e-6  # from before patterns of launches had names
    assert Ceilings.of(pd.concat([table, old], ignore_index=True)).launch().value == 2.5e-6
    tiles = table[table["pattern"].str.startswith("tile")]
    assert Ceilings.of(tiles).launch() is None
    assert ceiling_warnings(tiles, [], [], Device())[0].startswith("no launch floor")


def test_warnings_name_what_is_missing_or_published():
    warnings = ceiling_warnings(TABLE, ["bf16", "fp8"], ["dram", "l2"], Device())
    assert warnings == (
        "no l2 bandwidth in ceilings.csv: it limits no cell here, and bound classes may be wrong",
        "no fp8 GEMM peak in ceilings.csv: it limits no cell here, and bound classes may be wrong",
    )
    spec = ceiling_warnings(TABLE[TABLE["kind"] == "spec"], ["bf16"], [], Device())
    assert spec[0] == "bf16 GEMM peak was not measured: the published value is used instead (test)"
    assert spec[1].startswith("no launch floor")
    assert len(ceiling_warnings(pd.DataFrame(columns=TABLE.columns), ["bf16"], ["dram"], Device())) == 3


@pytest.mark.parametrize(
    ("device", "read", "bf16", "fp8", "low"),
    [
        # What an H200 usually reaches, 67 % of the published FP8 peak among it, and the same 16 % lower.
        (Device(name="NVIDIA H200", arch="sm90"), 4444.7e9, 772.8e12, 1326.2e12, []),
        (Device(name="NVIDIA H200", arch="sm90"), 0.84 * 4199e9, 772.8e12, 1326.2e12, ["dram bandwidth"]),
        (Device(name="NVIDIA H200", arch="sm90"), 4444.7e9, 0.84 * 772.8e12, 1326.2e12, ["bf16 GEMM peak"]),
        (Device(name="NVIDIA H200", arch="sm90"), 4444.7e9, 772.8e12, 0.84 * 1326.2e12, ["fp8 GEMM peak"]),
        # What a search over sizes found on an H100: 70 % of the published peak.
        (Device(name="NVIDIA H100 80GB HBM3", arch="sm90"), 3000e9, 700e12, 1402.6e12, []),
        # Its FP8 peak is far below what is published, but nobody has measured a better one.
        (Device(name="NVIDIA L4", arch="sm89"), 100e9, 40e12, 80e12, []),
        # The one figure of FP8 on an RTX 5090 is above the published peak: not credible, so it condemns nothing.
        (Device(name="NVIDIA GeForce RTX 5090", arch="sm120"), 1500e9, 200e12, 300e12, []),
        (Device(name="a CPU", arch="x86-64-avx512"), 1e9, 1e9, 1e9, []),
    ],
)
def test_low_is_what_misses_every_known_measurement_of_the_device(device, read, bf16, fp8, low):
    table = ceilings(
        ("bandwidth", "dram", "read", "", read, "measured"),
        ("peak", "", "gemm", "bf16", bf16, "measured"),
        ("peak", "", "gemm", "fp8", fp8, "measured"),
        ("launch", "", "", "", 2e-6, "measured"),
    )
    warnings = ceiling_warnings(table, ["bf16", "fp8"], ["dram"], device)
    assert [warning.partition(" is ")[0].removeprefix("measured ") for warning in warnings] == low
    assert all("16% below the least that is known of a NVIDIA H200 SXM (rooflens " in warning for warning in warnings)
