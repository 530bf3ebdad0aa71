"""Cells against their limits: closed forms, classes, and invariants for any times and ceilings."""

import math
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.analysis.roofline import bound_shares, place, raise_ceilings, roofline_warnings
from rooflens.analysis.roofline.bounds import Bound
from rooflens.analysis.stability.canary import Drift
from rooflens.shapes.device import Device

from ..planted_frames import GEMV_BYTES, NF4, NK, K, N, ceilings, cell
from .test_gaps import GEOMETRIES

M = 4096
FLOPS = 2 * M * NK

TABLE = ceilings(
    ("bandwidth", "dram", "read", "", 50e9, "measured"),
    ("bandwidth", "dram", "copy", "", 40e9, "measured"),
    ("bandwidth", "llc", "read", "", 200e9, "measured"),
    ("peak", "", "gemm", "bf16", 400e9, "measured"),
    ("launch", "", "", "", 2e-6, "measured"),
)
DEVICE = Device(llc_bytes=32 << 20)


def placed(*rows, table=TABLE, device=DEVICE) -> pd.DataFrame:
    return place(pd.DataFrame(list(rows)), table, device)


def one(row, table=TABLE, device=DEVICE) -> pd.Series:
    return placed(row, table=table, device=device).iloc[0]


def test_a_cold_gemv_in_closed_form():
    summary, table = pd.DataFrame([cell(400e-6)]), TABLE.copy()
    before = summary.copy()
    (found,) = place(summary, table, DEVICE).to_dict("records")
    assert found["intensity"] == pytest.approx(2 * NK / GEMV_BYTES)
    assert found["bound_time_s"] == found["dram_time_s"] == pytest.approx(GEMV_BYTES / 50e9)
    assert found["bound_margin"] == pytest.approx((GEMV_BYTES / 50e9) / (2 * NK / 400e9))
    assert (found["bound_class"], found["memory_level"]) == ("dram", "dram")
    assert found["memory_ceiling"] == "dram read bandwidth (measured: test)"
    assert found["compute_ceiling"] == "bf16 gemm peak (measured: test)"
    assert np.isnan([found["llc_time_s"], found["l2_time_s"]]).all()
    assert summary.equals(before), "nothing is mutated"
    assert table.equals(TABLE)


def test_what_the_rest_of_the_limits_makes_of_a_cell():
    gemm = one(cell(1.2 * FLOPS / 400e9, M=M))
    assert (gemm["bound_class"], gemm["fraction_of_bound"]) == ("compute", pytest.approx(1 / 1.2))
    assert gemm["memory_ceiling"].startswith("dram copy bandwidth")  # it writes as well
    assert gemm["memory_time_s"] == pytest.approx((NF4 + 2 * (M * K + M * N)) / 40e9)
    peak = 2 * NK / (GEMV_BYTES / 50e9) * 1.05
    close = one(cell(300e-6), TABLE.assign(value=TABLE["value"].where(TABLE["ceiling"] != "peak", peak)))
    assert (close["bound_class"], close["bound_margin"]) == ("balanced", pytest.approx(1.05))
    warm = one(cell(100e-6, cache="warm", cache_level="llc"))
    assert (warm["memory_level"], warm["bound_class"]) == ("llc", "compute")
    l2 = one(cell(100e-6, cache="warm", cache_level="l2"))  # no l2 ceiling: it limits nothing
    assert np.isnan([l2["memory_time_s"], l2["l2_time_s"]]).all()
    assert l2["memory_ceiling"] == ""
    assert l2["bound_time_s"] == l2["compute_time_s"]


DENSE = 2 * (NK + K + N)
"""Bytes of a GEMV in bf16."""


