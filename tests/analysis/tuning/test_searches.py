"""Drift and gain on searches that were planted by hand: who flips, what it costs, and what tuning is worth."""

import json
import math
import random

import pandas as pd
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


def test_a_flip_costs_what_the_other_winner_takes_longer_in_each_search(frame):
    first = searched(0, {"a": 1.0e-6, "b": 1.3e-6}, "a")
    second = searched(1, {"a": 1.2e-6, "b": 1.0e-6}, "b")
    (pair,) = drift(frame(first, second)).to_dict("records")
    assert pair["flipped"]
    assert pair["first_config"] == json.dumps({"tile": "a"})
    assert pair["cost_first"] == pytest.approx(math.log(1.3))
    assert pair["cost_second"] == pytest.approx(math.log(1.2))
    assert not pair["harmless"]
    found = summarize_drift(drift(frame(first, second)))
    assert found.median_cost == pytest.approx(math.log(1.3 * 1.2) / 2)
    assert found.worst_cost == pytest.approx(math.log(1.3))
    assert (found.flip_share, found.harmless) == (1.0, 0)


@pytest.mark.parametrize(("near", "harmless"), [((("b",), ("a",)), 1), ((("b",), ()), 0), (((), ("a",)), 0)])
def test_a_flip_is_harmless_when_both_searches_call_it_a_near_tie(frame, near, harmless):
    table = frame(
        searched(0, {"a": 1.0e-6, "b": 1.01e-6}, "a", near[0]), searched(1, {"a": 1.02e-6, "b": 1e-6}, "b", near[1])
    )
    assert summarize_drift(drift(table)).harmless == harmless


def test_a_flip_costs_nothing_in_a_search_that_finds_the_other_winner_faster(frame):
    table = frame(searched(0, {"a": 1.01e-6, "b": 1e-6}, "a", ("b",)), searched(1, {"a": 1.5e-6, "b": 1e-6}, "b"))
    (pair,) = drift(table).to_dict("records")
    assert pair["cost_first"] == 0
    assert pair["cost_second"] == pytest.approx(math.log(1.5))
    assert not pair["opposed"]


def test_a_default_that_noise_kept_at_four_times_the_time_costs_nothing_rather_than_minus_75_percent(frame):
    """One search could not prove that "b" is faster, although its median is a quarter; the other sees a tie."""
    first = searched(0, {"a": 4.03e-6, "b": 1e-6}, "a", ("b",))
    second = searched(1, {"a": 1.001e-6, "b": 1e-6}, "b", ("a",))
    found = summarize_drift(drift(frame(first, second)))
    assert found.median_cost == pytest.approx(math.log(1.001) / 2)
    assert found.worst_cost == pytest.approx(math.log(1.001))
    assert (found.flipped, found.harmless, found.opposed) == (1, 1, 0)


def test_a_flip_is_opposed_when_each_search_finds_its_own_winner_faster(frame):
    table = frame(
        searched(0, {"a": 1e-6, "b": 1.3e-6}, "a"),
        searched(1, {"a": 1.2e-6, "b": 1e-6}, "b"),
        searched(0, {"a": 1e-6, "b": 1e-6}, "a", cell="c1", M=2),
        searched(1, {"a": 2e-6, "b": 1e-6}, "b", cell="c1", M=2),
        searched(0, {"a": 1e-6, "b": None}, "a", cell="c2", M=4),
        searched(1, {"a": 2e-6, "b": 1e-6}, "b", cell="c2", M=4),
        searched(0, {"a": 2e-6, "b": 1e-6}, "b", cell="c3", M=8),
        searched(1, {"a": 1e-6, "b": None}, "a", cell="c3", M=8),
    )
    assert drift(table)["opposed"].tolist() == [True, False, False, False]
    found = summarize_drift(drift(table))
    assert (found.flipped, found.opposed, found.uncosted) == (4, 1, 2)


def test_a_winner_without_a_time_in_the_other_search_is_counted_not_invented(frame):
    table = frame(searched(0, {"a": 1e-6, "b": None}, "a"), searched(1, {"a": 1.5e-6, "b": 1e-6}, "b"))
    found = summarize_drift(drift(table))
    assert found.uncosted == 1
    assert found.worst_cost == pytest.approx(math.log(1.5))


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
    assert summarize_drift(drift(table)).cells == 0


def test_one_cell_under_two_ids_is_one_cell(frame):
    """A suite may name one GEMM under two models, and two runs give one cell two ids."""
    table = frame(searched(0, {"a": 1e-6, "b": 2e-6}, "a"), searched(0, {"a": 2e-6, "b": 1e-6}, "b", cell="c1"))
    assert summarize_drift(drift(table)).flip_share == 1.0


def test_searches_without_a_winner_have_no_part_in_drift(frame):
    table = frame(searched(0, {"a": None}, ""), searched(1, {"a": 1e-6}, "a"))
    assert drift(table).empty


def test_gain_is_the_geometric_mean_over_cells(frame):
    table = frame(
        searched(0, {"a": 2e-6, "b": 1e-6}, "b"),
        searched(0, {"a": 8e-6, "b": 1e-6}, "b", cell="c1", M=2),
        searched(0, {"a": 3e-6, "b": 4e-6}, "a", cell="c2", M=4, provider="mma_4bit"),
    )
    tri, mma = gain(table).to_dict("records")
    assert tri["provider"] == "tri"
    assert tri["gain"] == pytest.approx(4.0)
    assert math.isnan(tri["gain_checked"])
    assert (tri["cells"], tri["searches"], tri["tried"], tri["changed"]) == (2, 2, 4, 2)
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


def test_an_empty_table_has_no_rows_and_no_drift(frame):
    table = frame()
    assert gain(table).empty
    assert summarize_drift(drift(table)).cells == 0
    assert isinstance(drift(table), pd.DataFrame)


def test_near_ties_are_counted(frame):
    (row,) = gain(frame(searched(0, {"a": 1e-6, "b": 1.01e-6, "c": 1e-6}, "a", ("b", "c")))).to_dict("records")
    assert row["near_ties"] == 2
