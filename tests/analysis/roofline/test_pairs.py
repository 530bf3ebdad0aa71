"""Cold and warm: each on its own level's roof, and what cold costs."""

import math

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.roofline import place
from rooflens.analysis.roofline.pairs import pair_means, pairs
from rooflens.shapes.device import Device

from ..planted_frames import GEMV_BYTES as BYTES
from ..planted_frames import ceilings, cell

DEVICE = Device(llc_bytes=32 << 20)
TABLE = ceilings(
    ("bandwidth", "dram", "read", "", 50e9, "measured"),
    ("bandwidth", "llc", "read", "", 200e9, "measured"),
    ("peak", "", "gemm", "bf16", 4e12, "measured"),
    ("bandwidth", "dram", "", "", 55e9, "spec"),
    ("launch", "", "empty warm", "", 2e-6, "measured"),
)


def both(cold_s, warm_s, level="llc", **what):
    return [cell(cold_s, **what), cell(warm_s, cache="warm", cache_level=level, **what)]


def found(*rows) -> pd.DataFrame:
    return pairs(place(pd.DataFrame(list(rows)), TABLE, DEVICE))


def test_each_state_stands_on_the_roof_of_its_own_level():
    (row,) = found(*both(2 * BYTES / 50e9, 4 * BYTES / 200e9)).to_dict("records")
    assert (row["cold_level"], row["warm_level"]) == ("dram", "llc")
    assert row["cold_fraction"] == pytest.approx(0.5)
    assert row["warm_fraction"] == pytest.approx(0.25)
    assert row["ratio"] == pytest.approx(2)
    assert row["roof_ratio"] == pytest.approx(4)
    assert row["cost_s"] == pytest.approx(2 * BYTES / 50e9 - 4 * BYTES / 200e9)
    assert row["reason"] == ""


def test_only_cells_with_both_times_are_pairs_and_every_coordinate_counts():
    rows = [
        *both(4e-4, 2e-4, M=1), cell(4e-4, M=2), *both(4e-4, math.nan, M=4, verdict="oom"),
        cell(4e-4, M=8), cell(2e-4, M=8, cache="warm", cache_level="llc", provider="another"),
    ]  # fmt: skip
    assert found(*rows)["M"].tolist() == [1]
    assert found(cell(4e-4)).empty
    assert pair_means(found(cell(4e-4))).empty


@pytest.mark.parametrize("name", ["timer", "tuning"])
@pytest.mark.parametrize("cold, warm", [("one", "two"), ("mixed", "mixed")])
def test_times_that_were_taken_differently_have_no_ratio(name, cold, warm):
    rows = both(4e-4, 2e-4)
    rows[0][name], rows[1][name] = cold, warm
    (row,) = found(*rows).to_dict("records")
    assert np.isnan([row["ratio"], row["cost_s"]]).all()
    assert row["reason"] == f"measured with a different {name}: use one for both"
    assert row["cold_fraction"] > 0
    assert pair_means(found(*rows)).empty


def test_what_does_not_fit_in_a_cache_is_said():
    (row,) = found(*both(4e-4, 3.9e-4, level="dram")).to_dict("records")
    assert row["roof_ratio"] == pytest.approx(1)
    assert row["reason"] == "does not fit in a cache: warm reads from memory as well"
    assert row["ratio"] == pytest.approx(4 / 3.9)


@pytest.mark.parametrize(
    ("warm", "high", "apart"),
    [(3e-4, 3.5e-4, True), (3e-4, 4e-4, False), (3e-4, math.nan, False), (5e-4, 5.5e-4, True)],  # warm may be slower
)
def test_times_are_told_apart_by_their_intervals(warm, high, apart):
    rows = both(4e-4, warm, time_low_s=3.9e-4, time_high_s=4.1e-4)
    rows[1] |= {"time_low_s": warm - 1e-5, "time_high_s": high}
    (pair,) = found(*rows).to_dict("records")
    assert (pair["ratio"], pair["told_apart"]) == (pytest.approx(4e-4 / warm), apart)


def test_means_are_geometric_and_per_level():
    rows = [*both(4e-4, 1e-4, M=1), *both(4e-4, 4e-4, M=2), *both(4e-4, 2e-4, M=4, level="dram")]
    means = pair_means(found(*rows)).set_index("warm_level")
    assert means["pairs"].to_dict() == {"llc": 2, "dram": 1}
    assert means["ratio"].to_dict() == pytest.approx({"llc": 2, "dram": 2})


def test_an_impossible_side_has_no_fraction_and_no_ratio():
    rows = found(*both(0.5 * BYTES / 50e9, 1e-4), *both(4e-4, 2e-4, M=2))
    assert rows["cold_class"].tolist()[0] == "impossible"
    assert rows[["cold_fraction", "ratio"]].iloc[0].isna().all()
    assert "faster than the device allows" in rows["reason"][0]
    assert pair_means(rows)[["pairs", "ratio"]].values.tolist() == [[1, pytest.approx(2)]]