@pytest.mark.parametrize(
    ("provider", "role", "moved", "llc_bytes"),
    [
        ("blas", "reference", DENSE, 1 << 30),  # from memory, however large the cache
        ("stock_triton", "reference", DENSE, 32 << 20),
        ("stock_triton_mx", "stock_triton", GEMV_BYTES, 32 << 20),  # decodes in its call
    ],
)
def test_references_read_their_own_operands_from_memory(provider, role, moved, llc_bytes):
    row = cell(1.1 * moved / 50e9, provider=provider, role=role, moved_bytes=float(moved))
    found = one(row, device=Device(llc_bytes=llc_bytes))
    assert found["dram_time_s"] == pytest.approx(moved / 50e9)
    assert found["bound_class"] == "dram"
    assert found["fraction_of_implemented"] == pytest.approx(1 / 1.1)
    assert found["fraction_of_bound"] == pytest.approx(GEMV_BYTES / moved / 1.1)


def test_dequantization_moves_the_dense_weight_and_re_reads_it():
    dense = 2 * NK
    moved = GEMV_BYTES + 2 * dense
    row = cell(2e-3, provider="dequant_blas", role="dequant_blas", moved_bytes=float(moved))
    spilled = one(row)  # 43 MB in all do not fit into 32 MiB
    assert spilled["dram_time_s"] == pytest.approx(moved / 50e9)
    assert math.isnan(spilled["llc_time_s"])
    cached = one(row, device=Device(llc_bytes=64 << 20))  # now they do: only first reads come from memory
    assert cached["dram_time_s"] == pytest.approx(GEMV_BYTES / 50e9)
    assert cached["llc_time_s"] == pytest.approx(2 * dense / 200e9)
    for found in (spilled, cached):  # the bound is of the problem, whatever the provider moves
        assert found["bound_time_s"] == pytest.approx(GEMV_BYTES / 50e9)
    assert spilled["bound_class"] == "dram"
    assert spilled["moved_intensity"] == pytest.approx(2 * NK / moved)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["blas", "blas"], "2 of 2 cells * combined: blas (machine code not analysed)"),
        (
            ["simt_4bit", "blas", "dequant_blas"],
            "3 of 3 cells * combined: 2 of blas, dequant_blas (machine code not analysed); "
            "1 of simt_4bit (although the code of their main kernel was analysed)",
        ),
    ],
)
def test_the_warning_says_whose_machine_code_is_read(names, told):
    rows = [cell(1.0, provider=name, schedule_clocks=1000.0 if name == "simt_4bit" else math.nan) for name in names]
    (found,) = [text for text in roofline_warnings(placed(*rows), TABLE, DEVICE) if "limits combined" in text]
    assert fnmatchcase(found, told)


def test_impossible_cells_name_their_main_suspect():
    table = pd.concat([TABLE, ceilings(("peak", "", "gemm", "bf16", 500e9, "derived"))], ignore_index=True)
    frame = placed(cell(0.9 * FLOPS / 500e9, M=M), table=table)
    (told,) = [text for text in roofline_warnings(frame, table, DEVICE) if "possible" in text]
    assert fnmatchcase(told, "1 of 1 cells * Main suspect: a derived GEMM peak that is not this device's")


def raised(*rows, table=TABLE) -> pd.DataFrame:
    return raise_ceilings(pd.DataFrame(list(rows)), table, DEVICE)


def test_a_cell_that_beats_a_measured_peak_raises_it_and_is_bound_by_it():
    """600 and 500 GFLOPS where the probe found 400: the faster cell is the ceiling of both."""
    rows = cell(FLOPS / 600e9, M=M, provider="mine"), cell(FLOPS / 500e9, M=M, provider="other")
    table = raised(*rows)
    assert table.iloc[: len(TABLE)].equals(TABLE)
    (row,) = table.iloc[len(TABLE) :].to_dict("records")
    assert (row["ceiling"], row["dtype"], row["kind"]) == ("peak", "bf16", "measured")
    assert row["value"] == pytest.approx(600e9)
    assert row["source"] == "reached by mine at m l (4096x4096), M=4096, cold: 1.5 times what the probe measured"
    frame = placed(*rows, table=table)
    assert frame["bound_class"].tolist() == ["compute", "compute"]
    assert frame["fraction_of_bound"].tolist() == pytest.approx([1, 5 / 6])
    assert frame["bound_note"].tolist() == ["", ""]
    assert frame["compute_ceiling"].str.contains("reached by mine").all()
    (told,) = [text for text in roofline_warnings(frame, table, DEVICE) if "probes are below" in text]
    assert (
        "bf16 gemm peak (reached by mine at m l (4096x4096), M=4096, cold: 1.5 times what the probe measured)" in told
    )


