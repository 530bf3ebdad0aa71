"""Two run folders as versions: what pairs, what is mixed, and what is no comparison at all."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from rooflens.analysis.comparison.effects import Order
from rooflens.analysis.comparison.result import Side, compare_runs
from rooflens.analysis.comparison.versions import devices_differ, from_runs, rounds_of
from rooflens.analysis.frames.load import load_run
from rooflens.shapes.errors import UsageError

from ..synthetic import CPU, H200, write_run

SMALL = {
    "shapes": (("m", "l", 64, 96),), "Ms": (1, 2), "providers": ("simt_4bit",), "round_noise": 0, "sample_noise": 0,
}  # fmt: skip


@pytest.fixture
def runs(tmp_path):
    """Write base and head, with what is different in head; return both as they load."""

    def write(both=None, **head):
        return [
            load_run(write_run(tmp_path / name, **SMALL | (both or {}) | (head if name == "head" else {})))
            for name in ("base", "head")
        ]

    return write


def by_round(name, *values):
    """A column whose value is that of the round."""
    return lambda cell, round_: {name: values[round_]}


def test_rounds_pair_by_their_numbers_and_keep_what_one_version_lacks(runs):
    base, head = runs(
        latency=lambda cell: 2e-4,
        skip=lambda cell, round_: (cell.M, round_) == (2, 1),
        both={"latency": lambda c: 1e-4},
    )
    found = from_runs(base, head, Order.INTERLEAVED)
    assert found.cases["M"].tolist() == [1, 2]
    times = found.rounds.sort_values(["case", "round"])[["base_s", "head_s"]].to_numpy()
    assert times[:, 0].tolist() == pytest.approx([1e-4] * 6)
    assert times[[0, 1, 2, 3, 5], 1].tolist() == pytest.approx([2e-4] * 5)
    assert math.isnan(times[4, 1])
    assert rounds_of(found) == rounds_of(from_runs(head, base, Order.INTERLEAVED)) == (2, 3), "poorest and richest case"
    found.rounds["head_s"] = math.nan
    assert rounds_of(found) == (0, 0)


def test_rounds_that_the_versions_do_not_share_are_not_taken_for_one_round(runs):
    """Base has the rounds 0 and 2, head 0 and 1: each has two, and there is one pair."""
    base, head = runs(
        skip=lambda cell, round_: round_ == 2,
        both={"skip": lambda cell, round_: round_ == 1},
    )
    result = compare_runs((Side("base", "base"), base), (Side("head", "head"), head), Order.INTERLEAVED)
    (note,) = [note for note in result.notes if "round" in note]
    assert note == "No case has a time in two rounds of both versions: without that nothing can be verified."


@pytest.mark.parametrize(("name", "values"), [("config", [{}, {}, {"BM": 1}]), ("artifact", ["a", "b", "a"])])
def test_what_changes_between_rounds_is_mixed(runs, name, values):
    base, head = runs(columns=by_round(name, *values))
    cases = from_runs(base, head, Order.INTERLEAVED).cases
    assert cases[f"head_{name}"].tolist() == ["mixed", "mixed"]
    assert "mixed" not in cases[f"base_{name}"].tolist()


@pytest.mark.parametrize(("name", "values"), [("timer", ("host", "event")), ("cold_by", ("flush", "rotate"))])
def test_times_taken_in_another_way_are_refused_in_either_order(runs, name, values):
    base, head = runs(columns=lambda cell, round_: {name: values[1]}, both={"columns": lambda c, r: {name: values[0]}})
    for order in Order.INTERLEAVED, Order.SEQUENTIAL:
        with pytest.raises(UsageError, match=rf"{name} is {values[0]} in .*base and {values[1]} in .*head: such times"):
            from_runs(base, head, order)


def test_a_case_that_one_version_did_not_pass_has_no_way_of_timing_to_differ(runs):
    base, head = runs(failures=lambda cell: ("oom", "3 GiB") if cell.M == 1 else None)
    head.cells.loc[head.cells["M"] == 1, "timer"] = "event"
    cases = from_runs(base, head, Order.INTERLEAVED).cases
    assert cases["head_timer"].tolist() == ["event", "host"]


@pytest.mark.parametrize("change", [{"name": "Another CPU"}, {"arch": "x86-64-avx2"}])
def test_runs_of_two_kinds_of_device_are_refused(runs, change):
    base, head = runs(manifest={"device": CPU.device | change})
    with pytest.raises(UsageError, match=r"base is of Planted CPU .*head of .*: compare on one device"):
        from_runs(base, head, Order.SEQUENTIAL)


def operands(*values):
    return {"columns": by_round("operands", *values)}


def test_interleaved_arms_must_have_had_the_same_operands_in_every_round(runs):
    base, head = runs(**operands("a", "b", "x"), both=operands("a", "b", "c"))
    with pytest.raises(UsageError, match="round 2 of simt_4bit m l M=1: the arms had other operands"):
        from_runs(base, head, Order.INTERLEAVED)
    from_runs(base, head, Order.SEQUENTIAL)  # those draw for themselves
    older = runs(**operands("a", "b", "x"), both=operands("", "", ""))  # has no checksums, and says nothing
    from_runs(*older, Order.INTERLEAVED)
    from_runs(*older[::-1], Order.INTERLEAVED)


def test_runs_without_a_common_case_are_refused(runs):
    base, head = runs(Ms=(8, 16))
    with pytest.raises(UsageError, match="have no case in common"):
        from_runs(base, head, Order.SEQUENTIAL)
    found = from_runs(*runs(Ms=(2, 4)), Order.SEQUENTIAL)
    assert found.cases["M"].tolist() == [1, 2, 4], "in the order of base"
    assert pd.isna(found.cases["head_time_s"]).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("uuids", "differ"), [(("A", "B"), True), (("A", "A"), False), (("", ""), False), (("", "B"), False)]
)
def test_two_devices_of_one_kind_are_known_by_their_uuids(runs, uuids, differ):
    base, head = runs(
        manifest={"device": H200.device | {"uuid": uuids[1]}},
        both={"manifest": {"device": H200.device | {"uuid": uuids[0]}}},
    )
    assert devices_differ(base, head) is differ


@pytest.mark.parametrize(("base", "head", "told"), [(2, 1, True), (2, 2, False), (None, 1, False), (None, None, False)])
def test_a_difference_of_threads_is_noted(runs, base, head, told):
    """Parts of a CPU, as a fleet measures on, have fewer of them than the whole."""
    note = "The versions ran on 2 and 1 CPU threads. A difference may be theirs."
    written = zip(("base", "head"), runs(), (base, head), strict=True)
    sides = [
        (Side(name, ""), replace(run, manifest=replace(run.manifest, threads=count))) for name, run, count in written
    ]
    assert (note in compare_runs(*sides, Order.SEQUENTIAL).notes) is told
