"""A station of a comparison: real checkouts and environments, arms whose turns are played."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rooflens.harness.compare.replay import COORDINATES
from rooflens.harness.compare.spec import CompareSpec, suite_hash
from rooflens.harness.sweep.events import Remarked
from rooflens.harness.sweep.supervisor import WorkerHungError
from rooflens.harness.worker.messages import Ready, Setup
from rooflens.plugins.fleet.engine import compare_worker
from rooflens.plugins.fleet.engine.compare_worker import CompareWorker, CompareWorkerSpec
from rooflens.plugins.fleet.engine.protocol import Assignment
from rooflens.plugins.fleet.engine.result_archive import entries, unpack
from rooflens.shapes.device import Device
from rooflens.shapes.errors import Interrupted, RooflensError

from tests.harness.repositories import git, repository
from tests.harness.scripted_workers import Silent

from .fabricated import PROTOCOL, run_json, run_manifest, slot
from .test_compare_store import CHUNKS

DEVICE = Device("cuda", 0, "Simulated", "NVIDIA", "sm90", 132, 1 << 26, 1 << 26, 1 << 37, "GPU-7")
TABLE = "configurations\n"


class Played:
    """What the turns of the arms do: a call per round, that stores a row of run.json and says how it ended."""

    def __init__(self):
        self.calls, self.script = [], lambda call: True

    def __call__(self, turn, observer, should_stop):
        request, tree = turn.request, turn.interpreter.folder
        said = SimpleNamespace(
            what=(request.to.name, request.rounds - 1),
            tree=tree,
            kernel=(tree / "k.py").read_text(),
            rounds=request.rounds,
            output=request.to,
            only=turn.cells,
            resume=bool(request.resume),
            device=request.device,
            tuned=request.tuned.read_text() if request.tuned else None,
        )
        self.calls.append(said)
        ended = self.script(said)
        said.output.mkdir(exist_ok=True)
        manifest = run_json(rounds=said.rounds, environment={}, providers={}, device={}, planned_units=said.rounds)
        (said.output / "run.json").write_text(json.dumps(manifest))
        observer(Remarked("a remark"))
        return ended


@pytest.fixture
def played(monkeypatch):
    """Play the arms, and the worker that says what the device is."""
    ready = Ready(DEVICE, {"torch": "2.13.0"}, {}, "event", "flush", "default", "nvml", 4, "")
    monkeypatch.setattr(
        compare_worker, "SupervisedWorker", lambda *given: SimpleNamespace(ready=ready, kill=lambda: None)
    )
    found = Played()
    monkeypatch.setattr(compare_worker, "TurnExecutor", lambda: found)
    return found


@pytest.fixture
def what(tmp_path):
    repo = repository(tmp_path / "repo", {"k.py": "first"}, {"k.py": "second"})
    commits = {"base": git(repo, "rev-parse", "HEAD~1"), "head": git(repo, "rev-parse", "HEAD")}
    return CompareSpec(
        repository=str(repo), commits=commits, suite="llm4bit-quick", files=("k.py",), request={"device": "cuda"},
        rounds=2, setup="", suite_hash=suite_hash("llm4bit-quick"), chunks=5,
    )  # fmt: skip


@pytest.fixture
def worker(tmp_path, what):
    """Return `station(**changes of the comparison)`."""

    def call(name="first", place=None, stop=lambda: False, shipped=None, **changes):
        setup = Setup("cuda", PROTOCOL, (), ())
        spec = CompareWorkerSpec(setup, run_manifest(), replace(what, **changes), "comparison-1", shipped or {})
        heard = Silent()
        made = CompareWorker(spec, place or slot(), name, tmp_path / f"scratch-{name}", heard, stop, ["a remark"])
        made.heard = heard
        return made

    return call


def chunk(number=0, arms=2):
    return replace(CHUNKS[number], rounds=2, arms=arms)


def opened(call, *given, **more):
    """Return an open station."""
    made = call(*given, **more)
    made.open()
    return made


def said_of(archive, arm="base"):
    manifest = json.loads(unpack(archive.content, "", arm)["run.json"])
    return manifest["station"]


def test_it_says_what_device_it_is_and_sets_the_versions_up_once(worker, played, tmp_path, what):
    made = worker()
    opened = entries(made.open().content, "")
    manifest = json.loads(opened["run.json"])
    assert manifest["device"]["uuid"] == "GPU-7"
    assert manifest["station"] | {"elapsed_s": 0} == {
        "name": "first", "host": "one", "slot": 0, "elapsed_s": 0, "remarks": ["a remark"],
    }  # fmt: skip
    checkouts = [text for text in made.heard.done if "check out" in text]
    assert len(checkouts) == 2
    for number in range(2):
        made.measure(Assignment(chunk(number), b"", None))
    assert [text for text in made.heard.done if "check out" in text] == checkouts
    assert {call.kernel for call in played.calls} == {"first", "second"}
    assert {call.tree for call in played.calls if call.kernel == "first"} == {
        tmp_path / "scratch-first" / "comparison-1" / "base" / "tree"
    }
    made.close()
    assert not (tmp_path / "scratch-first").exists()
    assert git(Path(what.repository), "worktree", "list").count("\n") == 0


def test_a_chunk_is_all_rounds_of_both_arms_in_turn_on_its_cells_alone(worker, played):
    made = opened(worker)
    archive = made.measure(Assignment(chunk(), b"", None))
    assert [call.what for call in played.calls] == [("base", 0), ("head", 0), ("head", 1), ("base", 1)]
    assert [call.resume for call in played.calls] == [False, False, True, True]
    for call in played.calls:
        assert [tuple(row) for row in call.only] == list(chunk().rows)
        assert call.only[0][COORDINATES.index("provider")] is None
        assert call.device == "cuda"
    assert made.heard.units == 4
    for arm in ("base", "head"):
        said = said_of(archive, arm)
        assert (said["rounds"], said["steps"], said["finished"]) == (2, 4, 2)
        assert said["session"] != said["name"]
    assert b"round 2 of head: a remark" in entries(archive.content, "")["compare.log"]


def test_a_part_goes_on_where_it_ended_in_another_station(worker, played, tmp_path):
    """Cut short in the third of four runs: that one is run again, and nothing else."""
    played.script = lambda call: len(played.calls) != 3
    made = opened(worker)
    part = made.measure(Assignment(chunk(), b"", None))
    said = said_of(part)
    assert (said["rounds"], said["steps"], said["finished"]) == (1, 2, 1)
    assert not (tmp_path / "scratch-first").exists(), "who is stopped is asked for nothing more"
    played.calls.clear()
    played.script = lambda call: True
    later = opened(worker, "later")
    whole = later.measure(Assignment(chunk(), part.content, None))
    assert [call.what for call in played.calls] == [("head", 1), ("base", 1)]
    assert said_of(whole)["rounds"] == 2
    assert said_of(whole)["elapsed_s"] >= said["elapsed_s"]
    later.close()


def test_a_stop_sends_home_what_there_is(worker, played):
    def interrupt(call):
        if len(played.calls) == 2:
            raise Interrupted("interrupted")
        return True

    played.script = interrupt
    made = opened(worker)
    files = entries(made.measure(Assignment(chunk(), b"", None)).content, "")
    assert {"station.json", "base/run.json"} <= files.keys()
    assert "head/run.json" not in files
    assert json.loads(files["station.json"])["steps"] == 1


def test_no_time_is_left(worker, played):
    made = opened(worker)
    files = entries(made.measure(Assignment(chunk(), b"", 0.0)).content, "")
    assert played.calls == []
    assert json.loads(files["station.json"])["steps"] == 0


def test_an_arm_that_fails_is_told_without_the_name_of_a_file_that_goes(worker, played, tmp_path):
    def fail(call):
        raise WorkerHungError(None, "no such module", "here")

    played.script = fail
    made = opened(worker)
    with pytest.raises(RooflensError) as failed:
        made.measure(Assignment(chunk(), b"", None))
    assert str(failed.value) == "round 1 of base: the worker could not be set up: start: no such module; see here"
    assert not (tmp_path / "scratch-first").exists()


def test_a_setup_that_fails_leaves_nothing(worker, played, tmp_path, what):
    with pytest.raises(RooflensError, match=r"--setup failed with exit code 7; its log ends: .*cannot build"):
        worker(setup="echo cannot build; exit 7").open()
    assert not (tmp_path / "scratch-first").exists()
    assert git(Path(what.repository), "worktree", "list").count("\n") == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"repository": "/not/here"}, "the repository /not/here is not on .*: every node must reach it by the same"),
        ({"commits": {"base": "a" * 40, "head": "b" * 40}}, r"lacks base \(aaaaaaaaaaaa\): it is another clone"),
        ({"suite_hash": "0"}, "suite llm4bit-quick is another one on"),
    ],
)
def test_a_node_that_lacks_something_takes_no_part(worker, played, tmp_path, changes, words):
    with pytest.raises(RooflensError, match=words):
        worker(**changes).open()
    assert not (tmp_path / "scratch-first").exists()


def test_another_device_than_the_slot_says_is_refused(worker, played):
    with pytest.raises(RooflensError, match="its device is sm90, not gfx950"):
        worker(place=slot(arch="gfx950")).open()


def test_tuned_tables_travel_with_the_brief(worker, played):
    made = opened(worker, shipped={"/driver/t.csv": TABLE}, tables={"base": "/driver/t.csv"})
    made.measure(Assignment(chunk(), b"", None))
    assert {(call.what[0], call.tuned) for call in played.calls} == {("base", TABLE), ("head", None)}
    made.close()