@pytest.mark.parametrize(
    ("row", "what", "value"),
    [
        (cell((NF4 + 2 * K) / 80e9), ("bandwidth", "dram", "read"), 80e9),  # what is written may stay in a cache
        (cell(1e-6, N=64, K=64), ("launch", "", "empty"), 1e-6),
        (cell((NF4 + 2 * M * K) / 60e9, M=M, flops=0), ("bandwidth", "dram", "copy"), 60e9),
        # Of a warm cell, 4 MiB cannot stay in the cache of 32.
        (
            cell(4 * 2**20 / 70e9, cache="warm", compulsory_bytes=36 * 2**20, output_bytes=0),
            ("bandwidth", "dram", "read"),
            70e9,
        ),
    ],
)
def test_memory_and_launches_are_raised_too(row, what, value):
    table = raised(row)
    rows = table.iloc[len(TABLE) :]
    found = rows.loc[(rows[["ceiling", "level", "pattern"]] == list(what)).all(axis=1), "value"]
    assert found.tolist() == pytest.approx([value])
    assert placed(row, table=table)["fraction_of_bound"].item() <= 1


def test_what_a_measured_ceiling_allows_or_a_hard_one_forbids_raises_nothing():
    assert raised(cell(0.985 * FLOPS / 400e9, M=M)).equals(TABLE)  # within the 2 % of a time
    assert raised(cell(math.nan, M=M, verdict="oom")).equals(TABLE)
    table = pd.concat([TABLE, ceilings(("peak", "", "gemm", "bf16", 500e9, "derived"))], ignore_index=True)
    too_fast, fast = cell(FLOPS / 600e9, M=M, provider="odd"), cell(FLOPS / 450e9, M=M, provider="mine")
    after = raised(too_fast, fast, table=table)
    (row,) = after.iloc[len(table) :].to_dict("records")
    assert row["value"] == pytest.approx(450e9)
    assert row["source"].startswith("reached by mine")
    assert placed(too_fast, fast, table=after)["bound_class"].tolist() == ["impossible", "compute"]
    published = TABLE.assign(kind="spec")
    assert raised(fast, table=published).equals(published)
    assert raised(fast, table=TABLE.iloc[:0]).empty


def test_a_canary_that_varied_tells_why_a_probe_falls_short():
    row = cell(FLOPS / 600e9, M=M)
    table = raised(row)
    calm, busy, copy = Drift("gemm", 5, 0.02, 0.0), Drift("gemm", 5, 1.09, 0.4), Drift("copy", 5, 1.09, 0.4)
    told = [
        next(
            text for text in roofline_warnings(placed(row, table=table), table, DEVICE, [drift]) if "are below" in text
        )
        for drift in (calm, busy, copy)
    ]
    why = "as the canary's GEMM varied by 109% over the run: the device was busy"
    assert [why in text for text in told] == [False, True, False]


def test_faster_than_possible_is_never_more_than_100_percent():
    reads = NF4 + 2 * K
    edge = 0.98 * reads / 50e9
    published = ceilings(("bandwidth", "dram", "", "", 50e9, "spec"), ("peak", "", "", "bf16", 400e9, "spec"))
    hard = pd.concat([TABLE, published], ignore_index=True)
    impossible, allowed = one(cell(0.999 * edge), hard), one(cell(1.001 * edge), hard)
    assert impossible["bound_class"] == "impossible"
    assert math.isnan(impossible["fraction_of_bound"])
    assert impossible["bound_note"].startswith("takes 0.98 of the least possible time: suspect operands that stayed")
    assert (allowed["bound_class"], allowed["fraction_of_bound"]) == ("dram", 1)


