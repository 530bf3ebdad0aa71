"""Which samples of a measurement are checked, and what happens to launches that skip their work in some of them."""

import gc
import math
import random
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from rooflens.harness.isolation.faults import IncorrectError
from rooflens.harness.machine.device import find_device
from rooflens.harness.timing.accelerator import TorchHost
from rooflens.harness.timing.cache import Turns, flushed_together, warm
from rooflens.harness.timing.stop import REFERENCE_SHARE
from rooflens.harness.timing.timer import Subject, nothing
from rooflens.harness.worker import watch as watch_module
from rooflens.harness.worker.messages import ChosenConfig
from rooflens.harness.worker.operands import Operands
from rooflens.harness.worker.prepared import prepare
from rooflens.harness.worker.watch import CHANCE, KEPT, Watch
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.provider import Launch, Provider, Role
from rooflens.kernels.registry import load, trusted
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

CPU = find_device("cpu")
HOST = TorchHost()
REPEATS = 900


@pytest.fixture
def operands():
    """Of each test its own: every check looks at all copies that there are."""
    found = Operands(make_inputs(Problem(2, 16, 64), parse_scheme("nf4-g64", DType.FP32), CPU, seed=0))
    found.copies(3)
    found.draw(1)
    return found


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """Draw the same samples in every run of a test."""
    generator = random.Random(0)
    monkeypatch.setattr(watch_module.random, "SystemRandom", lambda: generator)


class Kernel:
    """A launch per copy; `skips(number)` says of each call, counted from 0 over all copies, whether it does nothing."""

    def __init__(self, operands, copies=1, skips=lambda number: False):
        self.calls, self._skips = 0, skips
        self.launches = [self._launch(inputs) for inputs in operands.copies(copies)]

    def _launch(self, inputs):
        weight, out = inputs.dequantized().t(), inputs.empty_output()

        def run():
            if not self._skips(self.calls):
                torch.mm(inputs.x, weight, out=out)
            self.calls += 1

        return Launch(run, out)


def rotating(launches):
    """Return the subject of a rotation, which is large enough for no device."""
    turns = Turns(launches)
    return Subject(turns, copy=turns.copy, period=len(launches))


def subject_of(launches, rotates=False):
    if rotates:
        return rotating(launches)
    return flushed_together(launches, nothing) if len(launches) > 1 else warm(launches[0])


def sample(watch, count=1):
    for _ in range(count):
        watch.subject.before()
        watch.subject.launch()
        watch.subject.after()


def caught(operands, samples, copies=1, skips=lambda number: False, budget_s=0.0, rotates=False):
    """Return whether the watch finds fault with `samples` launches; `skips` counts them alone.

    Without a budget there is none for a second reference.
    """
    kernel = Kernel(operands, copies)
    operands.flip(0)
    subject = subject_of(kernel.launches, rotates)
    kernel.calls, kernel._skips = 0, skips
    watch = Watch(operands, kernel.launches, subject, HOST, budget_s)
    sample(watch, samples)
    try:
        watch.check()
    except IncorrectError as error:
        return "in a timed sample" in str(error)
    return False


def test_launches_that_compute_are_never_at_fault(operands):
    cases = [(1, False), (2, False), (3, False), (3, True), (20, True)]
    assert not any(
        caught(operands, samples, copies, rotates=kind) for samples in range(1, 12) for copies, kind in cases
    )


@pytest.mark.slow
@pytest.mark.parametrize("room", [KEPT, 1])
@pytest.mark.parametrize(
    ("samples", "copies", "rotates"), [(6, 1, False), (10, 1, False), (18, 3, False), (6, 8, True), (10, 3, True)]
)
def test_every_sample_is_as_likely_to_be_checked(operands, monkeypatch, samples, copies, rotates, room):
    """A skip in one sample is found with the probability that this sample is among those that are kept."""
    if room == 1:
        monkeypatch.setattr(watch_module, "LARGE_BYTES", 0)
    found = [[] for _ in range(samples)]
    for number in range(REPEATS):
        where = number % samples
        found[where].append(caught(operands, samples, copies, lambda call, where=where: call == where, rotates=rotates))
    draws = range(samples + 1)
    chances = (math.comb(samples, drawn) * CHANCE**drawn * (1 - CHANCE) ** (samples - drawn) for drawn in draws)
    expected = sum(chance * min(drawn, room) for drawn, chance in enumerate(chances)) / samples
    for outcomes in found:
        error = (expected * (1 - expected) / len(outcomes)) ** 0.5
        assert sum(outcomes) / len(outcomes) == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize("samples", [1, 2, 3, 30])
