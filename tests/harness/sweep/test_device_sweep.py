"""A sweep on several devices: every problem on one of them, in the tables of one run."""

import json
import os
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import pytest
from rooflens.harness.sweep import devices as threads
from rooflens.harness.sweep import session as sessions
from rooflens.harness.sweep.cluster import Here, Place, Target
from rooflens.harness.sweep.deadline import Deadline
from rooflens.harness.sweep.device_sweep import DeviceSweep
from rooflens.harness.sweep.supervisor import PlaceLostError
from rooflens.harness.worker.messages import Begin, Setup
from rooflens.shapes.errors import Interrupted

from ..scripted_workers import DIED, PROTOCOL, Silent, Workers, cells_of, opened, passed
from ..sharded import read_rows

PROVIDERS = ("blas", "dequant_blas")
CELLS = cells_of(PROVIDERS, shapes=2, condition="M <= 8")


def places(*hosts):
    return [Place(host, "x86-64", index, len(hosts), "cpu") for index, host in enumerate(hosts)]


class Planted:
    """A cluster of these places."""

    is_here = True

    def __init__(self, *hosts):
        self.places = places(*hosts)

    def offered(self):
        return {"x86-64": len(self.places)}

    def now(self):
        return self.places

    @contextmanager
    def entered(self, place, deadline):
        yield Here()


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return `run(workers, hosts)`: sweep in one folder; return whether it is complete, and its rows and run.json."""
    monkeypatch.setattr(threads, "POLL_S", 0.002)
    monkeypatch.setattr(threads, "LOOK_S", 0.0)
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # nothing is killed here

    def call(workers=None, hosts=("one", "one"), cells=CELLS, deadline=None, calibrate=False, **how):
        monkeypatch.setattr(sessions, "SupervisedWorker", workers or Workers())
        store, manifest = opened(tmp_path / "run")
        call.observer = Silent()
        sweep = DeviceSweep(
            *(store, cells, Setup("cpu", PROTOCOL, PROVIDERS, ()), call.observer),
            *(Target(Planted(*hosts), "x86-64", patience_s=0.05), calibrate, deadline or Deadline()),
            **how,
        )
        try:
            with store:
                complete = sweep.run(manifest)
        finally:
            call.unmeasured = sweep.unmeasured
        rows = read_rows(tmp_path / "run" / "cells.csv")
        return complete, rows, json.loads((tmp_path / "run" / "run.json").read_text())

    call.folder = tmp_path / "run"
    return call


def units(rows):
    return sorted((row["cell_id"], int(row["round"])) for row in rows)


ALL = sorted((cell.id, number) for cell in CELLS for number in (0, 1))


def hosts_of(rows, manifest):
    """Map problems to the devices that measured them."""
    device = {number: one["host"] for one in manifest["devices"] for number in one["processes"]}
    found = {}
    for row in rows:
        found.setdefault((row["layer"], row["M"]), set()).add(device[int(row["process"])])
    return found


def test_every_unit_is_stored_once_and_every_problem_is_of_one_device(run):
    complete, rows, manifest = run(hosts=("one", "two"), calibrate=True)
    assert complete
    assert units(rows) == ALL
    assert {len(hosts) for hosts in hosts_of(rows, manifest).values()} == {1}
    assert manifest["planned_units"] == len(ALL) == run.observer.units == run.observer.total
    assert sorted(number for one in manifest["devices"] for number in one["processes"]) == [
        *range(manifest["processes"])
    ]
    assert [one["stations"] for one in manifest["devices"]] == [1] * len(manifest["devices"])
    with opened(run.folder)[0] as store:
        assert store.verdicts == dict.fromkeys(ALL, "passed")


def test_a_worker_that_dies_costs_its_unit_and_its_device_goes_on(run):
    complete, rows, manifest = run(Workers([Begin("measure", ((0, 0),)), DIED]), hosts=("one",))
    assert complete
    assert Counter(row["verdict"] for row in rows) == {"crashed": 1, "passed": len(ALL) - 2}
    assert manifest["devices"][0]["processes"] == [0, 1]
    assert manifest["devices"][0]["stations"] == 1


def lost_after(count):
    """Workers of which one is lost in the middle of a problem, after so many tasks."""
    left = [count]

    def hook(worker, work):
        left[0] -= 1
        if left[0] < 0:
            worker.script = [Begin("measure", ((0, 0),)), passed(0, 0), PlaceLostError("its node does not answer")]

    return Workers(hook=hook)


def test_what_is_left_of_a_problem_is_for_its_device_and_another_measures_all_of_it(run):
    complete, rows, _ = run(lost_after(1), hosts=("one",))
    assert not complete
    assert run.unmeasured.startswith("no x86-64 is left for ")
    half = [unit for unit, count in Counter(row["cell_id"] for row in rows).items() if count == 1]
    assert half
    complete, again, manifest = run(hosts=("two",))
    assert complete
    assert units(again) == ALL
    assert {len(hosts) for hosts in hosts_of(again, manifest).values()} == {1}
    finished = [row for row in rows if row["cell_id"] not in half]
    assert {row["cell_id"]: row["process"] for row in again} | {row["cell_id"]: row["process"] for row in finished} == {
        row["cell_id"]: row["process"] for row in again
    }


def test_a_problem_that_is_stored_as_a_whole_stays_although_its_device_was_lost_over_it(run):
    lost = []

    def hook(worker, work):
        if not lost:
            lost[:] = [(index, number) for index, numbers in enumerate(work.rounds) for number in numbers]
            told = (answer for unit in lost for answer in (Begin("measure", (unit,)), passed(*unit)))
            worker.script = [*told, PlaceLostError("its node does not answer")]

    complete, rows, _ = run(Workers(hook=hook), hosts=("one", "two"))
    assert complete
    assert units(rows) == ALL
    assert [text for text in run.observer.remarks if "is lost: " in text]
    assert "retry" not in (run.folder / "events.log").read_text()


def test_the_device_that_has_begun_a_problem_completes_it(run):
    _, rows, _ = run(lost_after(1), hosts=("one",))
    complete, again, manifest = run(hosts=("one",))
    assert complete
    assert units(again) == ALL
    kept = [(row["cell_id"], row["round"], row["process"]) for row in rows]
    assert set(kept) <= {(row["cell_id"], row["round"], row["process"]) for row in again}
    assert manifest["devices"][0]["stations"] == 3, "two before it was left alone, and one now"


def test_a_stop_keeps_what_is_stored(run):
    deadline = Deadline(should_stop=lambda: run.observer.units > 4)
    with pytest.raises(Interrupted):
        run(deadline=deadline)
    assert "interrupted" in (run.folder / "events.log").read_text()
    complete, rows, _ = run()
    assert complete
    assert units(rows) == ALL
    assert run.observer.before > 0


def test_a_device_of_other_software_takes_no_part(run):
    class Mixed(Workers):
        def __call__(self, setup, *others):
            worker = super().__call__(setup, *others)
            worker.ready = replace(worker.ready, environment={"torch": f"2.{self.begun}.0"})
            return worker

    complete, _, manifest = run(Mixed(), hosts=("one", "two"))
    assert complete
    assert len(manifest["devices"]) == 1
    assert all("is excluded: cannot resume: torch was 2." in text for text in run.observer.remarks)


def test_more_cells_are_planned_before_they_are_measured(run):
    extra = cells_of(PROVIDERS, shapes=3, condition="M == 1")[-2:]
    asked = iter([extra, ()])
    complete, rows, manifest = run(more=lambda: next(asked))
    assert complete
    assert units(rows) == sorted([*ALL, *((cell.id, number) for cell in extra for number in (0, 1))])
    assert manifest["planned_units"] == len(rows)
    assert run.observer.totals == [len(rows)]


def test_failures_are_measured_again_where_that_is_asked_for(run):
    run(Workers([Begin("measure", ((0, 0),)), DIED]), hosts=("one",))
    complete, rows, _ = run(hosts=("one",), retry=("crashed",))
    assert complete
    assert units(rows) == ALL
