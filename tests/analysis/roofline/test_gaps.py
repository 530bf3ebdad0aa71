"""Gaps: the parts of a time add up to it, each is what its own limit adds, and unknown ones are nowhere."""

import math
import operator

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.analysis.roofline import place
from rooflens.analysis.roofline.bounds import Bound
from rooflens.analysis.roofline.gaps import NAMED, PARTS, STEPS, gap_totals, gaps
from rooflens.shapes.device import Device

from ..planted_frames import GEMV_BYTES, NK, ceilings, cell

DEVICE = Device(llc_bytes=32 << 20, compute_units=100)
TABLE = ceilings(
    ("bandwidth", "dram", "read", "", 4e12, "measured"),
    ("bandwidth", "llc", "read", "", 8e12, "measured"),
    ("peak", "", "gemm", "bf16", 800e12, "measured"),
    ("peak", "", "gemm", "bf16", 1000e12, "spec"),
    ("vector", "", "integer", "", 16e12, "measured"),
    ("launch", "", "empty cold", "", 2e-6, "measured"),
    ("launch", "", "tile cold", "", 2.5e-6, "measured"),
    ("clock", "", "boost", "", 2e9, "spec"),
)
PUBLISHED = pd.concat([TABLE, ceilings(("bandwidth", "dram", "", "", 4e12, "spec"))], ignore_index=True)


def of(*rows, table=TABLE) -> pd.DataFrame:
    return gaps(place(pd.DataFrame(list(rows)), table, DEVICE))


def parts_of(row, table=TABLE) -> dict[str, float]:
    found = of(row, table=table).iloc[0]
    return {part: found[f"{part}_s"] for part in PARTS}


def test_every_step_of_a_compute_bound_cell_in_closed_form():
    M = 4000
    flops = 2 * M * NK
    ideal = flops / 1000e12
    row = cell(
        3 * ideal, M=M, role="candidate", clock_hz=1.6e9, issued_flops=flops * 1.024, workgroups=150.0, resident=1.0,
        decode_per_weight=10.0, decoded_weights=float(NK),
    )  # fmt: skip
    clocked, tiled = ideal / 0.8, ideal / 0.8 * 1.024
    waved = tiled * 2 / 1.5
    expected = {
        "ideal": ideal, "clock": clocked - ideal, "tile": tiled - clocked, "wave": waved - tiled,
        "dequant": 0.0, "memory": 0.0, "schedule": math.nan, "startup": 0.5e-6, "residual": 3 * ideal - waved - 0.5e-6,
    }  # fmt: skip
    assert parts_of(row) == pytest.approx(expected, rel=1e-9, abs=1e-15, nan_ok=True)


def test_every_step_of_a_gemv_that_decodes_and_reads_again():
    # 100 MB of re-reads that the last-level cache serves
    row = cell(
        1e-4, decode_per_weight=8.0, decoded_weights=float(NK), moved_bytes=GEMV_BYTES + 100e6, workgroups=100.0,
        issued_flops=2.0 * NK * 16,
    )  # fmt: skip
    memory, decoding, again = GEMV_BYTES / 4e12, 8 * NK / 16e12, 100e6 / 8e12
    expected = {
        "ideal": memory, "clock": math.nan, "tile": 0.0, "wave": 0.0,  # they hide behind the memory
        "dequant": decoding - memory, "memory": again - decoding, "schedule": math.nan, "startup": 0.5e-6,
        "residual": 1e-4 - again - 0.5e-6,
    }  # fmt: skip
    assert parts_of(row) == pytest.approx(expected, rel=1e-9, abs=1e-15, nan_ok=True)


def test_a_peak_and_its_clock():
    """A device above its published clock gains; a measured peak alone is the ideal, and its clock is none of ours."""
    flops = 2 * 4096 * NK
    found = parts_of(cell(flops / 1000e12, M=4096, clock_hz=2.2e9))
    assert found["clock"] == pytest.approx(flops / 1100e12 - flops / 1000e12)
    measured = TABLE[(TABLE["ceiling"] != "peak") | (TABLE["kind"] == "measured")]
    found = parts_of(cell(1e-2, M=4096, clock_hz=1e9), measured)
    assert (found["ideal"], found["clock"]) == pytest.approx((flops / 800e12, math.nan), nan_ok=True)
    refuted = of(cell(1.3 * flops / 800e12, M=4096, issued_flops=10.0 * flops)).iloc[0]
    assert "tile" in refuted["unknown"]
    assert refuted["residual_s"] > 0


def test_no_part_of_a_time_is_called_like_a_class_of_cells():
    """A cell of class launch may spend most of its time on what is beyond one launch."""
    assert not set(PARTS) & set(Bound)


def test_kernels_of_one_launch_start_one_after_another_and_wait_for_each_other():
    row = cell(1e-4, kernels='["dequantize", "gemm"]', kernels_s=9.4e-5, moved_bytes=GEMV_BYTES + 160e6)
    found = parts_of(row)
    assert found["memory"] == pytest.approx(20e-6 - GEMV_BYTES / 4e12)
    assert found["startup"] == pytest.approx(2 * 0.5e-6 + 6e-6)
    # All that is known of the launch is in its bound and in its gaps alike.
    implemented = place(pd.DataFrame([row]), TABLE, DEVICE)["implemented_time_s"].iloc[0]
    assert found["residual"] == pytest.approx(1e-4 - implemented)


