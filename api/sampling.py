"""Rounds of samples of calls in this process, taken as `rooflens run` takes those of a cell.

Timers, flush, stop rule and telemetry are those of `harness.worker.bench.Bench`. What a worker process adds is missing:
isolation, and operands that change before every sample. Outputs are compared before and between rounds
(`harness.worker.agreement`).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

import torch

from ..harness.compare.spec import balanced
from ..harness.machine.device import find_device, gpu_possible
from ..harness.sweep.time_budget import LEAST_ROUNDS
from ..harness.timing.canary import EVERY_S
from ..harness.timing.measure import measure
from ..harness.timing.samples import Measurement
from ..harness.timing.stop import StopRule
from ..harness.timing.timer import Subject
from ..harness.timing.timers import make_timer
from ..harness.worker.agreement import UNCHECKED, Agreement
from ..harness.worker.bench import Bench
from ..shapes.device import Device
from ..shapes.errors import UsageError
from ..shapes.protocol import Protocol
from ..shapes.run_folder.disturbance import disturbances, worst
from ..shapes.suite import Cache

Call = Callable[[], object]


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """The measured rounds of several calls, by name, and how they were taken.

    `failed` are those that raised, or whose output is wrong (CorrectnessError). `outputs` has what `Agreement.begin`
    says of all but the reference, or "not checked".
    """

    device: Device
    timer: str
    cache: Cache
    of: Mapping[str, tuple[Measurement, ...]]
    failed: Mapping[str, BaseException]
    outputs: Mapping[str, str]

    @property
    def samples(self) -> dict[str, tuple[tuple[float, ...], ...]]:
        """Samples that count, in seconds: of every call those of each round."""
        return {name: tuple(tuple(one.counting) for one in taken) for name, taken in self.of.items()}

    def warnings(self, name: str) -> tuple[str, ...]:
        """Say what a reader of the times of one call should know."""
        taken = self.of[name]
        found = [str(one) for one in disturbances(worst(one.disturbed for one in taken))]
        found += dict.fromkeys(one.remark for one in taken if one.remark)
        if any(one.blocked is False for one in taken):
            found.append("the device did not stay behind the host: times include its latency (does the call wait?)")
        if len(taken) < LEAST_ROUNDS:
            found.append("one round has no interval")
        return tuple(found)


def take_rounds(
    calls: Mapping[str, Call],
    reference: Call | None,
    begun: Callable[[str], object] = lambda name: None,
    *,
    cold: bool = True,
    rounds: int,
    budget_s: float,
    within_s: float | None = None,
    timer: str = "auto",
    device: str = "auto",
) -> Rounds:
    """Measure `rounds` rounds of all calls, in an order that balances drift (`balanced`).

    Every call is made before, untimed: it may compile. Outputs are compared with those of `reference`, which may be one
    of the calls; one that is wrong, or raises, is measured no more. `budget_s` limits the sampling of one call in one
    round, as `budget_s` of a run does. `within_s` limits all rounds: sampling is cut short so that two fit, after
    which none begins that would end later. Raises UsageError for a device or timer that this machine lacks.
    """
    protocol = Protocol(rounds=rounds, budget_s=budget_s, timeout_s=2 * budget_s, timer=timer)  # checks their values
    if within_s:
        budget_s = min(budget_s, within_s / (LEAST_ROUNDS * len(calls)))
    cache = Cache.COLD if cold else Cache.WARM
    bench = open_bench(device, timer)
    if cold and bench.timer == "graph":
        raise UsageError('timer="graph": nothing can be flushed within a graph; use cold=False, or another timer')
    others = {name: call for name, call in calls.items() if call is not reference}
    outputs = dict.fromkeys(others, f"{UNCHECKED}: the baseline failed" if reference else "not checked")
    subjects: dict[str, Subject] = {}
    taken: dict[str, list[Measurement]] = {name: [] for name in calls}
    failed: dict[str, BaseException] = {}
    with _current(bench.device):
        agreement = None
        if reference:
            base = next((name for name in calls if name not in others), "reference")
            begun(base)
            with _ends_alone(base, failed):
                agreement = Agreement(reference, others, bench.machine.synchronize)
        for name, call in calls.items():
            begun(name)
            with _ends_alone(name, failed):
                if agreement and name in others:
                    outputs[name] = agreement.begin(name)
                else:
                    call()
                    bench.machine.synchronize()
                subjects[name] = bench.subject_of([call], cache)
        began = bench.machine.now()
        for number, turn in groupby(balanced(list(calls), protocol.rounds), key=itemgetter(0)):
            elapsed_s = bench.machine.now() - began
            if within_s and number >= LEAST_ROUNDS and elapsed_s * (number + 1) / number > within_s:
                break
            for name in (name for _, name in turn if name not in failed):
                begun(name)
                with _ends_alone(name, failed):
                    taken[name].append(bench.sampled(subjects[name], budget_s))
                    if agreement:
                        agreement.check(name)
    measured = {name: tuple(found) for name, found in taken.items() if name not in failed}
    return Rounds(bench.device, bench.timer, cache, measured, failed, outputs)


def take_samples(call: Call, before: Call, warmup_s: float, budget_s: float) -> list[float]:
    """Return cold samples (s) of one call, taken for `budget_s` however precise they are.

    Untimed calls precede them, for `warmup_s`; `before` is done before each call, untimed.
    """
    bench = open_bench()
    with _current(bench.device):
        ends = bench.machine.now() + warmup_s
        while True:
            before()
            call()
            bench.machine.synchronize()
            if bench.machine.now() >= ends:
                break
        cold = bench.subject_of([call], Cache.COLD)
        subject = replace(cold, before=lambda: (before(), cold.before()))
        timer = make_timer(bench.timer, bench.machine, subject, bench.device)
        rule = StopRule(Protocol().min_samples, 0.0, budget_s, timer.resolution_s)
        return measure(subject, timer, rule, bench.machine, bench.telemetry).counting


@contextmanager
def _ends_alone(name: str, failed: dict[str, BaseException]) -> Iterator[None]:
    """Let a call that raises, or is wrong, end nothing but itself."""
    try:
        yield
    except (Exception, SystemExit) as error:
        failed[name] = error


def check_calls(calls: object) -> None:
    """Raise UsageError for what is no dictionary of callables by name."""
    if not isinstance(calls, Mapping):
        raise UsageError(f"a {type(calls).__name__} cannot be measured: give a function, or a dictionary by name")
    if not calls:
        raise UsageError("nothing to measure: give at least one callable")
    for name, call in calls.items():
        if not (isinstance(name, str) and name and name.isprintable() and callable(call)):
            raise UsageError(f"{name!r}: {call!r}: a name is a text of one line, and what is measured can be called")


def canary(device: str = "auto") -> dict[str, float]:
    """Time the fixed GEMM and copy that tell whether the device itself has changed, at most once a minute.

    Returns gemm_s and copy_s in seconds.
    """
    return dict(_canary(open_bench(device), int(time.monotonic() // EVERY_S)))


@lru_cache(maxsize=1)
def _canary(bench: Bench, minute: int) -> dict[str, float]:
    with _current(bench.device):
        reading = bench.canary()
    return {name: float(reading[name]) for name in ("gemm_s", "copy_s")}


def open_bench(device: str = "auto", timer: str = "auto") -> Bench:
    """Return the bench of a device: "auto" is torch's current GPU, or the CPU where there is none."""
    if device == "auto":
        found = gpu_possible() and torch.cuda.is_available()
        device = f"cuda:{torch.cuda.current_device()}" if found else "cpu"
    return _opened(device, timer, torch.get_num_threads())


@lru_cache(maxsize=1)  # the buffer of a flush is three last-level caches large
def _opened(device: str, timer: str, threads: int) -> Bench:
    return Bench(find_device(device), Protocol(timer=timer))


@contextmanager
def _current(device: Device) -> Iterator[None]:
    """Events and launches belong to torch's current device."""
    if not device.is_gpu:
        yield
        return
    with torch.cuda.device(device.index):
        yield
