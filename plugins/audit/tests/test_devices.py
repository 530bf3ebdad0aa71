"""Which device each number is held against: that of its row, of its column or of the title before that of the user."""

import pytest

from .helpers import (
    audited,
    found,
    table,
)

FLOPS = 2 * 4096**3
"""FLOPs of a GEMM of 4096 x 4096 x 4096."""


def microseconds(tera):
    return f"{FLOPS / tera / 1e6:.2f}"


def test_the_device_of_a_row_goes_before_that_of_the_user():
    """1500 TFLOPS of fp8 are possible on an MI300X (2614.9) and an H200 (1978.9), and not on an RX 9070 XT (389.3)."""
    text = table(
        "GPU | M | N | K | dtype | time (us)",
        f"MI300X | 4096 | 4096 | 4096 | fp8 | {microseconds(1500)}",
        f"H200 | 4096 | 4096 | 4096 | fp8 | {microseconds(1500)}",
        f"RX 9070 XT | 4096 | 4096 | 4096 | fp8 | {microseconds(1500)}",
    )
    for user in ("RX 9070 XT", "MI300X", ""):
        (finding,) = found(audited(text, user), "above-peak")
        assert finding.line == 5
        assert finding.evidence["peak_flops_per_s"] == 389.3e12


@pytest.mark.parametrize("header", ["arch", "GPU", "Device", "target"])
def test_an_architecture_stands_for_its_fastest_device(header):
    """gfx942 is MI300X and MI325X, both 1307.4 TFLOPS of bf16."""
    text = table(f"{header} | M | N | K | TFLOPS", "gfx942 | 512 | 512 | 512 | 1300", "gfx942 | 64 | 64 | 64 | 1400")
    (finding,) = found(audited(text, "MI210", dtype="bf16"), "above-peak")
    assert finding.line == 4
    assert finding.evidence["peak_flops_per_s"] == 1307.4e12


def test_a_device_that_is_not_in_the_table_is_not_judged():
    text = table("GPU | M | N | K | TFLOPS", "RTX 6090 | 512 | 512 | 512 | 5000", "MI210 | 512 | 512 | 512 | 5000")
    assert [finding.line for finding in audited(text, "MI210").findings] == [4]


def test_a_part_of_a_device_is_no_faster_than_the_whole():
    """gfx942 with 80 compute units is an MI308X, which is not in the table; 304 are an MI300X or MI325X."""
    text = "gfx,cu_num,M,N,K,us\ngfx942,80,65536,36864,7168,{}\ngfx1250,80,65536,36864,7168,1.0\n"
    (peak,) = found(audited(text.format("1.0"), name="t.csv"), "above-peak")
    assert (peak.line, peak.evidence["peak_flops_per_s"]) == (2, 2614.9e12)
    assert not audited(text.format("87126.4572"), name="t.csv").findings


def test_a_number_of_gpus_is_no_device():
    text = table("GPU | M | N | K | TFLOPS", "1 | 512 | 512 | 512 | 500", "8 | 512 | 512 | 512 | 500")
    assert len(found(audited(text, "MI210"), "above-peak")) == 2


def test_titles_and_headers_name_devices():
    text = "### NVIDIA H200\n\n" + table("M | N | K | GB/s", "1 | 4096 | 4096 | 4500", "2 | 4096 | 4096 | 4900")
    assert [finding.line for finding in audited(text, "MI210").findings] == [6]
    text = table("M | N | K | H200 GB/s | MI210 GB/s", "1 | 4096 | 4096 | 4500 | 1500", "2 | 4096 | 4096 | 4500 | 1700")
    (finding,) = audited(text).findings
    assert (finding.rule, finding.line) == ("above-bandwidth", 4)
    assert finding.evidence["bandwidth_bytes_per_s"] == 1638e9


def test_consumer_boards_run_above_their_rated_clock():
    """Rated 209.5 TFLOPS at 2407 MHz; at 2902 MHz 252.6. An H200 is held to its 989.4."""
    header = "GPU | M | N | K | dtype | time (us)"
    row = "{} | 4096 | 4096 | 4096 | bf16 | {}".format
    text = table(header, row("RTX 5090", microseconds(252)), row("RTX 5090", microseconds(265)))
    assert [finding.line for finding in found(audited(text), "above-peak")] == [4]
    text = table(header, row("H200", microseconds(980)), row("H200", microseconds(1000)))
    assert [finding.line for finding in found(audited(text), "above-peak")] == [4]