@pytest.mark.parametrize(("copies", "rotates"), [(1, False), (3, False), (3, True), (20, True)])
def test_a_kept_result_is_always_found(operands, samples, copies, rotates):
    """However few the samples are, outputs for activations of both signs are checked."""
    assert all(caught(operands, samples, copies, lambda call: call > 0, rotates=rotates) for _ in range(30))


SURROUNDINGS = {
    "version": lambda inputs: [inputs.x._version],
    "objects": lambda inputs: [len(gc.get_objects(0))],
    "allocations": lambda inputs: [gc.get_count()[0]],
    "blocks": lambda inputs: [sys.getallocatedblocks()],
    "references": lambda inputs: [sys.getrefcount(value) for value in (False, True, None)],
    "generators": lambda inputs: [torch.get_rng_state().sum().item(), hash(random.getstate())],
}
"""What a launch can read, as numbers that are compared with those of the launch before on the same copy."""


@pytest.mark.slow
@pytest.mark.parametrize("budget_s", [0.0, 1e9])
@pytest.mark.parametrize(("copies", "rotates"), [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("look", SURROUNDINGS)
def test_no_launch_sees_whether_it_is_checked(operands, monkeypatch, look, copies, rotates, budget_s):
    """Up to each launch, everything around it is as it is where nothing is known of any activations, but their values.

    Which of these are checked is drawn after the launch.
    """

    def steps(known):
        """Look at launches up to the one of a known sample, which is to be checked."""
        generator, found = random.Random(3), []
        monkeypatch.setattr(watch_module.random, "SystemRandom", lambda: generator)
        launches = [
            Launch(
                lambda inputs=inputs, run=launch.run: (found.append(SURROUNDINGS[look](inputs)), run()), launch.output
            )
            for launch, inputs in zip(Kernel(operands, copies).launches, operands.copies(copies), strict=True)
        ]
        watch = Watch(operands, launches, subject_of(launches, rotates), HOST, budget_s)
        draws = iter([1.0] * known + [0.0] + [1.0] * 20)
        generator.random = lambda: next(draws)
        found.clear()
        gc.collect()
        gc.disable()
        sample(watch, 10)
        gc.enable()
        watch.check()
        return [
            [now - before for before, now in zip(*pair, strict=True)]
            for pair in zip(found, found[copies : known + 1], strict=False)
        ]

    steps(0)  # what is made once, by the first that needs it
    nothing_known = steps(9)
    assert len(nothing_known) == 10 - copies
    for known in range(copies, 9):
        assert steps(known) == nothing_known[: known + 1 - copies]


@pytest.mark.parametrize(("copies", "rotates"), [(1, False), (3, False), (2, True), (3, True), (20, True)])
def test_what_a_warm_up_has_computed_is_wrong_later(operands, copies, rotates):
    """A timer launches before it takes samples; what a launch computed then does for none of them.

    Known activations come again, since there are two kinds, but never twice in succession.
    """
    kernel, seen, latest = Kernel(operands, copies), set(), {}
    watch = Watch(operands, kernel.launches, subject_of(kernel.launches, rotates), HOST, 0.0)
    inputs = operands.copies(copies)
    operands.recall()
    known = {x.numpy().tobytes() for x in (inputs[0].activations[0], -inputs[0].activations[0])}
    for number in range(3 * copies + 1):
        is_sample = number >= copies
        watch.subject.before()
        now = watch.subject.copy(), inputs[watch.subject.copy()].activations[0].numpy().tobytes()
        assert not (is_sample and now in seen and now[1] not in known)
        assert latest.get(now[0]) != now[1]
        latest[now[0]] = now[1]
        if number <= copies:
            seen.add(now)
        watch.subject.launch()
        if is_sample:
            watch.subject.after()


def test_in_a_rotation_a_sample_changes_one_copy(operands):
    """Hundreds of operations before a sample would not be queued in time; what was just written would not be cold."""
    kernel = Kernel(operands, 20)
    watch = Watch(operands, kernel.launches, rotating(kernel.launches), HOST, 0.0)
    sample(watch)
    for number in range(24):
        before = [copy.activations[0].clone() for copy in operands.copies(20)]
        sample(watch)
        changed = [
            not torch.equal(*pair) for pair in zip(before, (c.activations[0] for c in operands.copies(20)), strict=True)
        ]
        assert [place for place, one in enumerate(changed) if one] == [number % 20]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("rotates", [False, True])
def test_candidates_that_take_turns_on_the_same_copies_are_all_checked(operands, rotates, together):
    """Each changes the activations of the others, also when its outputs have been compared, or before any have."""
    for skips in (lambda number: False, lambda number: number > 7):
        kernels = [Kernel(operands, 3, skips if number else lambda number: False) for number in range(3)]
        watches = [
            Watch(operands, kernel.launches, subject_of(kernel.launches, rotates), HOST, 0.0) for kernel in kernels
        ]
        at_fault = set()
        for _ in range(4):
            for turns in [watches] if together else [[watch] for watch in watches]:
                for watch in turns * (5 if together else 1):
                    sample(watch, 7)
                for watch in turns:
                    try:
                        watch.check()
                    except IncorrectError:
                        at_fault.add(watches.index(watch))
        assert at_fault == ({1, 2} if skips(30) else set())


@pytest.mark.parametrize("samples", [1, 2, 7])
@pytest.mark.parametrize("copies", [1, 3])
def test_a_launch_that_writes_into_its_activations_is_always_found(operands, samples, copies):
    """Also by the last launch of all, whose own output is right."""

    kernel = Kernel(operands, copies)
    watch = Watch(operands, kernel.launches, subject_of(kernel.launches), HOST, 0.0)
    sample(watch, samples)
    operands.copies(copies)[(samples - 1) % copies].activations[0].view(-1)[3].add_(1)
    with pytest.raises(IncorrectError, match="wrote into the activations that all providers share"):
        watch.check()
    assert not operands.rewritten()


def is_known(operands):
    """Return a function that tells, at each launch, whether its activations are known by sight."""
    seen = set()

    def known(number):
        signs = tuple(operands.inputs.activations[0].signbit().flatten().tolist())
        found = signs in seen
        seen.add(signs)
        return found

    return known


@pytest.mark.parametrize("budget_s", [0.0, 1e9])
def test_activations_that_come_once_only_find_what_is_known_by_sight(operands, budget_s):
    """Without a second reference, what computes for the known activations alone is wrong at their first sight only."""
    outcomes = []
    for _ in range(40):
        known = is_known(operands)
        outcomes.append(caught(operands, 40, 1, lambda number, known=known: not known(number), budget_s))
    assert sum(outcomes) == 40 if budget_s else sum(outcomes) < 40


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_second_references_take_their_share_of_the_time(operands, monkeypatch, share):
    """Of rounds whose reference takes longer than its share, so many have one that the share is kept in the mean."""
    all_known = CHANCE**5 * 3 / 4 * 3 / 5  # three of them are kept, which the fourth and fifth may replace
    monkeypatch.setattr(operands, "reference_s", 1.0)
    computed = []
    monkeypatch.setattr(
        operands, "truth_of", lambda flipped, part: computed.append(flipped) or nullcontext(operands.truth)
    )
    for _ in range(400):
        caught(operands, 5, budget_s=share / REFERENCE_SHARE)
    expected = share * (1 - all_known)
    assert len(computed) / 400 == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 400) ** 0.5)


