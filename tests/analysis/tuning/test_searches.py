"""Drift and gain on searches that were planted by hand: who flips, what it costs, and what tuning is worth."""

import json
import math
import random

import pytest
from rooflens.analysis.tuning.searches import CELL, drift, gain, summarize_drift

from ..planted_searches import searched


def test_two_searches_that_agree_do_not_drift(frame):
    pairs = drift(frame(searched(0, {"a": 2e-6, "b": 1e-6}, "b"), searched(1, {"a": 2e-6, "b": 1.1e-6}, "b")))
    assert pairs["flipped"].tolist() == [False]
    assert pairs[["cost_first", "cost_second"]].isna().all(axis=None)
    found = summarize_drift(pairs)
    assert (found.cells, found.flipped, found.flip_share) == (1, 0, 0.0)
    assert (found.median_cost, found.worst_cost) == (None, None)
    for nothing in (frame(), frame(searched(0, {"a": None}, ""), searched(1, {"a": 1e-6}, "a"))):  # without a winner
        assert drift(nothing).empty
        assert summarize_drift(drift(nothing)).cells == 0


@pytest.mark.parametrize(
    ("first", "second", "near", "costs", "harmless"),
    [
        # A flip costs what the other winner takes longer in each search.
        ((1.0, 1.3), (1.2, 1.0), ("", ""), (1.3, 1.2), False),
        # It is harmless when both searches call it a near tie.
        ((1.0, 1.01), (1.02, 1.0), ("b", "a"), (1.01, 1.02), True),
        ((1.0, 1.01), (1.02, 1.0), ("b", ""), (1.01, 1.02), False),
        ((1.0, 1.01), (1.02, 1.0), ("", "a"), (1.01, 1.02), False),
        # It costs nothing in a search that finds the other winner faster, as noise can keep the default.
        ((1.01, 1.0), (1.5, 1.0), ("b", ""), (1.0, 1.5), False),
        ((4.03, 1.0), (1.001, 1.0), ("b", "a"), (1.0, 1.001), True),
        # A winner without a time in the other search: its cost is unknown.
        ((1.0, None), (1.5, 1.0), ("", ""), (math.nan, 1.5), False),
    ],
)
def test_what_a_flip_costs(frame, first, second, near, costs, harmless):
    """Of a search that chose "a" and one that chose "b"; times in us."""

    def us(a, b):
        return {"a": 1e-6 * a, "b": b and 1e-6 * b}

    pairs = drift(frame(searched(0, us(*first), "a", near[0]), searched(1, us(*second), "b", near[1])))
    (pair,) = pairs.to_dict("records")
    assert pair["flipped"]
    assert (json.loads(pair["first_config"]), json.loads(pair["second_config"])) == ({"tile": "a"}, {"tile": "b"})
    logs = [math.log(cost) for cost in costs]
    assert [pair["cost_first"], pair["cost_second"]] == pytest.approx(logs, nan_ok=True)
    assert pair["harmless"] is harmless
    found = summarize_drift(pairs)
    assert found.opposed == pair["opposed"] == (min(costs) > 1), "each search finds its own winner faster"
    known = [cost for cost in logs if not math.isnan(cost)]
    assert (found.flipped, found.harmless, found.flip_share) == (1, harmless, 1.0)
    assert (found.median_cost, found.worst_cost) == pytest.approx((sum(known) / len(known), max(known)))


def test_cells_are_votes_and_three_searches_are_three_pairs(frame):
    times = {"a": 1e-6, "b": 1e-6}
    table = frame(
        *(searched(number, times, winner) for number, winner in enumerate("aab")),
        *(searched(number, times, "a", cell="c1", M=2) for number in range(2)),
        *(searched(number, times, "ab"[number], cell="c2", M=4) for number in range(2)),
        searched(0, times, "b", cell="c3", M=8),
    )
    pairs = drift(table)
    assert [(row["M"], row["first"], row["second"], row["flipped"]) for row in pairs.to_dict("records")] == [
        (1, 0, 1, False), (1, 0, 2, True), (1, 1, 2, True), (2, 0, 1, False), (4, 0, 1, True),
    ]  # fmt: skip
    found = summarize_drift(pairs)
    assert (found.cells, found.flipped) == (3, 2)
    assert found.flip_share == pytest.approx(2 / 3)


