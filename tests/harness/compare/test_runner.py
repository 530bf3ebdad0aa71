"""How a comparison ends, goes on and fails, with versions whose rounds are scripted instead of measured."""

import json
from functools import partial
from pathlib import Path

import pytest
from rooflens.harness.compare.checkouts import Checkouts
from rooflens.harness.compare.environments import VersionEnvironment
from rooflens.harness.compare.replay import COORDINATES, divided
from rooflens.harness.compare.runner import CompareRunner
from rooflens.harness.compare.spec import nothing_left
from rooflens.harness.plan.plan import MODEL_FIELDS
from rooflens.harness.storage.store import RunStore
from rooflens.harness.sweep.deadline import Deadline
from rooflens.harness.sweep.supervisor import PlaceLostError
from rooflens.harness.timing.samples import Samples
from rooflens.shapes.errors import Interrupted, UsageError
from rooflens.shapes.run_folder.manifest import ComparisonState, Manifest
from rooflens.shapes.run_folder.retries import retries

from ..repositories import repository

PLACE = dict(zip(MODEL_FIELDS, "tiny tiny q gemm fwd 1 1 1 1 48 128 fp32 nf4-g64 mine warm".split(), strict=True))  # noqa: SIM905

VERSIONS = dict.fromkeys(("base", "head"), (VersionEnvironment(Path(), Path()), {}))


class Scripted(CompareRunner):
    """`script[arm][round]` has the verdict of each M; what a failure has ended is in no later round."""

    def __init__(self, folder, what, script, **more):
        super().__init__(folder, what, print, self.turn, folder.parent / "scratch", **more)
        self.script, self.steps = script, []

    def turn(self, turn, observer, deadline):
        folder, number = turn.request.to, turn.request.rounds - 1
        arm = folder.name
        self.steps.append((number, arm))
        with RunStore.reopen(folder) if (folder / "run.json").is_file() else RunStore.create(folder) as store:
            store.write_manifest(Manifest(id=arm))
            for m, verdict in self.script[arm][number].items():
                unit = f"{arm}-{m}", number
                failed = any(cell == unit[0] and word != "passed" for (cell, _), word in store.verdicts.items())
                if failed or unit in store.verdicts:
                    continue
                row = {**PLACE, "M": m, "cell_id": unit[0], "round": number, "verdict": verdict, "samples": 0}
                store.commit(row | ({"reason": "hung"} if verdict != "passed" else {}), Samples(()))
        return True


@pytest.fixture
def comparing(tmp_path, monkeypatch):
    monkeypatch.setattr("rooflens.harness.compare.runner.suite_hash", lambda suite: "0123")
    environment = VersionEnvironment(tmp_path / "env", tmp_path / "tree")
    monkeypatch.setattr(Checkouts, "_set_up", lambda versions, name, commit: environment)
    what = ComparisonState(
        repository=str(repository(tmp_path / "repo", {"README": ""})), commits={"base": "a" * 40, "head": "b" * 40},
        suite="tiny", files=("kernels.py",), rounds=8, setup="", suite_hash="0123",
    )  # fmt: skip
    return partial(Scripted, tmp_path / "both", what)


def run(comparing):
    return comparing.run(Deadline())


def always(verdicts):
    return dict.fromkeys(range(8), verdicts)


def state(comparing):
    return json.loads((comparing.folder / "compare.json").read_text())


@pytest.mark.parametrize(
    ("base", "head", "rounds"),
    [
        ({1: "timeout", 2: "timeout"}, {1: "timeout", 2: "timeout"}, 1),
        ({1: "passed", 2: "crashed"}, {1: "timeout", 2: "passed"}, 1),  # a case needs both
        ({1: "passed", 2: "timeout"}, {1: "passed", 2: "timeout"}, 8),
    ],
)
def test_a_comparison_ends_when_no_case_is_left_that_both_versions_passed(comparing, base, head, rounds):
    one = comparing({"base": always(base), "head": always(head)})
    assert run(one)
    assert len(one.steps) == 2 * rounds
    assert len(state(one)["done"]) == 16, "nothing is left to do"
    assert ("ended" in state(one)) == (rounds == 1)