def test_unknown_steps_are_absent_and_named():
    found = of(cell(1e-4)).iloc[0]
    assert found["unknown"] == "clock, tile, wave, dequant"
    assert found[["clock_s", "tile_s", "wave_s", "dequant_s"]].isna().all()
    blas = of(cell(1e-4, provider="blas", role="reference")).iloc[0]
    assert blas["unknown"] == "clock, tile, wave"  # nothing to decode, and that is known
    bare = of(cell(1e-4, moved_bytes=math.nan), table=TABLE[TABLE["ceiling"] == "bandwidth"]).iloc[0]
    assert bare["unknown"] == "clock, tile, wave, dequant, memory, startup"
    assert bare["residual_s"] == pytest.approx(1e-4 - bare["ideal_s"])


def test_a_time_below_its_ideal_has_a_negative_residual_and_nothing_else():
    memory = GEMV_BYTES / 4e12
    found = of(cell(0.9 * memory, decode_per_weight=8.0, decoded_weights=float(NK)), table=PUBLISHED).iloc[0]
    assert found["bound_class"] == "impossible"
    assert found["residual_s"] == pytest.approx(-0.1 * memory)
    assert found[[f"{step}_s" for step in STEPS]].isna().all()


def test_totals_are_total_time_over_total_time_without_impossible_cells():
    memory = GEMV_BYTES / 4e12
    rows = [
        cell(4 * memory, model="a"), cell(12 * memory, model="b"), cell(0.9 * memory, model="c"),
        cell(2 * memory, provider="blas", role="reference"),
    ]  # fmt: skip
    found = gap_totals(of(*rows, table=PUBLISHED)).set_index("provider")
    mine = found.loc["simt_4bit"]
    assert (mine["cells"], mine["impossible"]) == (2, 1)
    assert mine["time_s"] == pytest.approx(16 * memory)
    assert mine["ideal_share"] == pytest.approx(2 / 16)
    assert mine["unknown"] == "clock, tile, wave, dequant"
    assert found[[f"{part}_share" for part in PARTS]].sum(axis=1).to_list() == pytest.approx([1, 1])


def test_a_step_that_is_known_of_a_part_is_told_as_such():
    rows = [cell(1e-4, model="a", decode_per_weight=8.0, decoded_weights=float(NK)), cell(3e-4, model="b")]
    (found,) = gap_totals(of(*rows)).to_dict("records")
    assert found["unknown"] == "clock, tile, wave; dequant of 75% of the time"
    assert found["dequant_share"] > 0


def test_cells_without_a_time_or_a_limit_have_no_gap():
    assert of(cell(math.nan, verdict="oom")).empty
    bare = of(cell(1e-4), table=TABLE.iloc[:0])
    assert bare.empty
    assert gap_totals(bare).empty


GEOMETRIES = st.fixed_dictionaries(
    {},
    optional={
        "issued_flops": st.floats(1e6, 1e14), "workgroups": st.integers(1, 5000).map(float),
        "resident": st.integers(1, 16).map(float), "decode_per_weight": st.floats(0, 100),
        "decoded_weights": st.floats(1e3, 1e9), "decode_integer_per_weight": st.floats(0, 100),
        "clock_hz": st.floats(1e9, 3e9),
    },
)  # fmt: skip
PROVIDED = st.fixed_dictionaries(
    {},
    optional={
        "moved_bytes": st.floats(1e3, 1e10),
        "role": st.sampled_from(["reference", "candidate", "dequant_blas"]),
        "cache": st.sampled_from(["cold", "warm"]),
        "cache_level": st.sampled_from(["dram", "llc"]),
    },
)


@settings(max_examples=settings().max_examples // 2)
@given(
    st.floats(1e-7, 1e-1),
    st.sampled_from([1, 16, 1024, 8192]),
    st.builds(operator.or_, GEOMETRIES, PROVIDED),
    st.lists(st.booleans(), min_size=len(TABLE), max_size=len(TABLE)),
    st.integers(-6, 6),
)
def test_the_parts_add_up_and_scaling_changes_no_share(seconds, M, geometry, mask, octaves):
    row, table = cell(seconds, M=M, **geometry), TABLE[mask]
    for found in of(row, table=table).to_dict("records"):
        parts = {part: found[f"{part}_s"] for part in PARTS}
        assert math.fsum(value for value in parts.values() if not math.isnan(value)) == pytest.approx(
            seconds, rel=1e-12
        )
        assert all(not value < 0 for part, value in parts.items() if part not in ("clock", "residual"))
        if parts["ideal"] <= seconds / 0.98:
            assert parts["residual"] >= -0.021 * seconds
        assert (
            found["unknown"].split(", ") == [step for step in NAMED if math.isnan(parts[step])] or not found["unknown"]
        )
    factor = 2.0**octaves
    scale = table["ceiling"].map({"launch": factor, "clock": 1.0}).astype(float).fillna(1 / factor)
    slower = of(row | {"time_s": seconds * factor}, table=table.assign(value=table["value"] * scale))
    for before, after in zip(of(row, table=table).to_dict("records"), slower.to_dict("records"), strict=True):
        assert after["bound_class"] == before["bound_class"]
        for part in PARTS:
            assert after[f"{part}_s"] / factor == pytest.approx(before[f"{part}_s"], nan_ok=True, rel=1e-9, abs=1e-18)
