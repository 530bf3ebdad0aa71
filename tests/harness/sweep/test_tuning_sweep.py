"""Searches against scripted workers: who is blamed for a fault, what is asked again, and when the sweep gives up."""

import shutil
from pathlib import Path

import pytest
from rooflens.harness.sweep import session as sessions
from rooflens.harness.sweep.fault_attribution import MOST_FRUITLESS
from rooflens.harness.sweep.supervisor import WorkerSetupError
from rooflens.harness.sweep.sweep import Sweep
from rooflens.harness.worker.code_origin import Origin
from rooflens.harness.worker.messages import Begin, Done, Refused, Setup, UnitResult
from rooflens.shapes.errors import RooflensError, UsageError
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.suite import Cache
from rooflens.shapes.verdict import Verdict

from ..scripted_workers import DIED, HUNG, Silent, Workers, cells_of, opened, tries, tuned
from ..sharded import read_rows

PROVIDERS = ("blas", "dequant_blas")


def asked(workers):
    """(number of the search, open cells, candidates that are not to be touched) of each task."""
    found = []
    for work in workers.works:
        assert work.searches_only
        (number,) = {number for rounds in work.rounds for number in rounds}
        cells = tuple(index for index, rounds in enumerate(work.rounds) if rounds)
        found.append((number, cells, {index: sorted(failed) for index, failed in work.failed_candidates.items()}))
    return found


@pytest.fixture
def tune(tmp_path, monkeypatch):
    """Return `tune(workers)`: search one problem with two providers; the rows of tuning.csv and the observer."""

    def call(workers, searches=1, origin=None):
        monkeypatch.setattr(sessions, "SupervisedWorker", workers)
        setup = Setup("cpu", Protocol(tuning="cold"), PROVIDERS, (), origin=origin)
        cells = cells_of(PROVIDERS, caches=(Cache.COLD,))
        folder, observer = tmp_path / "run", Silent()
        store, manifest = opened(folder)
        with store:
            assert Sweep(store, cells, setup, observer, searches=searches).run(manifest)
        return read_rows(folder / "tuning.csv"), observer

    return call


def short(rows):
    return [(row["provider"], row["search"], row["candidate"], row["verdict"], row["winner"]) for row in rows]


ALL = [
    (provider, "0", candidate, "passed", winner)
    for provider in PROVIDERS
    for candidate, winner in (("0", "false"), ("1", "true"))
]


def test_each_search_asks_a_worker_of_its_own(tune):
    workers = Workers()
    rows, observer = tune(workers, searches=3)
    assert workers.begun == 3
    assert asked(workers) == [(number, (0, 1), {}) for number in range(3)]
    assert short(rows)[:4] == ALL
    assert (observer.total, observer.before, observer.units) == (6, 0, 6)
    assert {row["arch"] for row in rows} == {"x86-64"}


@pytest.mark.parametrize(("end", "verdict"), [(DIED, Verdict.CRASHED), (HUNG, Verdict.TIMEOUT)])
def test_a_worker_that_ends_costs_the_candidate_it_had_turned_to(tune, end, verdict):
    workers = Workers([tries(0, 0), tuned(0), tries(1, 0), tries(1, 1), end])
    rows, _ = tune(workers)
    assert asked(workers) == [(0, (0, 1), {}), (0, (1,), {1: [1]})]
    assert short(rows) == ALL
    assert workers.works[-1].failed_candidates[1][1][0] is verdict


def test_a_worker_may_blame_the_candidate_itself(tune):
    workers = Workers([tries(0, 1), Done(True, (Verdict.RUNTIME_ERROR, "CUDA error"))])
    rows, _ = tune(workers)
    assert asked(workers) == [(0, (0, 1), {}), (0, (0, 1), {0: [1]})]
    assert short(rows) == ALL


def test_a_fault_before_any_candidate_is_the_cells_in_flight(tune, tmp_path):
    """What two providers share is forgiven once."""
    death = [Begin("make the operands of", ((0, 0), (1, 0))), DIED]
    assert short(tune(Workers(death))[0]) == ALL
    shutil.rmtree(tmp_path / "run")
    rows, _ = tune(Workers(death, death))
    assert short(rows) == [(name, "0", "0", "crashed", "false") for name in PROVIDERS]
    assert rows[0]["reason"] == "make the operands of: worker killed by SIGSEGV"


def test_what_fails_for_the_whole_cell_is_its_row(tune):
    failed = UnitResult(0, 0, {"verdict": "oom", "reason": "making the operands: too large"})
    rows, _ = tune(Workers([Begin("make the operands of", ((0, 0), (1, 0))), failed, tuned(1), Done()]))
    assert short(rows)[0] == ("blas", "0", "0", "oom", "false")
    assert rows[0]["reason"] == "making the operands: too large"
    assert rows[0]["config"] == "{}"


def test_an_arm_that_imports_what_is_not_its_own_ends_the_sweep_with_its_reason(tune):
    workers = Workers([tries(0, 0), Refused("module mine comes from elsewhere", 1), DIED])
    with pytest.raises(RooflensError, match="module mine comes from elsewhere"):
        tune(workers, origin=Origin(*map(Path, ("tree", "environment", "mine"))))
    assert workers.begun == 1


@pytest.mark.parametrize(
    ("first", "deaths", "survives"), [(1, MOST_FRUITLESS, True), (1, MOST_FRUITLESS + 1, False), (0, 1, False)]
)
def test_a_worker_that_dies_while_it_starts_again_is_replaced_but_not_for_ever(tune, first, deaths, survives):
    workers, starts = Workers([tries(0, 0), DIED]), []

    def start(*given):
        starts.append(given)
        if first <= len(starts) - 1 < first + deaths:
            raise WorkerSetupError(None, "worker killed by SIGSEGV", Path("log"))
        return workers(*given)

    if survives:
        assert short(tune(start)[0]) == ALL
    else:
        with pytest.raises(WorkerSetupError):
            tune(start)
        assert len(starts) == first + deaths


def test_finished_searches_are_not_repeated_and_a_torn_one_is(tune, tmp_path):
    tune(Workers())
    path = tmp_path / "run" / "tuning.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]))  # the second search has one of its two rows
    workers = Workers()
    rows, observer = tune(workers)
    assert asked(workers) == [(0, (1,), {})]
    assert short(rows) == ALL
    assert (observer.total, observer.before, observer.units) == (2, 1, 1)


def test_a_row_that_is_none_is_named(tune, tmp_path):
    tune(Workers())
    path = tmp_path / "run" / "tuning.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines).replace(",0,1,x86-64", ",zero,1,x86-64", 1))
    with pytest.raises(UsageError, match=r"tuning\.csv line 3"):
        tune(Workers())
