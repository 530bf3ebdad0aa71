"""Each limit in closed form: a cell that takes exactly as long gets its class, and stands at its bound."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest
from rooflens.analysis.roofline import place, roofline_warnings
from rooflens.analysis.roofline.roofs import roofs
from rooflens.shapes.device import Device

from ..planted_frames import GEMV_BYTES, GEOMETRY, NF4, NK, K, N, ceilings, cell

DEVICE = Device(llc_bytes=32 << 20, compute_units=100, name="a device", arch="none")

TABLE = ceilings(
    ("bandwidth", "dram", "read", "", 4e12, "measured"),
    ("bandwidth", "llc", "read", "", 8e12, "measured"),
    ("bandwidth", "l2", "read", "", 16e12, "measured"),
    ("peak", "", "gemm", "bf16", 800e12, "measured"),
    ("peak", "", "gemm", "bf16", 1000e12, "spec"),
    ("vector", "", "integer", "", 16e12, "measured"),
    ("vector", "", "fma", "", 32e12, "measured"),
    ("vector", "", "fma", "", 33e12, "derived"),
    ("launch", "", "empty warm", "", 1.5e-6, "measured"),
    ("launch", "", "empty cold", "", 2e-6, "measured"),
    ("launch", "", "tile warm", "", 1.8e-6, "measured"),
    ("launch", "", "tile cold", "", 2.4e-6, "measured"),
    ("latency", "dram", "", "", 500e-9, "measured"),
    ("clock", "", "boost", "", 2e9, "spec"),
)
NO_VECTOR = TABLE[TABLE["ceiling"] != "vector"]
DECODED = {"decode_per_weight": 20.0, "decoded_weights": float(NK)}
FLOPS = 2 * 4096 * NK
"""Of a square GEMM of 4096 rows."""
NO_FILL = TABLE[~TABLE["pattern"].str.startswith("tile")]


def one(row, table=TABLE, device=DEVICE) -> pd.Series:
    return place(pd.DataFrame([row]), table, device).iloc[0]


RATE = {"dram": 4e12, "llc": 8e12, "l2": 16e12}
WIDE = 4 * NF4 + 2 * (4 * N + K)
"""Bytes of a GEMV with four times as many columns: they fit into the cache."""


@pytest.mark.parametrize(
    "limit, seconds, what",
    [
        ("dram", WIDE / 4e12, {"N": 4 * N}),
        ("llc", WIDE / 8e12, {"N": 4 * N, "cache": "warm", "cache_level": "llc"}),
        ("l2", WIDE / 16e12, {"N": 4 * N, "cache": "warm", "cache_level": "l2"}),
        ("compute", FLOPS / 800e12, {"M": 4096}),  # the best measured GEMM, not the published peak
        ("compute", 128 * 2 * NK / 800e12, {"M": 72, "issued_flops": 128 * 2.0 * NK}),  # 72 of 128 rows
        ("compute", 2 / 1.01 * FLOPS / 800e12, {"M": 4096, "workgroups": 101.0, "resident": 1.0}),  # a second wave
        ("launch", 1.5e-6, {"N": 64, "K": 64}),
        ("alu", 20 * NK / 32e12, DECODED),  # the best of both vector rates
        ("alu", 80 * NK / 32e12, DECODED | {"M": 64, "decoded_weights": 4.0 * NK}),  # again for 4 rows of tiles
    ],
)
def test_a_cell_that_takes_exactly_as_long_as_its_limit(limit, seconds, what):
    row = cell(seconds, **what)
    found = one(row, NO_FILL, replace(DEVICE, llc_bytes=64 << 20))
    assert found["bound_class"] == limit
    assert found["implemented_time_s"] == pytest.approx(seconds)
    assert found["fraction_of_implemented"] == pytest.approx(1)
    problem = max(row["compulsory_bytes"] / RATE[row["cache_level"]], row["flops"] / 800e12, 1.5e-6)
    assert found["fraction_of_bound"] == pytest.approx(problem / seconds)  # the yardstick neither decodes nor pads
    assert found["compute_spec_time_s"] == pytest.approx(row["flops"] / 1000e12)


A100 = replace(DEVICE, arch="sm80")
"""It issues 128 lanes per clock, of which fp32 units take 64 and integer ones 64."""
HALVES = pd.concat(
    [
        NO_VECTOR,
        ceilings(("vector", "", "fma", "", 16e12, "measured"), ("vector", "", "integer", "", 15.9e12, "measured")),
    ],
    ignore_index=True,
)


@pytest.mark.parametrize(
    "table, device, integer, seconds, ceiling",
    [
        (TABLE, DEVICE, 12.0, 12 * NK / 16e12, "integer vector (measured: test)"),  # 0.75 as long as all 20 if alike
        (TABLE, DEVICE, 10.1, 10.1 * NK / 16e12, "integer vector (measured: test)"),
        (TABLE, DEVICE, 9.9, 20 * NK / 32e12, "fma vector (measured: test)"),
        (TABLE[TABLE["pattern"] != "integer"], DEVICE, 20.0, 20 * NK / 32e12, "fma vector (measured: test)"),
        (TABLE[TABLE["value"] != 32e12], DEVICE, 20.0, 20 * NK / 16e12, "integer vector (measured: test)"),
        (TABLE[~TABLE["value"].isin([16e12, 32e12])], DEVICE, 20.0, 20 * NK / 33e12, "fma vector (derived: test)"),
        (HALVES, DEVICE, 10.0, 20 * NK / 16e12, "fma vector (measured: test)"),
        (HALVES, A100, 10.0, 10 * NK / 15.9e12, "integer vector (measured: test)"),
        (HALVES, A100, 5.0, 20 * NK / 32e12, "vector issue (derived: 2 x fma vector (measured: test)"),
    ],
)
def test_instructions_wait_for_the_slower_of_their_units(table, device, integer, seconds, ceiling):
    what = DECODED | {"decode_integer_per_weight": integer}
    for workgroups, factor in ((math.nan, 1), (50.0, 2)):  # on half of the units
        found = one(cell(1e-3, **what, workgroups=workgroups), table, device)
        assert found["alu_time_s"] == pytest.approx(factor * seconds)
        assert found["alu_ceiling"].startswith(ceiling)


def test_an_integer_share_that_is_refuted_leaves_what_is_issued():
    what = DECODED | {"decode_integer_per_weight": 20.0}
    found = one(cell(1.5 * 20 * NK / 32e12, **what))  # at the integer rate they take twice as long
    assert found["refuted"] == "decoding"
    assert found["alu_time_s"] == pytest.approx(20 * NK / 32e12)
    assert found["bound_class"] == "alu"
    faster = one(cell(0.5 * 20 * NK / 32e12, **what))
    assert math.isnan(faster["alu_time_s"])


def test_both_rates_of_vector_units_are_roofs_with_what_they_bound():
    integer = cell(15 * NK / 16e12, **DECODED, decode_integer_per_weight=15.0)
    rows = [cell(20 * NK / 32e12, **DECODED), integer, integer, cell(1e-3, M=4096)]
    found = roofs(place(pd.DataFrame(rows), NO_FILL, DEVICE), NO_FILL, DEVICE)
    vector = found.loc[found["what"] == "vector", ["roof", "value", "cells", "bounds"]]
    assert vector.values.tolist() == [["fma vector", 32e12, 3, 1], ["integer vector", 16e12, 2, 2]]
    uncounted = roofs(place(pd.DataFrame(rows[:1]), NO_FILL, DEVICE), NO_FILL, DEVICE)
    assert uncounted.loc[uncounted["what"] == "vector", "roof"].tolist() == ["fma vector"]


@pytest.mark.parametrize(
    "workgroups, resident, waves, factor",
    [
        (101.0, 1.0, 1.01, 2 / 1.01),
        (25.0, 1.0, 0.25, 4),  # three quarters of the units have nothing to do
        (100.0, 8.0, 0.125, 1),  # idle slots idle no unit
    ],
)
def test_workgroups_share_the_units(workgroups, resident, waves, factor):
    found = one(cell(1.0, M=4096, workgroups=workgroups, resident=resident))
    assert found["mma_time_s"] == pytest.approx(factor * FLOPS / 800e12)
    assert found["waves"] == pytest.approx(waves)


def test_fill_is_the_tile_less_the_empty_launch_of_the_same_cache_state():
    memory = GEMV_BYTES / 4e12
    cold = one(cell(memory + 0.4e-6))
    assert cold[["fill_time_s", "bound_time_s"]].tolist() == pytest.approx([0.4e-6, memory])
    assert cold["implemented_time_s"] == pytest.approx(memory + 0.4e-6)
    assert one(cell(1e-3, cache="warm", cache_level="llc"))["fill_time_s"] == pytest.approx(0.3e-6)
    launch = one(cell(2e-6, N=64, K=64))  # max(T_launch, T_fill + ...): nothing is filled on top of a launch
    assert launch["implemented_time_s"] == pytest.approx(1.5e-6)
    slow_tile = ceilings(
        ("launch", "", "tile cold", "", 1e-6, "measured"), ("launch", "", "empty cold", "", 2e-6, "measured")
    )
    assert one(cell(1e-3), slow_tile)["fill_time_s"] == 0  # noise: a tile takes no less than nothing


def test_workgroups_that_a_unit_runs_one_after_another():
    """250 workgroups on 100 units that hold two: three on the busiest, in two turns of 3000 clocks and 4 answers."""
    what = {"workgroups": 250.0, "resident": 2.0, "schedule_clocks": 3000.0, "memory_waits": 4.0}
    turn = 3000 / 1.5e9 + 4 * 500e-9
    found = one(cell(1.5e-6 + 2 * turn, N=64, K=64, clock_hz=1.5e9, **what))
    assert found["bound_class"] == "latency"
    assert found["latency_time_s"] == pytest.approx(1.5e-6 + 2 * turn)
    assert found["implemented_time_s"] == pytest.approx(found["time_s"])
    at_published_clock = one(cell(1e-3, **what))
    assert at_published_clock["latency_time_s"] == pytest.approx(1.5e-6 + 2 * (3000 / 2e9 + 4 * 500e-9))
    unmeasured = TABLE[TABLE["ceiling"] != "latency"]
    assert math.isnan(one(cell(1e-3, **what), unmeasured)["latency_time_s"])


def test_the_other_kernels_of_a_launch_run_before_or_after_the_main_one():
    table = pd.concat([TABLE, ceilings(("latency", "llc", "", "", 200e-9, "measured"))])
    others = {"other_clocks": 3000.0, "other_waits": 4.0, "clock_hz": 1.5e9}
    beside = 3000 / 1.5e9 + 4 * 200e-9
    assert one(cell(1e-3, **others), table)["latency_time_s"] == pytest.approx(1.5e-6 + beside)
    main = {"workgroups": 100.0, "schedule_clocks": 6000.0, "memory_waits": 1.0}
    alone = 1.5e-6 + 6000 / 1.5e9 + 500e-9
    assert one(cell(1e-3, **main, **others), table)["latency_time_s"] == pytest.approx(alone + beside)


def test_a_schedule_that_is_little_longer_than_the_cell_is_right():
    what = {"workgroups": 100.0, "schedule_clocks": 20e3, "memory_waits": 0.0, "N": 64, "K": 64}
    model = 1.5e-6 + 20e3 / 2e9
    assert one(cell(model / 1.09, **what))["latency_time_s"] == pytest.approx(model / 1.09)
    assert math.isnan(one(cell(model / 1.13, **what))["latency_time_s"])


def test_the_busiest_pipe_serves_all_workgroups_of_a_unit():
    found = one(cell(1e-3, workgroups=250.0, pipe_clocks=4000.0, pipe="integer"))
    assert found["alu_time_s"] == pytest.approx(3 * 4000 / 2e9)
    assert found["alu_ceiling"].startswith("the busiest pipe")
    both = one(cell(1e-3, workgroups=200.0, pipe_clocks=4000.0, **DECODED))
    assert both["alu_time_s"] == pytest.approx(20 * NK / 32e12)  # the longer of both


def test_each_kernel_of_a_launch_starts_and_what_lies_between_them_is_seen():
    what = {"N": 64, "K": 64, "kernels": '["a", "b", "a"]', "kernels_s": 8e-6}
    found = one(cell(12e-6, **what))
    assert found["between_kernels_s"] == pytest.approx(4e-6)
    assert found["launches_time_s"] == pytest.approx(3 * 1.5e-6 + 4e-6)
    assert found["fill_time_s"] == pytest.approx(3 * 0.4e-6)
    assert found["bound_class"] == "launch"
    assert found["bound_time_s"] == found["launch_time_s"] == 1.5e-6  # the yardstick: one launch
    named_one = one(cell(12e-6, **what | {"kernels": '["dequantize"]'}))  # what lies between kernels proves two
    assert named_one["launches_time_s"] == pytest.approx(2 * 1.5e-6 + 4e-6)
    assert named_one["fill_time_s"] == pytest.approx(2 * 0.4e-6)
    unseen = one(cell(12e-6, **what | {"kernels_s": math.nan}))
    assert (unseen["launches_time_s"], unseen["between_kernels_s"]) == (1.5e-6, 0)
    for time_s, kernels_s in ((12e-6, 12e-6 - 1e-15), (123.46e-6, 123.457e-6)):  # rounding is no pause
        assert one(cell(time_s, **what | {"kernels_s": kernels_s}))["between_kernels_s"] == 0


NVJET = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
FP8_NVJET = "nvjet_sm90_qqtst_128x128_128x6_4x1_v_bz_coopA_algo2_Ablk128_Bvec128_TNN"
READ_S = (64 + 8) * 2048 * 2 / 128 / 1.5e9
"""Operands of a tile of 64 x 8 with K = 2048 in 16 bits, out of shared memory at 1.5 GHz."""


@pytest.mark.parametrize(
    "kernels, K, gemms, read_s",
    [
        ([NVJET], 2048, 1, READ_S),
        ([NVJET], 2048 - 63, 1, READ_S),  # whole steps of 64
        ([NVJET.replace("tst", "hsh")], 2048, 1, READ_S),  # fp16
        (["dequantize", NVJET, NVJET], 2048, 2, 2 * READ_S),
        ([NVJET.replace("bz", "bz_splitK"), "splitKreduce"], 2048, 1, 0),
        ([NVJET.replace("64x8_", "256x64_")], 2048, 1, READ_S * (256 + 4 * 64) / (64 + 8)),  # 64 rows at a time
        ([NVJET.replace("64x8_", "96x64_")], 2048, 1, READ_S * (64 + 96) / (64 + 8)),  # those of the other side
        ([FP8_NVJET], 2048, 1, READ_S * (128 + 2 * 128) / (64 + 8) / 2),
    ],
)
def test_a_gemm_of_cublas_takes_what_one_of_its_tiles_takes(kernels, K, gemms, read_s):
    model = gemms * (1.5e-6 + 500e-9) + read_s
    what = {"N": 64, "K": K, "clock_hz": 1.5e9, "kernels": json.dumps(kernels)}
    found = one(cell(model, **what))
    assert found["latency_time_s"] == pytest.approx(model)
    assert found["bound_class"] == "latency"
    assert one(cell(3 * model, **what))["bound_class"] == "unexplained"  # another 3 x slower is not explained


def test_a_step_contracts_at_least_its_shortest_dimension():
    what = {"op": "gemm", "pass": "step", "M": 128, "N": 640, "K": 2048, "clock_hz": 1.5e9, "kernels": f'["{NVJET}"]'}
    assert one(cell(1e-3, **what))["latency_time_s"] == pytest.approx(2e-6 + READ_S * 128 / 2048)
    for name in ("gemm", "nvjet_sm100_tst_64x8_64x16", "nvjet_sm90_tss_64x8_64x16_4x1_v_bz_TNT"):
        assert math.isnan(one(cell(1e-3, kernels=f'["{name}"]'))["latency_time_s"])


KERNELS = {"kernels": '["dequantize", "gemm"]', "moved_bytes": GEMV_BYTES + 160e6}
"""Two kernels that read 160 MB again: 20 us at the bandwidth of the last-level cache, 0.8 us to fill and drain both."""


def test_nothing_moves_while_no_kernel_runs():
    found = one(cell(25.8e-6, **KERNELS, kernels_s=20.8e-6))
    assert found["between_kernels_s"] == pytest.approx(5e-6)
    assert found["implemented_time_s"] == pytest.approx(found["time_s"])
    assert found["bound_class"] == "llc"  # 20.8 us of reads beside 8 us of launches and what lies between them
    assert one(cell(45.8e-6, **KERNELS, kernels_s=20.8e-6))["bound_class"] == "launch"
    schedule = {"workgroups": 100.0, "resident": 1.0, "schedule_clocks": 58e3, "memory_waits": 0.0}
    waiting = one(cell(35.5e-6, **KERNELS, kernels_s=30.5e-6, **schedule))
    assert (waiting["bound_class"], waiting["latency_time_s"]) == ("latency", pytest.approx(30.5e-6))
    assert waiting["implemented_time_s"] == pytest.approx(waiting["time_s"])


def test_a_model_that_takes_longer_than_the_kernels_ran_is_refuted():
    found = one(cell(25e-6, **KERNELS, kernels_s=15e-6))
    assert found["refuted"] == "moved bytes"
    assert one(cell(25e-6, **KERNELS))["refuted"] == ""  # a timer that sees no kernels refutes less


def test_the_roof_at_the_observed_clock():
    found = one(cell(1e-3, M=512, clock_hz=1.5e9))
    assert found["clock_ratio"] == pytest.approx(0.75)
    assert found["compute_clock_time_s"] == pytest.approx(2 * 512 * NK / 750e12)
    assert math.isnan(one(cell(1e-3))["compute_clock_time_s"])


def test_the_published_clock_comes_from_the_device_table_where_no_ceiling_tells_it():
    table = TABLE[TABLE["ceiling"] != "clock"]
    assert math.isnan(one(cell(1e-3, clock_hz=1.5e9), table)["clock_ratio"])
    h200 = replace(DEVICE, name="NVIDIA H200", arch="sm90")
    assert one(cell(1e-3, clock_hz=1.83e9), table, h200)["clock_ratio"] == pytest.approx(1)


def test_a_device_above_its_published_clock_is_not_impossible():
    seconds = FLOPS / 1150e12  # 15 % above the published peak
    assert one(cell(seconds, M=4096))["bound_class"] == "impossible"
    assert one(cell(seconds, M=4096, clock_hz=2.4e9))["bound_class"] == "compute"
    assert one(cell(seconds, M=4096, clock_hz=1.2e9))["bound_class"] == "impossible"


@pytest.mark.parametrize(
    "what, word",
    [
        ({"issued_flops": 1e15}, "tile and wave"),
        ({"workgroups": 1.0, "M": 1024}, "tile and wave"),
        (DECODED | {"decode_per_weight": 1e3}, "decoding"),
        ({"moved_bytes": 1e12}, "moved bytes"),
        ({"workgroups": 100.0, "schedule_clocks": 1e9, "memory_waits": 1.0}, "schedule"),
        ({"workgroups": 100.0, "pipe_clocks": 1e9}, "schedule"),
    ],
)
def test_what_takes_longer_than_the_cell_is_refuted_and_said(what, word):
    seconds = 1.2 * max((NF4 + 4096 * 4 * what.get("M", 1)) / 4e12, 2 * what.get("M", 1) * NK / 800e12)
    plain, found = one(cell(seconds, M=what.get("M", 1))), one(cell(seconds, **what))
    assert (plain["refuted"], found["refuted"]) == ("", word)
    assert found["implemented_time_s"] == pytest.approx(plain["implemented_time_s"])
    assert found["bound_class"] == plain["bound_class"]


def test_a_kernel_that_hides_its_fill():
    found = one(cell(1.01 * GEMV_BYTES / 4e12))
    assert (found["refuted"], found["fill_time_s"]) == ("fill", 0)
    assert found["fraction_of_implemented"] == pytest.approx(1 / 1.01)


def test_runs_that_stored_no_geometry_have_the_limits_that_they_had():
    rows = pd.DataFrame([cell(1e-4), cell(1e-3, M=2048)])
    with_columns = place(rows, TABLE, DEVICE)
    without = place(rows.drop(columns=[*GEOMETRY, "clock_hz"]), TABLE, DEVICE)
    pd.testing.assert_frame_equal(without, with_columns[without.columns])
    assert without["alu_time_s"].isna().all()


def test_padded_work_that_stays_the_same_is_no_launch_floor():
    """Two to eight rows in a tile of 128 take what 128 take: flat, and the matrix units all the same."""
    flops = 2 * 128 * NK
    rows = [cell(1.05 * flops / 800e12, M=M, N=N, K=K, issued_flops=float(flops)) for M in (32, 64, 128)]
    fast = TABLE.assign(value=TABLE["value"].where(TABLE["ceiling"] != "bandwidth", 1e15))
    frame = place(pd.DataFrame(rows), fast, DEVICE)
    assert frame["is_flat"].all()
    assert frame["bound_class"].tolist() == ["compute"] * 3
    unknown = place(pd.DataFrame(rows).assign(issued_flops=math.nan), fast, DEVICE)
    assert "compute" not in set(unknown["bound_class"])


def test_a_floor_that_one_shape_shows_holds_for_shapes_with_too_few_M():
    flat = [cell(9e-6, M=M, N=512, K=512) for M in (1, 2, 4)]
    short, longer = cell(9.5e-6, M=2, N=1024, K=512), cell(11e-6, M=2, N=2048, K=512)
    other = cell(9.5e-6, M=2, N=1024, K=512, provider="another")
    faster = cell(7e-6, M=1, N=1024, K=512)  # took another path: the floor of nine is not its own
    frame = place(pd.DataFrame([*flat, short, longer, other, faster]), TABLE, DEVICE)
    assert frame["bound_class"].tolist() == [*["launch"] * 4, *["unexplained"] * 3]


def test_a_cell_at_the_launch_floor_is_not_compute_bound():
    is_low = (TABLE["ceiling"] == "peak") & (TABLE["kind"] == "measured")
    low = TABLE.assign(value=TABLE["value"].where(~is_low, 1e12))
    flops = 2 * 64 * 64 * 64 * 4
    assert flops / 1e12 > 1.1 * 1.5e-6  # compute is the longest limit, but an empty launch takes as long as the cell
    assert one(cell(1.6e-6, M=256, N=64, K=64), low)["bound_class"] == "launch"
    assert one(cell(2.2e-6, M=256, N=64, K=64), low)["bound_class"] == "compute"


def test_what_is_unknown_is_said_once():
    rows = [cell(1e-3, **DECODED), cell(1e-3, M=64)]

    def told(rows, table):
        every = roofline_warnings(place(pd.DataFrame(rows), table, DEVICE), table, DEVICE)
        return [text for text in every if text.startswith(("no vector rate", "limits leave out"))]

    vector, _ = told(rows, NO_FILL[NO_FILL["ceiling"] != "vector"])
    assert vector.endswith("decoding limits no cell here; rooflens calibrate measures it")
    known = {"clock_hz": 2e9, "issued_flops": 2.0 * NK, "workgroups": 100.0}
    assert told([rows[0] | known, rows[1]], TABLE) == []


def test_every_roof_has_its_kind_and_source():
    frame = place(pd.DataFrame([cell(1e-3, clock_hz=1.5e9), cell(1e-3, M=512, clock_hz=1.5e9)]), TABLE, DEVICE)
    found = roofs(frame, TABLE, DEVICE)
    peaks = found[found["what"] == "peak"].set_index("kind")
    assert peaks["value"].to_dict() == {"spec": 1000e12, "derived": 750e12, "measured": 800e12}
    assert peaks.loc["derived", "source"].startswith("bf16 gemm peak x 0.750, the observed over the published clock")
    assert peaks["cells"].to_dict() == {"spec": 0, "derived": 0, "measured": 2}
    assert (found["source"] != "").all()
    assert set(found["what"]) == {"bandwidth", "peak", "clock", "vector", "launch", "fill"}
    assert roofs(frame, TABLE.iloc[:0], DEVICE).empty


def test_patterns_that_share_a_ceiling_share_its_row():
    frame = place(pd.DataFrame([cell(1e-3), cell(1e-3, M=4096)]), TABLE, DEVICE)  # a GEMV reads, a GEMM writes as well
    found = roofs(frame, TABLE, DEVICE)
    memory = found[found["what"] == "bandwidth"]
    assert memory[["roof", "cells"]].values.tolist() == [["dram read bandwidth", 2]]