def test_published_limits_decide_what_is_impossible():
    spec = ceilings(("bandwidth", "dram", "", "", 60e9, "spec"), ("peak", "", "", "bf16", 900e9, "spec"))
    table = pd.concat([TABLE, spec], ignore_index=True)
    above_measured = one(cell((NF4 + 2 * K) / 55e9), table)
    assert (above_measured["bound_class"], above_measured["fraction_of_bound"]) == ("dram", 1)
    assert above_measured["bound_note"].startswith("faster than its bound: a ceiling was measured too low")
    assert one(cell((NF4 + 2 * K) / 65e9), table)["bound_class"] == "impossible"
    # 28 MB, most of it in a 32 MiB cache that was called dram by a narrow margin: what a cache may hold decides nothing
    row = cell(150e-6, N=3 * N, cache="warm", cache_level="dram")
    fast = table[table["level"] != "llc"].assign(
        value=table["value"].where(table["ceiling"] != "peak", 4e12), kind="spec"
    )
    assert one(row, fast)["bound_class"] != "impossible"
    assert one({**row, "cache": "cold"}, fast)["bound_class"] == "impossible"


def test_a_time_that_does_not_grow_with_M_is_no_compute_bound():
    # 29.0 to 30.6 us whatever the FLOPs, on a device whose empty launch takes 5 us and whose roofs are far away
    table = ceilings(
        ("bandwidth", "dram", "read", "", 5e12, "measured"), ("peak", "", "gemm", "bf16", 2e15, "measured"),
        ("launch", "", "", "", 5e-6, "measured"),
    )  # fmt: skip
    times = [29.0e-6, 29.4e-6, 29.9e-6, 30.6e-6]
    rows = [cell(time, M=M, N=512, K=512) for time, M in zip(times, (1, 2, 4, 8), strict=True)]
    frame = placed(*rows, table=table)
    assert frame["is_flat"].all()
    assert frame["bound_class"].tolist() == ["launch"] * 4
    far = placed(*(cell(11e-3, M=M, provider="dequant_blas", role="dequant_blas") for M in (1, 2, 4, 8)))
    assert far["bound_class"].tolist() == ["unexplained"] * 4
    assert far["bound_note"].str.startswith("time does not grow with M").all()
    slow = TABLE.assign(value=TABLE["value"].where(TABLE["ceiling"] != "peak", 5e9))
    rising = placed(*(cell(2 * M * NK / 5e9 * 1.01, M=M) for M in (1, 2, 4)), table=slow)
    assert rising["bound_class"].tolist() == ["compute"] * 3
    flat = placed(*(cell(8 * NK / 5e9 * 1.01, M=M) for M in (1, 2, 4)), table=slow)
    assert "compute" not in set(flat["bound_class"])


def test_flatness_is_of_one_provider_shape_and_storage():
    rows = [cell(1e-3, M=M, provider=name) for M, name in ((1, "a"), (4, "b"))]
    assert not placed(*rows)["is_flat"].any()
    assert not placed(cell(1e-3, M=1), cell(1.11e-3, M=4))["is_flat"].any()
    assert not placed(cell(1e-3, M=1), cell(1e-3, M=3))["is_flat"].any()
    assert placed(cell(1e-3, M=1), cell(1.09e-3, M=4), cell(2e-3, M=8))["is_flat"].tolist() == [True, True, False]


def test_failed_cells_and_missing_ceilings_have_no_class():
    failed = cell(math.nan, verdict="oom")
    frame = placed(failed, cell(400e-6))
    assert frame["bound_class"].tolist() == ["", "dram"]
    assert frame["bound_note"].tolist() == ["", ""]
    bare = placed(cell(400e-6), table=TABLE.iloc[:0])
    assert bare["bound_class"].tolist() == [""]
    assert bare["bound_time_s"].isna().all()
    assert bound_shares(bare).empty
    assert bound_shares(bare, ["provider"]).empty


