"""The sweep within a time: rounds that fill it, problems left for later, and further rounds of a finished run."""

import collections
import dataclasses
import types
from typing import ClassVar

import pytest
from rooflens.harness.plan.plan import spread
from rooflens.harness.sweep import deadline
from rooflens.harness.sweep import session as sessions
from rooflens.harness.sweep import sweep as sweeps
from rooflens.harness.sweep.sweep import Sweep
from rooflens.harness.sweep.time_budget import MOST_ROUNDS, TimeBudget
from rooflens.harness.timing.samples import Samples
from rooflens.harness.worker.messages import REFERENCE_PHASE, Begin, Setup, Stored, UnitResult, Work

from .. import scripted_workers
from ..scripted_workers import PROTOCOL, Silent, Worker, cells_of, opened


@pytest.fixture
def within(tmp_path, monkeypatch):
    """Return `within(seconds)`: sweep four problems with two providers for so long on a clock that only units move."""
    clock = types.SimpleNamespace(now=0.0)
    fake = types.SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr(sessions, "time", fake)
    monkeypatch.setattr(sweeps, "time", fake)
    monkeypatch.setattr(deadline, "time", fake)

    class Ticking(Worker):
        """A unit takes 0.5 s or what it may sample, the preparation of a task 1 s."""

        budgets: ClassVar[list[float]] = []

        def send(self, message):
            if isinstance(message, Stored):
                return
            super().send(message)
            if isinstance(message, Work):
                self.budgets.append(message.budget_s)
                self.answers.insert(0, Begin(REFERENCE_PHASE, ()))

        def receive(self, deadline):
            answer = super().receive(deadline)
            if isinstance(answer, Begin) and answer.phase == REFERENCE_PHASE:
                clock.now += 1.0
            elif isinstance(answer, UnitResult):
                clock.now += 0.5
            return answer

    def call(seconds, rounds=MOST_ROUNDS):
        monkeypatch.setattr(sessions, "SupervisedWorker", lambda setup, *_: Ticking(setup, None, "source"))
        cells = spread(cells_of(("blas", "dequant_blas"), 2, "M <= 4"))
        setup = Setup("cpu", PROTOCOL, ("blas", "dequant_blas"), ())
        store, manifest = opened(tmp_path / "run")
        with store:
            manifest.rounds = manifest.protocol.rounds = PROTOCOL.rounds
            clock.now = 0.0
            until, budget = deadline.Deadline(seconds), TimeBudget(rounds)
            sweep = Sweep(store, cells, setup, Silent(), False, until, budget=budget)
            complete = sweep.run(manifest)
            counts = collections.Counter(cell for cell, _ in store.verdicts)
        return complete, manifest, sorted(counts.values()), clock.now, Ticking.budgets

    return call


def test_a_time_budget_is_filled_with_rounds_of_every_cell(within):
    """4 problems x (1 s + 2 providers x 0.5 s) = 8 s, twice; then 4 s of preparation and 4 s for each round."""
    complete, manifest, counts, now, _ = within(40.0)
    assert complete
    assert 25.0 <= now <= 40.0
    assert min(counts) == manifest.rounds == manifest.protocol.rounds >= 5
    assert manifest.planned_units == 8 * manifest.rounds


@pytest.mark.parametrize(
    ("seconds", "counts"), [(5.0, [1] * 4), (8.0, [1] * 6), (10.0, [1] * 8), (14.0, [1] * 4 + [2] * 4)]
)
def test_a_second_round_begins_when_all_have_the_first(within, seconds, counts):
    """A round of the four problems takes 2 s each, and 2 s are kept for the end."""
    complete, manifest, found, now, _ = within(seconds)
    assert not complete
    assert now <= seconds
    assert manifest.rounds == 2  # the second is missing
    assert found == counts


def test_a_run_goes_on_with_the_rounds_that_were_missing(within):
    assert within(14.0)[2] == [1] * 4 + [2] * 4
    complete, manifest, counts, now, _ = within(8.0, rounds=2)
    assert (complete, manifest.rounds, counts, now) == (True, 2, [2] * 8, 4.0)


def test_a_finished_run_has_no_more_rounds_than_are_allowed_and_goes_on_with_further_ones(within):
    complete, manifest, counts, now, _ = within(1000.0, rounds=3)
    assert (complete, manifest.rounds, counts) == (True, 3, [3] * 8)
    assert now < 30.0
    complete, manifest, counts, _, _ = within(30.0)
    assert complete
    assert manifest.rounds == min(counts) > 3
    assert manifest.planned_units == 8 * manifest.rounds


def test_a_first_problem_that_fails_does_not_stop_the_clock(within, monkeypatch):
    failing = UnitResult(
        0, 0, {"order": 0, "verdict": "runtime_error", "reason": "boom", "started_at": "now"}, Samples()
    )
    monkeypatch.setattr(
        scripted_workers, "passed", lambda index, number: dataclasses.replace(failing, index=index, round=number)
    )
    complete, _, counts, now, _ = within(4.0)
    assert not complete
    assert now <= 4.0
    assert len(counts) < 8


def test_one_problem_is_measured_in_however_short_a_time(within):
    complete, _, counts, now, _ = within(0.1)
    assert (complete, counts, now) == (False, [1, 1], 2.0)


def test_units_sample_for_a_shorter_time_when_there_is_little_of_it(within):
    _, _, _, _, budgets = within(40.0)
    assert budgets[0] == PROTOCOL.budget_s
    assert all(0 < budget <= PROTOCOL.budget_s for budget in budgets)