@pytest.mark.parametrize("samples", [3, 5, 8, 12])
def test_few_activations_of_a_round_come_again(operands, samples):
    """However few the samples are, what keeps all its results has most of them to compute: the median is honest."""
    rounds_won = 0
    for _ in range(200):
        known, again = is_known(operands), []
        caught(operands, samples, skips=lambda number, known=known, again=again: again.append(known(number)))
        rounds_won += sum(again[:samples]) > samples / 2
    assert rounds_won < 0.1 * 200


def test_after_a_check_the_activations_are_those_that_were_drawn(operands):
    before = [tensor.clone() for tensor in operands.inputs.activations]
    caught(operands, 7)
    assert all(map(torch.equal, before, operands.inputs.activations))


def repeated(operands, skips, copies=1):
    """Compare launches that follow each other at once, with changes between them and without.

    `skips` is told whether the activations are those of this copy's last launch.
    """
    kernel, seen = Kernel(operands, copies), {}

    def working(launch, inputs):
        def run():
            bits = inputs.activations[0].numpy().tobytes()
            if not skips(seen.get(id(inputs)) == bits):
                used_s = time.process_time()
                launch.run()
                while time.process_time() - used_s < 3e-5:  # its work
                    pass
            seen[id(inputs)] = bits

        return Launch(run, launch.output)

    launches = [
        working(launch, inputs) for launch, inputs in zip(kernel.launches, operands.copies(copies), strict=True)
    ]
    operands.flip(0)
    watch = Watch(operands, launches, subject_of(launches), HOST, 1e9)
    watch.check_repeated(20, [1e-6])
    watch.check()


@pytest.mark.exclusive
@pytest.mark.parametrize("copies", [1, 3])
def test_an_honest_launch_may_be_repeated(operands, copies):
    """What was changed between the launches is as it was (`Watch.check` would tell)."""
    repeated(operands, lambda same: False, copies)