def test_shares_by_hand():
    rows = [
        *(cell(300e-6, provider=name) for name in ("b", "b", "b", "a")),
        cell(1.0, provider="b"), cell(math.nan, provider="a", verdict="oom"),
    ]  # fmt: skip
    frame = placed(*rows)
    shares = bound_shares(frame)
    assert shares.to_dict("list") == {"bound_class": ["dram", "unexplained"], "cells": [4, 1], "share": [0.8, 0.2]}
    by = bound_shares(frame, ["provider"])
    assert by["provider"].tolist() == ["b", "b", "a"]
    assert by["bound_class"].tolist() == ["dram", "unexplained", "dram"]
    assert by["share"].tolist() == [0.75, 0.25, 1.0]


def log_uniform(low: float, high: float):
    return st.floats(math.log(low), math.log(high)).map(math.exp)


ROLES = {"dequant_blas": "dequant_blas", "blas": "reference", "simt_4bit": "candidate"}
CELLS = st.builds(
    lambda time, M, N, K, provider, cache, level, extra, geometry: cell(
        time, M=M, N=N, K=K, provider=provider, cache=cache, cache_level=level if cache == "warm" else "dram",
        role=ROLES[provider], moved_bytes=float(NF4 * extra), **geometry,
    ),
    log_uniform(1e-7, 1e-1),
    st.sampled_from([1, 4, 64, 1024]),
    st.sampled_from([64, 1024, 8192]),
    st.sampled_from([64, 4096]),
    st.sampled_from([*ROLES]),
    st.sampled_from(["cold", "warm"]),
    st.sampled_from(["llc", "l2", "dram"]),
    log_uniform(0.01, 100),
    GEOMETRIES,
)  # fmt: skip

TABLES = st.builds(
    lambda dram, llc, peak, spec, launch, mask: ceilings(
        ("bandwidth", "dram", "read", "", dram, "measured"),
        ("bandwidth", "llc", "copy", "", llc, "measured"),
        ("peak", "", "gemm", "bf16", peak, "measured"),
        ("peak", "", "", "bf16", peak * spec, "spec"),
        ("bandwidth", "dram", "", "", dram * spec, "spec"),
        ("launch", "", "", "", launch, "measured"),
        ("vector", "", "integer", "", peak / 50, "measured"),
        ("vector", "", "fma", "", peak / 25, "measured"),
        ("clock", "", "boost", "", 2e9, "spec"),
    )[mask],
    log_uniform(1e9, 1e13),
    log_uniform(1e9, 1e13),
    log_uniform(1e9, 1e15),
    st.floats(1, 3),
    log_uniform(1e-7, 1e-4),
    st.lists(st.booleans(), min_size=9, max_size=9),
)


@settings(max_examples=settings().max_examples * 3 // 5)
@given(st.lists(CELLS, min_size=1, max_size=6), TABLES)
def test_no_cell_stands_above_its_bound_unless_impossible(rows, table):
    frame = placed(*rows, table=table)
    drawn = frame[frame["bound_class"] != ""]
    impossible = drawn["bound_class"] == Bound.IMPOSSIBLE
    for fraction in ("fraction_of_bound", "fraction_of_implemented"):
        known = ~impossible & drawn["bound_time_s"].notna()  # a re-read from a known cache has no bound by itself
        assert drawn.loc[known, fraction].between(0, 1, inclusive="right").all()
        assert drawn.loc[impossible, fraction].isna().all()
    assert (drawn.loc[impossible, "bound_note"] != "").all()
    assert not (drawn["is_flat"] & (drawn["bound_class"] == Bound.COMPUTE)).any()
    assert set(frame["bound_class"]) <= {"", *Bound}
