"""What is surely needed, what is not, and which of two limits a verdict rests on."""

import math

import pandas as pd
import pytest
from rooflens.analysis.roofline import place
from rooflens.analysis.roofline.ceilings import Ceilings
from rooflens.analysis.roofline.roofs import roofs

from ..planted_frames import ceilings, cell
from .test_limits import DEVICE, NF4, NO_FILL, TABLE, K, N, one

DRAM = 4e12
PUBLISHED = pd.concat([TABLE, ceilings(("bandwidth", "dram", "", "", DRAM, "spec"))], ignore_index=True)


def test_output_that_may_stay_in_a_cache_makes_no_cell_impossible():
    """64 MiB of output, 2 MB of operands: writes need not have reached memory when a kernel ends."""
    M, N, K = 4096, 8192, 64
    written, read = 2 * M * N, N * K * 9 // 16 + 2 * M * K
    row = cell(0.5 * (written + read) / DRAM, M=M, N=N, K=K)
    assert row["compulsory_bytes"] == written + read
    assert one(row, PUBLISHED)["bound_class"] not in ("", "impossible")
    assert one(row | {"output_bytes": 0.0}, PUBLISHED)["bound_class"] == "impossible"


def test_the_suspects_are_of_the_limit_that_makes_a_cell_impossible():
    """A short K: writing takes longest, but what cannot be is the rate of the matrix units."""
    M, N, K = 4096, 8192, 128
    flops = 2 * M * N * K
    found = one(cell(0.9 * flops / 1000e12, M=M, N=N, K=K))
    assert found["bound_class"] == "impossible"
    assert found["memory_time_s"] > found["compute_time_s"]
    assert "a published GEMM peak that is not this device's" in found["bound_note"]
    assert "bandwidth" not in found["bound_note"]
    above = one(cell(0.9 * flops / 1000e12 / 1.2, M=M, N=N, K=K, clock_hz=2.4e9))  # at the peak of its own clock
    assert "GEMM peak" in above["bound_note"]
    reads = one(cell(0.5 * NF4 / DRAM), PUBLISHED)["bound_note"]
    assert ("bandwidth" in reads, "GEMM peak" in reads) == (True, False)
    spec = pd.concat([TABLE, ceilings(("peak", "", "gemm", "fp8", 2000e12, "spec"))], ignore_index=True)
    fast, faster = (one(cell(flops / rate, M=M, N=N, K=K), spec)["bound_note"] for rate in (1500e12, 2500e12))
    for suspect in ("fp8 could be as fast", "structured sparsity"):
        assert (suspect in fast, suspect in faster) == (True, False)
    experts = cell(flops / 1500e12, M=M, N=N, K=K) | {"E": 8, "top_k": 2, "op": "moe_gemm"}
    assert "M counted per expert or in total (E = 8, top_k = 2)" in one(experts)["bound_note"]


def test_a_fill_that_is_not_known_is_not_refuted():
    fast = cell(0.9 * NF4 / DRAM)  # faster than its own first reads
    assert one(fast, NO_FILL)["refuted"] == "moved bytes"
    assert math.isnan(one(fast, NO_FILL)["fill_time_s"])
    assert one(fast)["refuted"] == "moved bytes, fill"


def test_a_warm_cell_that_does_not_fit_falls_back_to_reading_once_from_memory():
    """Of a refuted model only the first reads are left, and memory serves them although the label says llc."""
    read = 2 * (NF4 * 4) + 2 * (4 * N + K)
    row = cell(1.05 * read / DRAM, N=4 * N, cache="warm", cache_level="llc", compulsory_bytes=read, moved_bytes=1e12)
    found = one(row, NO_FILL)
    assert found["refuted"] == "moved bytes"
    assert found["dram_time_s"] == pytest.approx(read / DRAM)
    assert math.isnan(found["llc_time_s"])


def test_what_fills_a_kernel_counts_before_it_is_called_unexplained():
    """1.5 x (0.1 us of memory + 1.5 us of launch + 0.4 us of fill): the last one decides."""
    row = cell(0.0, N=256, K=1024)
    memory = row["compulsory_bytes"] / DRAM
    below, above = (1.5 * (memory + row["flops"] / 800e12 + 1.5e-6 + 0.4e-6) * share for share in (0.99, 1.01))
    assert one(row | {"time_s": below})["bound_class"] == "launch"
    assert one(row | {"time_s": above})["bound_class"] == "unexplained"


def test_the_fill_of_a_warm_launch_stands_in_for_a_cold_one_that_was_not_measured():
    table = TABLE[~TABLE["pattern"].isin(["tile cold"])]
    fill = Ceilings.of(table).fill("cold")
    assert (fill.name, fill.value) == ("fill warm", pytest.approx(0.3e-6))
    assert Ceilings.of(NO_FILL).fill("cold") is None


def test_the_observed_clock_of_the_roof_is_that_of_the_middle_cell():
    rows = [cell(1e-3, M=512, clock_hz=clock) for clock in (1.0e9, 1.5e9, 1.6e9, 1.5e9, 2.4e9)]
    found = roofs(place(pd.DataFrame(rows), TABLE, DEVICE), TABLE, DEVICE)
    (observed,) = found.loc[(found["what"] == "peak") & (found["kind"] == "derived"), "value"]
    assert observed == pytest.approx(750e12)
