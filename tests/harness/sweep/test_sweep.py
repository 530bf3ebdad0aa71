"""The sweep against scripted workers: who is blamed for a fault, when it gives up, what a restart may change."""

import dataclasses
import json
import math

import pytest
from rooflens.harness.storage.store import RunStore
from rooflens.harness.sweep import session as sessions
from rooflens.harness.sweep.deadline import Deadline
from rooflens.harness.sweep.fault_attribution import MOST_FRUITLESS
from rooflens.harness.sweep.sweep import Sweep
from rooflens.harness.telemetry.reading import Reading
from rooflens.harness.timing.samples import Samples
from rooflens.harness.worker.messages import (
    Begin,
    Calibrated,
    CanaryTaken,
    Done,
    Plain,
    Refused,
    SearchResult,
    Setup,
    Stored,
    UnitResult,
)
from rooflens.shapes.errors import Interrupted, RooflensError, UsageError
from rooflens.shapes.run_folder.columns import CELLS
from rooflens.shapes.verdict import Verdict

from ..scripted_workers import DIED, HUNG, PROTOCOL, Silent, Workers, cells_of, opened, passed, tuned
from ..sharded import read_rows


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return `run(workers)`: sweep one problem with two providers, and return the rows of cells.csv."""

    def call(workers, calibrate=False, more=None, deadline=math.inf, retry=(), providers=("blas", "dequant_blas")):
        monkeypatch.setattr(sessions, "SupervisedWorker", workers)
        cells, setup = cells_of(providers), Setup("cpu", PROTOCOL, providers, ())
        folder, observer = tmp_path / "run", Silent()
        store, manifest = opened(folder)
        with store:
            further = more(cells, manifest) if more else None
            until = Deadline(deadline)
            sweep = Sweep(store, cells, setup, observer, calibrate, until, more=further, retry=retry)
            assert sweep.run(manifest)
        return read_rows(folder / "cells.csv"), observer, json.loads((folder / "run.json").read_text())

    return call


def units(rows):
    return sorted((row["provider"], row["round"], row["verdict"]) for row in rows)


ALL_PASSED = [
    (provider, number, "passed") for provider in ("blas", "dequant_blas") for number in ("0", "1")
]  # fmt: skip


def test_a_fault_is_the_unit_in_flight(run):
    rows, _, _ = run(Workers([Begin("measure", ((1, 0),)), DIED]))
    assert units(rows) == [*ALL_PASSED[:2], ("dequant_blas", "0", "crashed")]
    assert rows[0]["reason"] == "measure: worker killed by SIGSEGV"


@pytest.mark.parametrize("end", [DIED, HUNG])
def test_a_fault_after_a_result_blames_nobody_and_stores_nothing_twice(run, end):
    rows, _, _ = run(Workers([Begin("measure", ((0, 0),)), passed(0, 0), end]))
    assert units(rows) == ALL_PASSED


def result(index=0, number=0, times_s=(1e-3,), columns=None, **more):
    given = {"verdict": "passed", "samples": len(times_s)} | (columns or {})
    return UnitResult(index, number, given, Samples(times_s, **more))


@pytest.mark.parametrize(
    "forged",
    [
        *(result(index) for index in (-1, 1, 99)),
        *(result(0, number) for number in (-1, 77)),
        *(result(times_s=times_s) for times_s in ((), (math.nan,), (math.inf,), (-1.0,), (1e300,))),
        result(discarded=("a", "b")),
        result(readings=((9, Reading()),)),
        *(result(columns={"verdict": verdict}) for verdict in ("incorrect", "splendid", None, [1])),
        *(
            result(columns={name: value})
            for name, value in [
                *(("evil", 1), ("cell_id", "x"), ("provider", "dequant_blas"), ("source", "x")),
                *(("order", "many"), ("order", -1), ("copies", 1 << 70), ("blocked", 1), ("reason", {}), ("config", 1)),
                *(("elapsed_s", "x"), ("elapsed_s", math.inf), ("samples", 2)),
            ]
        ),
        *(SearchResult(0, rows) for rows in ([], [{"winner": True}], tuned(0).rows)),
        *(Done(), Done(True), Done(failure=(Verdict.OOM, "x")), Done(left={"dequant_blas": "x"})),
        *(Begin("measure", ((55, 0),)), Begin("try", ((0, 0), (1, 0)), 3)),
        *(CanaryTaken([]), Calibrated([], {}), Refused("x", 0), Stored(True), Plain(1)),
    ],
    ids=repr,
)
def test_what_a_worker_cannot_have_said_is_stored_nowhere_and_is_the_fault_of_what_was_in_flight(run, forged):
    rows, _, _ = run(Workers([Begin("measure", ((0, 0),)), forged]))
    assert units(rows) == [("blas", "0", "crashed"), *ALL_PASSED[2:]]
    assert "what cannot be true" in min(rows, key=lambda row: row["provider"])["reason"]


def test_of_two_results_of_a_unit_neither_is_believed(run, tmp_path):
    rows, _, _ = run(Workers([Begin("measure", ((0, 0),)), result(), result()]))
    assert units(rows) == [("blas", "0", "crashed"), *ALL_PASSED[2:]]
    assert len(read_rows(tmp_path / "run" / "samples.csv")) == 2


def test_workers_that_repeat_what_is_stored_end_the_sweep(run):
    with pytest.raises(RooflensError, match="4 workers in a row ended at what is stored already"):
        run(Workers(*[[Begin("measure", ((0, 0),)), result(), result()]] * 9))


@pytest.mark.parametrize(
    "answer",
    [
        *map(CanaryTaken, ([{"evil": 1}], [{"at": "now", "gemm_s": "x", "copy_s": 1.0}], [{"gemm_s": math.nan}])),
        DIED,
    ],
)
def test_a_canary_that_cannot_be_stored_or_ends_the_worker_is_given_up_alone(run, answer):
    workers = Workers([Begin("time the canary"), answer])
    stored, observer, _ = run(workers)
    assert units(stored) == ALL_PASSED
    assert [work.canary for work in workers.works] == [True, False], "the next worker takes none"
    assert any("no canary from here on" in remark for remark in observer.remarks)


@pytest.mark.parametrize("end", [DIED, HUNG])
def test_workers_that_never_begin_end_the_sweep(run, end):
    workers = Workers(*[[end]] * 99)
    with pytest.raises(RooflensError, match="before they began"):
        run(workers)
    assert workers.begun == MOST_FRUITLESS + 1


@pytest.fixture
def left_lock(tmp_path, monkeypatch):
    """Return a lock that no process holds, where torch builds extensions."""
    lock = tmp_path / "extensions" / "mine" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    return lock


@pytest.mark.parametrize(("phase", "limit"), [("prepare", "600 s; build_timeout_s"), ("measure", "120 s; timeout_s")])
def test_a_timeout_and_an_interruption_say_what_may_have_been_waited_for_and_a_crash_does_not(
    run, left_lock, tmp_path, phase, limit
):
    rows, _, _ = run(Workers([Begin(phase, ((0, 0),)), HUNG], [Begin("measure", ((1, 0),)), DIED]))
    reasons = {row["verdict"]: row["reason"] for row in rows}
    told = f"no process here holds {left_lock}, "
    assert reasons["timeout"].startswith(f"{phase}: no end within {limit} sets the limit; {told}")
    assert reasons["crashed"] == "measure: worker killed by SIGSEGV"
    with pytest.raises(Interrupted):
        run(Workers([Begin("prepare", ((0, 0),)), Interrupted("stopped")]), retry=("crashed",))
    assert (tmp_path / "run" / "events.log").read_text().splitlines()[-1].partition(" ")[2].startswith(told)


def test_code_that_changes_during_the_sweep_is_not_taken_for_the_old(run):
    with pytest.raises(UsageError, match="source of provider blas was old and is new now"):
        run(Workers([Begin("measure", ((0, 0),)), DIED], sources=["old", "new"]))


def test_a_retry_takes_its_units_once(run):
    run(Workers([Begin("measure", ((1, 0),)), DIED]))
    rows, observer, _ = run(Workers(), retry=("crashed",))
    assert units(rows) == ALL_PASSED
    assert observer.remarks == ["measure again what failed: 1 unit; events.log has the reasons"]


def test_a_retry_with_other_code_is_refused_and_forgets_nothing(run, tmp_path):
    before, _, _ = run(Workers([Begin("measure", ((1, 0),)), DIED]))
    with pytest.raises(UsageError, match="source of provider"):
        run(Workers(sources=["new"]), retry=("crashed",))
    with RunStore.reopen(tmp_path / "run") as store:
        assert store.rows(CELLS) == before


def test_a_retry_leaves_alone_what_is_not_planned(run):
    before, _, _ = run(Workers([Begin("measure", ((1, 0),)), DIED]))
    rows, _, _ = run(Workers(), retry=("crashed",), providers=("blas",))
    assert rows == before


def test_a_calibration_that_kills_the_worker_costs_the_ceilings_only(run):
    rows, observer, _ = run(Workers(calibration=DIED), calibrate=True)
    assert units(rows) == ALL_PASSED
    assert any("no ceilings" in remark for remark in observer.remarks)


def test_ceilings_are_counted_and_what_both_calibrations_remark_is_told_once(run, tmp_path):
    _, observer, _ = run(Workers(), calibrate=True)
    steps = [what for what in observer.done if what.startswith("ceiling ")]
    assert steps == ["ceiling 1 of 2: dram read bandwidth", "ceiling 2 of 2: launch floors"] * 2
    assert observer.remarks == ["measured llc bandwidth of 1.5 GB/s is low: busy?"]
    events = (tmp_path / "run" / "events.log").read_text()
    assert "1.5 GB/s is low" in events
    assert "2.5 GB/s is low" in events


def test_every_worker_has_a_number_of_its_own_over_restarts_and_resumes(run):
    first = [Begin("measure", ((0, 0),)), passed(0, 0), DIED]
    second = [Begin("measure", ((0, 1),)), passed(0, 1), Begin("measure", ((1, 0),)), KeyboardInterrupt("pulled")]
    with pytest.raises(BaseException, match="pulled"):
        run(Workers(first, second))
    rows, _, manifest = run(Workers())
    assert [row["process"] for row in rows] == ["0", "1", "2", "2"]
    assert manifest["processes"] == 3


def at(cells, m):
    """The cells of the sweep at another M."""
    return tuple(dataclasses.replace(cell, problem=dataclasses.replace(cell.problem, M=m)) for cell in cells)


def asking(*batches, seen=None):
    """Ask for the cells at each M of one batch after another, then for none."""

    def begin(cells, content):
        left = list(batches)

        def more():
            if seen is not None:
                seen.append((content.planned_units, len(content.unknown.get("asked", []))))
            if not left:
                return ()
            sizes = left.pop(0)
            content.unknown.setdefault("asked", []).extend(sizes)
            return tuple(cell for m in sizes for cell in at(cells, m))

        return more

    return begin


def test_further_cells_are_measured_batch_by_batch_and_counted(run):
    seen = []
    rows, observer, manifest = run(Workers(), more=asking([5, 7], [6], seen=seen))
    assert [row["M"] for row in rows] == [m for m in "1576" for _ in range(4)]  # two providers, two rounds
    assert seen == [(4, 0), (12, 2), (16, 3)]
    assert observer.totals == [12, 16]
    assert manifest["planned_units"] == 16


def test_what_asks_again_for_cells_of_the_plan_is_not_heard(run):
    rows, observer, manifest = run(Workers(), more=asking([1], [1, 5], [5]))
    assert [row["M"] for row in rows] == ["1"] * 4
    assert (observer.totals, manifest["planned_units"]) == ([], 4)


def test_further_cells_stand_in_run_json_before_they_are_measured(run, tmp_path):
    def dies(worker, work):
        """The only worker does the sweep, and is lost with the parent at the first further M."""
        if work.task.problem.M == 5:
            worker.script = [Begin("measure", ((0, 0),)), KeyboardInterrupt("pulled")]

    with pytest.raises(BaseException, match="pulled"):
        run(Workers(hook=dies), more=asking([5]))
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (manifest["planned_units"], manifest["asked"]) == (8, [5])


def test_a_deadline_before_anything_further_is_asked_for_leaves_it_to_the_next_call(run, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(sessions.time, "monotonic", lambda: clock[0])

    def late(cells, content):
        def more():
            raise AssertionError("asked after the deadline")

        return more

    def takes_long(worker, work):
        clock[0] += 10

    rows, _, _ = run(Workers(hook=takes_long), more=late, deadline=11.5)
    assert units(rows) == ALL_PASSED