def test_the_end_says_when_and_why_and_is_kept_by_a_call_that_has_nothing_to_do(comparing):
    late = {number: {1: "passed" if number < 3 else "oom"} for number in range(8)}
    script = {"base": always({1: "passed"}), "head": late}
    run(comparing(script))
    again = comparing(script)
    assert run(again)
    assert again.steps == []
    assert state(again)["ended"] == (
        "ended after round 4 of 8, because no case is left that passed in base and head (base: 1 passed; head: 1 oom)"
    )


def test_what_timed_out_is_measured_again_where_that_is_asked_for_and_its_row_becomes_an_event(comparing):
    hung = {"base": always({1: "timeout", 2: "incorrect"}), "head": always({1: "timeout", 2: "passed"})}
    run(comparing(hung))
    well = {arm: always({1: "passed", 2: "passed"}) for arm in ("base", "head")}
    again = comparing(well, retry=("timeout",))
    assert run(again)
    assert "ended" not in state(again)
    assert len(again.steps) == 16
    with RunStore.reopen(again.folder / "base") as store:
        assert store.verdicts == {("base-2", 0): "incorrect"} | {("base-1", number): "passed" for number in range(8)}
    (event,) = (again.folder / "base" / "events.log").read_text().splitlines()
    assert event.endswith("retry round 0 of tiny tiny q gemm fwd 1 1 1 1 48 128 fp32 nf4-g64 mine warm: timeout: hung")
    (found,) = retries(again.folder / "base")
    assert (found.round, found.provider, found.verdict, found.reason) == (0, "mine", "timeout", "hung")


@pytest.mark.parametrize("retried", [0, 1, 2])
def test_a_retry_that_is_killed_goes_on_and_loses_no_unit(comparing, monkeypatch, retried):
    hung = {arm: always({1: "timeout", 2: "passed"}) for arm in ("base", "head")}
    run(comparing(hung))
    retry, left = RunStore.retry, iter(range(retried))

    def killed(store, units):
        if next(left, None) is None:
            raise KeyboardInterrupt
        retry(store, units)
        if retried == 2 and store.folder.name == "head":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "retry", killed)
        with pytest.raises(KeyboardInterrupt):
            run(comparing(hung, retry=("timeout",)))
    well = {arm: always({1: "passed", 2: "passed"}) for arm in ("base", "head")}
    again = comparing(well)
    assert run(again)
    for number, arm in enumerate(("base", "head")):
        with RunStore.reopen(again.folder / arm) as store:
            first = {(f"{arm}-1", round_): "passed" for round_ in range(8)}
            expected = first if number < retried else {(f"{arm}-1", 0): "timeout"}
            assert store.verdicts == expected | {(f"{arm}-2", round_): "passed" for round_ in range(8)}


def test_a_retry_of_what_never_happened_changes_nothing(comparing):
    well = {arm: always({1: "passed"}) for arm in ("base", "head")}
    run(comparing(well))
    again = comparing(well, retry=("timeout", "crashed"))
    assert run(again)
    assert again.steps == []


@pytest.mark.parametrize(
    ("theirs", "error", "left"),
    [
        (None, UsageError("base has no such file"), None),
        ({}, UsageError("base has no such file"), set()),
        ({"notes.txt"}, UsageError("base has no such file"), {"notes.txt"}),
        ({"compare.log"}, UsageError("--setup failed"), {"compare.log"}),
        ({"compare.log"}, Interrupted("stop"), {"compare.json", "compare.log", ".lock"}),
    ],
)
def test_what_fails_before_anything_was_measured_leaves_what_was_there_and_what_resumes_it(
    comparing, monkeypatch, theirs, error, left
):
    one = comparing({})

    def set_up(versions, name, commit):
        for name in theirs or ():
            (one.folder / name).write_text("mine")
        raise error

    if theirs is not None:
        one.folder.mkdir()
    monkeypatch.setattr(Checkouts, "_set_up", set_up)
    with pytest.raises(type(error)):
        run(one)
    assert ({path.name for path in one.folder.iterdir()} if one.folder.exists() else None) == left
    assert isinstance(error, Interrupted) or not one.scratch.exists()


