"""The bench: one device with the tools that measure on it. It knows how a cell is timed and checked, not when."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from ...kernels.inputs import decoded_calls, poison
from ...kernels.provider import AnyProvider, Config, Launch, Role, support
from ...kernels.reference import measure_all
from ...shapes.device import Device
from ...shapes.errors import UsageError
from ...shapes.protocol import Protocol
from ...shapes.suite import Cache
from ...shapes.verdict import Verdict
from ..isolation.faults import IncorrectError, LeftBehindError, ProviderError, describe, explain, is_lost
from ..isolation.process_state import Guarded
from ..plan.plan import Cell
from ..telemetry.source import telemetry
from ..timing.accelerator import Action, accelerator
from ..timing.cache import Flush, Rotation, flushed_together, level_of, rotated, warm
from ..timing.cache_sizes import copies_needed, copies_per_flush, flush_bytes
from ..timing.canary import Canary
from ..timing.measure import measure
from ..timing.samples import Measurement
from ..timing.stop import StopRule
from ..timing.timer import Subject
from ..timing.timers import available, make_timer
from .error_ratio import error_ratio
from .geometry import geometry_columns
from .messages import PREPARE_PHASE, TRY_PHASE, ChosenConfig, Failure
from .operands import Operands
from .prepared import Prepared, prepare, require_json
from .search import BRIEF, Search, Trial, nothing_to_search, search
from .watch import Watch

WATCHED = ("host", "event", "profiler")
"""Timers whose every sample is launched by the host, so that operands can change before it."""

THREADS_S, THREADS_SLACK, THREADS_LOOKS = 2e-3, 0.25, 150
"""Seconds for which the cores that launches use are counted, how many more these may be than are allowed, and how often
they are counted where they are more: a thread that waits for its next task is busy for a while."""

MOST_KERNELS, LONGEST_NAME = 100, 200
"""Kernels of a launch that are stored, and characters of their names: a decoder in torch may launch thousands, named by
all of their template arguments, and a field that is too long for readers of CSV files makes the table unreadable."""


class Bench:
    """Timer, cache control, telemetry and canary of one device, as the protocol asks for them.

    Raises UsageError for a timer that the device does not have.
    """

    def __init__(self, device: Device, protocol: Protocol) -> None:
        self.device, self._protocol = device, protocol
        self.machine = accelerator(device)
        self.timer = available(protocol.timer, self.machine, device)
        if protocol.timer == "graph" and protocol.cold_by == "flush":
            raise UsageError("timer graph: launches in a graph cannot be flushed before; set cold_by=rotation")
        if flush_bytes(device) > device.memory_bytes / 2:
            raise UsageError(
                f"a last-level cache of {device.llc_bytes >> 20} MiB: a flush reads more than that, and over half of "
                f"the memory of {device.name}; give the right size with --set llc_bytes"
            )
        self.seed = protocol.seed
        self.cold_by = protocol.cold_by
        if self.cold_by == "auto":
            self.cold_by = "rotation" if self.timer == "graph" else "flush"
        self.telemetry = telemetry(device)
        self._flush: Flush | None = None
        self._canary: Canary | None = None

    def canary(self) -> dict[str, Any]:
        """Time the canary: a row of canary.csv, without its process."""
        self._canary = self._canary or Canary(self.device, self.machine)
        return self._canary.read()

    def copies(self, cell: Cell) -> int:
        """Copies of the operands that a cell rotates among, or that share a flush."""
        if cell.cache is Cache.WARM:
            return 1
        if self.cold_by == "flush":
            problem = cell.problem
            return copies_per_flush(cell.scheme.compulsory_bytes(problem), problem.flops, self.device)
        return copies_needed(_rotated_bytes(cell), self.device)

    def measured(
        self,
        ready: Prepared,
        operands: Operands,
        cell: Cell,
        budget_s: float | None = None,
        threads_s: Callable[[], float] = float,
    ) -> Measurement:
        """Take the samples of one round, for `budget_s` instead of the protocol's time.

        `threads_s` returns the processor time of the provider's threads. Raises IncorrectError or LeftBehindError for
        launches that do less than their work while they are timed (`watch`).
        """
        self._require_threads(ready.launches[0])
        operands.flip(0)  # what copies compute before they are timed must be wrong later
        plain = self.subject(ready, cell)
        budget_s = budget_s or self._protocol.budget_s
        watch = Watch(operands, ready.launches, plain, self.machine, budget_s, threads_s, refreshes=ready.refreshes)
        taken = self.sampled(watch.subject if self.timer in WATCHED else plain, budget_s)
        self._check_watched(watch, taken)
        return taken

    def _check_watched(self, watch: Watch, taken: Measurement) -> None:
        if self.timer not in WATCHED:
            watch.check_replayed(make_timer("event", self.machine, watch.subject, self.device), taken.times_s)
        elif taken.launches_per_sample > 1:
            watch.check_repeated(taken.launches_per_sample, taken.times_s)
        watch.check(taken.times_s)

    def _require_threads(self, launch: Launch) -> None:
        """Raise ProviderError where a launch uses more cores of the host than torch, and with it every other, may."""
        allowed = torch.get_num_threads()
        if self.device.is_gpu or allowed >= len(os.sched_getaffinity(0)):
            return
        for _ in range(THREADS_LOOKS):
            cores = _busy_cores(launch)
            if cores <= allowed + THREADS_SLACK:
                return
        raise ProviderError(
            f"a launch keeps {cores:.1f} cores busy, and threads is {allowed}: use torch.get_num_threads()"
        )

    def sampled(self, subject: Subject, budget_s: float) -> Measurement:
        """Take samples until the protocol's precision is reached, or `budget_s` seconds have passed."""
        timer = make_timer(self.timer, self.machine, subject, self.device)
        rule = StopRule.of(replace(self._protocol, budget_s=budget_s), timer.resolution_s)
        return measure(subject, timer, rule, self.machine, self.telemetry)

    def subject(self, ready: Prepared, cell: Cell) -> Subject:
        """What a sample of this cell does."""
        runs = [launch.run for launch in ready.launches]
        if cell.cache is Cache.COLD and self.cold_by == "rotation":
            return rotated(Rotation(runs, _rotated_bytes(cell), self.device))
        return self.subject_of(runs, cell.cache)

    def subject_of(self, runs: Sequence[Action], cache: Cache) -> Subject:
        """What a sample of calls does that differ in nothing but their operands: flush before the first, or nothing."""
        if cache is Cache.WARM:
            return warm(runs[0])
        self._flush = self._flush or Flush(self.device)
        return flushed_together(runs, self._flush)

    def columns(self, taken: Measurement, ready: Prepared, cell: Cell, provider: AnyProvider) -> dict[str, Any]:
        """Columns of cells.csv that say how the samples were taken, and of what."""
        launch = ready.launches[0]
        work = (cell.problem, cell.scheme, launch.config)
        working_set = _whole_bytes("working_set_bytes", provider.working_set_bytes(*work))
        return {
            "verdict": Verdict.PASSED.value,
            "reason": "; ".join(filter(None, (taken.remark, ready.chosen.remark, ready.remark))),
            "timer": self.timer,
            "cold_by": "" if cell.cache is Cache.WARM else self.cold_by,
            "copies": len(ready.launches),
            "launches_per_sample": taken.launches_per_sample,
            "blocked": taken.blocked,
            "cache_level": level_of(working_set or 0, cell.cache, self.device),
            "samples": len(taken.times_s),
            "discarded": sum(map(bool, taken.discarded)),
            "disturbed": taken.disturbed,
            "stop_reason": taken.stop_reason,
            "elapsed_s": taken.elapsed_s,
            "config": dict(launch.config),
            "tuning": ready.chosen.tuning,
            "candidates": ready.chosen.candidates,
            "tuning_s": ready.chosen.seconds,
            "kernels": [str(name)[:LONGEST_NAME] for name in islice(taken.kernels or launch.kernels, MOST_KERNELS)],
            "dispatched": str(launch.dispatched),
            "artifact": str(launch.artifact),
            "math_dtype": provider.math_dtype(cell.problem, cell.scheme, self.device),
            "moved_bytes": _whole_bytes("moved_bytes", provider.moved_bytes(*work)),
            **geometry_columns(launch, self.device.compute_units),
        } | ({"role": Role.REFERENCE.value} if ready.is_reference else {})

    def check(self, ready: Prepared, operands: Operands, cell: Cell) -> dict[str, Any]:
        """Run once into a poisoned output and compare; raise IncorrectError below the scheme's floor.

        Of several copies the first and the last are run: the others differ from them in nothing but their addresses.
        """
        assert operands.truth is not None
        columns: dict[str, Any] = {}
        for launch in {id(launch): launch for launch in (ready.launches[-1], ready.launches[0])}.values():
            for output in launch.outputs:
                poison(output)
            asked = decoded_calls()
            launch()
            ready.asked.append(decoded_calls() - asked)
            self.machine.synchronize()
            found = measure_all(operands.outputs_of(launch), operands.truth)
            columns = min(found, key=lambda accuracy: accuracy.snr_db).columns()
            for number, accuracy in enumerate(found, start=1):
                if reason := accuracy.failure(cell.scheme):
                    which = f"output {number} of {len(found)}: " if len(found) > 1 else ""
                    raise IncorrectError(which + reason, columns)
        self._require_own_weight(ready, operands, cell)
        return columns

    def _require_own_weight(self, ready: Prepared, operands: Operands, cell: Cell) -> None:
        """Raise IncorrectError where a launch on another weight of the same shape has the same product, once.

        Then copies of the operands share a packed weight, and of several launches after a flush one reads it cold.
        """
        for launch in ready.other:
            operands.other()
            launch()
            self.machine.synchronize()
            found = measure_all(operands.outputs_of(launch), operands.truth or ())
            if not any(accuracy.failure(cell.scheme) for accuracy in found):
                raise IncorrectError(
                    "on a second weight of the same shape it returns the product of the first: a packed weight that is "
                    "kept by shape is wrong for a second layer, and warm where copies of the operands are to be cold; "
                    "keep it in the launch",
                    {},
                )
        ready.other.clear()

    def check_negated(self, ready: Prepared, operands: Operands, cell: Cell) -> dict[str, Any]:
        """Check on -X, whose product follows from that of X without a second reference."""
        operands.negate()
        try:
            return self.check(ready, operands, cell)
        finally:
            operands.negate()

    def candidates(self, provider: AnyProvider, cell: Cell) -> Sequence[Config]:
        """Configurations that `provider` offers for a cell, its default first. Raises ProviderError for a bad one."""
        found = provider.candidates(cell.problem, cell.scheme, self.device)
        for config in found:
            require_json(config)
        return found

    def search(
        self,
        provider: AnyProvider,
        cell: Cell,
        operands: Operands,
        begin: Callable[[int, str], object],
        guarded: Guarded,
        seed: str,
        failed: Mapping[int, Failure] | None = None,
        threads_s: Callable[[], float] = float,
        refreshes: bool = False,
    ) -> Search:
        """Search the configuration of one cell, on operands whose activations are drawn.

        `begin` is called with each candidate and its phase; each is prepared and timed within `guarded()`, watched like
        a cell of a run; `seed` and `failed` as in `search.search`, `threads_s` as in `measured`, `refreshes` as in
        `prepare`. Raises what the provider raises before its first candidate, and whatever costs the process, the
        device or the shared operands.
        """
        # Candidates take turns on the same copies: what one of them has launched on is not cold for the next.
        copies = self.copies(cell) if self.cold_by == "rotation" else 1
        answer = support(provider, cell.problem, cell.scheme, self.device)
        if not answer.ok:
            return nothing_to_search(Verdict.UNSUPPORTED, answer.reason)
        truth = operands.truth
        assert truth is not None

        def ready(candidate: int, config: Config) -> Trial:
            begin(candidate, PREPARE_PHASE)
            with guarded():
                prepared = prepare(
                    *(provider, operands.copies(copies), ChosenConfig(config or None, "cold"), self.machine),
                    refreshes=refreshes,
                    other=operands.other(copies),
                )
                begin(candidate, TRY_PHASE)
                operands.require_unchanged()
                self.check(prepared, operands, cell)
                self._require_threads(prepared.launches[0])
                error = max(map(error_ratio, prepared.launches[0].outputs, truth))
                operands.flip(0)
                subject = self.subject(prepared, cell)
                watch = Watch(
                    *(operands, prepared.launches, subject, self.machine, BRIEF.budget_s, threads_s),
                    refreshes=prepared.refreshes,
                )
                subject = watch.subject if self.timer in WATCHED else subject
                timer = make_timer(self.timer, self.machine, subject, self.device)

            def sample(rule: StopRule) -> tuple[Sequence[float], str]:
                begin(candidate, TRY_PHASE)
                rule = replace(rule, resolution_s=timer.resolution_s)
                with guarded():
                    taken = measure(subject, timer, rule, self.machine, self.telemetry)
                    self._check_watched(watch, taken)
                return taken.counting, taken.disturbed

            return Trial(sample, error, timer.resolution_s)

        def failure(error: Exception) -> Failure:
            if is_lost(error):
                raise error
            if change := operands.change():
                raise LeftBehindError(f"{describe(error)}; {change}") from error
            operands.restore()
            if isinstance(error, IncorrectError):
                return Verdict.INCORRECT, describe(error)
            return explain(error, "searching")

        # A provider without a choice has its default as the only candidate, so that it is timed like the others.
        candidates = self.candidates(provider, cell) or ({},)
        return search(candidates, ready, failure, failed=failed, seed=f"{self._protocol.seed} {seed}")


def _whole_bytes(what: str, value: Any) -> int | None:
    """Return a provider's figure as it can be stored; raise ProviderError unless it is a number of bytes."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1 << 63 or value != int(value):
        raise ProviderError(f"{what}() returned {value!r}: a positive whole number of bytes is expected, or None")
    return int(value)


def _rotated_bytes(cell: Cell) -> int:
    """Bytes of one copy that every launch must read: weights and scales; activations where there are no weights."""
    scheme, problem = cell.scheme, cell.problem
    weights = scheme.weight_bytes(problem)
    # a quantizer, whose scales are results, or the gradient of the weights
    return weights + scheme.scale_bytes(problem) if weights else scheme.activation_bytes(problem)


def _busy_cores(launch: Launch) -> float:
    """Processor time of this process over the time in which it launches."""
    began, used_s, elapsed_s = time.perf_counter(), time.process_time(), 0.0
    while elapsed_s < THREADS_S:
        launch()
        elapsed_s = time.perf_counter() - began
    return (time.process_time() - used_s) / elapsed_s