@pytest.mark.exclusive
@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_busy_cores_are_no_skipped_work(operands, share):
    """Threads that wait for a core make some launches take many times as long, whatever the activations."""
    draw = random.Random(7)

    def skips(same):
        used_s = time.process_time()
        while draw.random() < share and time.process_time() - used_s < 2e-4:
            pass
        return False

    repeated(operands, skips)


def after(many):
    """Return `skips` that is true of further calls on the same activations once there were so many."""
    calls = [0]

    def skips(same):
        calls[0] = calls[0] + 1 if same else 0
        return calls[0] >= many

    return skips


def two_of_three(skipping):
    """Return `skips` that is true of two calls of three among those where `skipping(same)` is."""
    calls = []

    def skips(same):
        calls.extend([None] * skipping(same))
        return skipping(same) and len(calls) % 3 > 0

    return skips


@pytest.mark.exclusive
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("skips", [lambda same: same, two_of_three(lambda same: same), after(10)])
def test_a_launch_that_skips_where_nothing_has_changed_is_found(operands, skips, copies):
    """Also one that computes now and then, so that it looks just a little faster than it is."""
    with pytest.raises(IncorrectError, match="it does not compute again what it keeps"):
        repeated(operands, skips, copies)


@pytest.mark.exclusive
def test_a_launch_that_stops_computing_among_the_bursts_is_found(operands):
    """Its first outputs are right; what decides are the times of later ones, which are checked as well."""
    calls = []

    def skips(same):
        calls.append(same)
        return len(calls) > 120  # beyond the first pair, of 80 launches at most

    with pytest.raises(IncorrectError, match="in a timed sample"):
        repeated(operands, skips)
    assert len(calls) < 200, "found among the bursts, not by the check after them"


@pytest.mark.exclusive
def test_a_launch_that_skips_what_follows_at_once_is_found(operands):
    def many_rounds():
        for _ in range(20):
            repeated(operands, two_of_three(lambda same: True))

    with pytest.raises(IncorrectError, match="in a timed sample"):
        many_rounds()


@pytest.mark.parametrize(
    ("is_late", "caught"),
    [
        (lambda number: True, True),
        (lambda number: number % 10 != 5, True),
        (lambda number: number % 2, False),
        (lambda number: False, False),
    ],
    ids=["all", "nine of ten", "half", "none"],
)
def test_what_is_computed_after_the_launch_belongs_to_it(operands, is_late, caught):
    """A signal, a hook or a thread computes before anybody looks; other processes delay some copies."""
    kernel = Kernel(operands)
    watch = Watch(operands, kernel.launches, warm(kernel.launches[0]), HOST, 1e9)
    for number in range(40):
        watch.subject.before()
        ended_s = HOST.now() - 2e-3 * bool(is_late(number))
        watch.subject.launch()
        watch.subject.after(ended_s if is_late(number) else HOST.now())
    with pytest.raises(IncorrectError, match="us later") if caught else nullcontext():
        watch.check()


def test_copies_that_are_slow_after_a_flush_are_no_late_outputs(operands, monkeypatch):
    """A flush evicts the code that copies, so that the first copy after it takes long, and the second does not."""
    kernel, is_cold, copy, now_s = Kernel(operands), [], Watch._copy, [0.0]

    def copy_(self, *kept):
        now_s[0] += 1e-3 if is_cold else 1e-6
        is_cold.clear()
        copy(self, *kept)

    monkeypatch.setattr(Watch, "_copy", copy_)
    host = SimpleNamespace(now=lambda: now_s[0], is_asynchronous=False)
    subject = replace(warm(kernel.launches[0]), before=lambda: is_cold.append(None))
    watch = Watch(operands, kernel.launches, subject, host, 1e9)
    for _ in range(40):
        watch.subject.before()
        watch.subject.launch()
        watch.subject.after(host.now())
    watch.check()


def test_nobody_who_can_win_computes_ahead_of_the_timed_call(operands):
    class Own(Provider):
        name = "own"

        def prepare(self, inputs, config=None):
            return Launch(lambda: None, inputs.empty_output(), refresh=lambda: None)

    for role in Role:
        one = Own()
        one.role = role
        assert trusted({"own": one}) == ({"own"} if role is Role.REFERENCE else set())
    assert "blas" in trusted(load(["blas", "simt_4bit"]))
    for refreshes in (False, True):
        ready = prepare(one, operands.copies(2), ChosenConfig(None, "default"), HOST, refreshes=refreshes)
        assert len(ready.refreshes) == 2 * refreshes