def test_a_failure_after_something_was_measured_keeps_all(comparing):
    one = comparing({"base": always({1: "passed"}), "head": {}})
    with pytest.raises(KeyError):
        run(one)
    assert state(one)["done"] == [[0, "base"]]
    assert (one.folder / "base" / "cells.csv").is_file()


def test_another_device_measures_all_of_a_part_and_leaves_the_others_alone(comparing):
    """The scripted turns measure both M in every part."""
    parts = divided([[{**PLACE, "M": m, "provider": None}[name] for name in COORDINATES] for m in (1, 2)], 2)
    script = {arm: always({1: "passed", 2: "passed"}) for arm in ("base", "head")}
    first = comparing(script, parts=parts)
    first.what.chunks = 2
    with first.opened():
        versions = dict.fromkeys(first.what.commits, (VersionEnvironment(first.folder, first.folder), {}))
        first.measure(parts[0], versions, Deadline(), "GPU-1")
    assert first.begun() == {0: "GPU-1"}
    again = comparing(script, parts=parts)
    with again.opened():
        assert again.open_parts() == [parts[1]]
        assert again.begun() == {0: "GPU-1"}
        again.measure(parts[0], VERSIONS, Deadline(), "GPU-1")
        assert again.steps == [], "it is finished"
        again.measure(parts[0], VERSIONS, Deadline(), "GPU-2")
        assert len(again.steps) == 16
    with RunStore.reopen(again.folder / "base") as store:
        assert [unit for unit in store.verdicts if unit[0] == "base-2"][:8] == [("base-2", n) for n in range(8)]
        assert len(store.verdicts) == 16
    (event, *_) = (again.folder / "base" / "events.log").read_text().splitlines()
    assert "retry round 0" in event


@pytest.mark.parametrize("rounds", [0, 1])
def test_what_a_lost_device_has_stored_of_a_part_is_measured_again_all_of_it(comparing, rounds):
    script = {arm: always({1: "passed", 2: "passed"}) for arm in ("base", "head")}
    cells = [tuple({**PLACE, "provider": None, "M": m}[name] for name in COORDINATES) for m in ("1", "2")]
    (part,) = divided(cells, 1)
    runner = comparing(script, parts=[part])
    runner.what.chunks = 1
    turn = runner._turn

    def lost(this, observer, deadline):
        if this.request.rounds > rounds:
            verdicts = script[this.request.to.name][rounds]
            del verdicts[2]  # it had stored M = 1
            turn(this, observer, deadline)
            verdicts[2] = "passed"
            raise PlaceLostError("its process died")
        return turn(this, observer, deadline)

    runner._turn = lost
    with runner.opened(), pytest.raises(PlaceLostError):
        runner.measure(part, VERSIONS, Deadline(), "GPU-1")
    again = comparing(script, parts=[part])
    with again.opened():
        assert again.begun() == {0: "GPU-1"}
        again.measure(part, VERSIONS, Deadline(), "GPU-2")
        assert len(again.steps) == 16
    events = [log.read_text() for log in again.folder.glob("*/events.log")]
    assert sum(text.count("retry round") for text in events) == 4 * rounds + 1


def test_versions_that_store_no_cell_end_at_once(tmp_path):
    for side in ("base", "head"):
        RunStore.create(tmp_path / side).close()
    assert nothing_left(tmp_path, 8).endswith("(base: no cell; head: no cell)")