@pytest.mark.parametrize("column", [name for name in CELL if name not in ("op", "pass", "arch")])
def test_searches_of_different_cells_are_never_compared(frame, column):
    other = {"compute_units": 114, "B": 2, "E": 2, "top_k": 2, "M": 2, "N": 8, "K": 8, "dtype": "fp16",
             "scheme": "fp4-g64",
             "provider": "mma_4bit", "cache": "warm", "source": "t"}[column]  # fmt: skip
    table = frame(searched(0, {"a": 1e-6, "b": 2e-6}, "a"), searched(1, {"a": 1e-6, "b": 2e-6}, "b", **{column: other}))
    assert drift(table).empty
    # A suite may name one GEMM under two models, and two runs give one cell two ids: it is one cell.
    same = frame(searched(0, {"a": 1e-6, "b": 2e-6}, "a"), searched(0, {"a": 2e-6, "b": 1e-6}, "b", cell="c1"))
    assert summarize_drift(drift(same)).flip_share == 1.0


def test_gain_is_the_geometric_mean_over_cells(frame):
    table = frame(
        searched(0, {"a": 2e-6, "b": 1e-6}, "b"),
        searched(0, {"a": 8e-6, "b": 1e-6, "c": 1e-6}, "b", ("c",), cell="c1", M=2),
        searched(0, {"a": 3e-6, "b": 4e-6}, "a", cell="c2", M=4, provider="mma_4bit"),
    )
    tri, mma = gain(table).to_dict("records")
    assert tri["provider"] == "tri"
    assert tri["gain"] == pytest.approx(4.0)
    assert math.isnan(tri["gain_checked"])
    assert (tri["cells"], tri["searches"], tri["tried"], tri["changed"], tri["near_ties"]) == (2, 2, 5, 2, 1)
    assert tri["seconds"] == 4.0
    assert (mma["gain"], mma["changed"]) == (1.0, 0)


def test_a_gain_that_was_luck_does_not_survive_the_check(frame):
    """Each search's winner looks 10 % faster than the default where it was chosen, and 5 % slower in the other."""
    table = frame(
        searched(0, {"a": 1.1e-6, "b": 1.0e-6, "c": 1.155e-6}, "b"),
        searched(1, {"a": 1.1e-6, "b": 1.155e-6, "c": 1.0e-6}, "c"),
    )
    (row,) = gain(table).to_dict("records")
    assert row["gain"] == pytest.approx(1.1)
    assert row["gain_checked"] == pytest.approx(1 / 1.05)


def test_the_checked_gain_of_pure_noise_is_one(frame):
    """Forty cells of ten identical kernels under 3 % noise, the least time chosen: the gain is flattered, the check is
    not. The least of ten is 1.54 standard deviations below the mean (the expected minimum of ten normal values).
    """
    rng = random.Random(3)
    tables = []
    for cell in range(40):
        for number in range(2):
            times = {f"c{at}": 1e-6 * math.exp(rng.gauss(0, 0.03)) for at in range(10)}
            tables.append(searched(number, times, min(times, key=times.get), cell=f"c{cell}", M=cell + 1))
    (row,) = gain(frame(*tables)).to_dict("records")
    assert math.log(row["gain"]) == pytest.approx(1.54 * 0.03, abs=0.012)
    assert math.log(row["gain_checked"]) == pytest.approx(0, abs=0.012)


def test_a_default_that_failed_leaves_its_cell_out_of_the_gain(frame):
    table = frame(searched(0, {"a": None, "b": 1e-6}, "b"), searched(0, {"a": 2e-6, "b": 1e-6}, "b", cell="c1", M=2))
    (row,) = gain(table).to_dict("records")
    assert (row["gain"], row["excluded"], row["cells"]) == (pytest.approx(2.0), 1, 2)


def test_what_nothing_works_for_is_told_apart_from_what_is_unsupported(frame):
    table = frame(
        searched(0, {"a": None, "b": None}, ""),
        searched(0, {"": None}, None, cell="c1", M=2, verdict="unsupported", reason="needs a GPU"),
    )
    (row,) = gain(table).to_dict("records")
    assert (row["cells"], row["failed"], row["unsupported"], row["tried"]) == (0, 1, 1, 2)
    assert math.isnan(row["gain"])
    assert gain(frame()).empty
