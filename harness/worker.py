"""The worker: a child process that owns the device, measures tasks and sends rows back.

Nothing that a kernel does here (crash, hang, device fault, a print to stdout) reaches the parent except as the verdict
of the unit in flight.
"""

import contextlib
import ctypes
import io
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from ..kernels import registry
from ..kernels.inputs import make_inputs, make_weight
from ..kernels.provider import Config
from ..kernels.reference import Accuracy
from ..kernels.reference import measure as compare
from ..kernels.source_hash import source_hash
from ..shapes.errors import RooflensError, UsageError
from ..shapes.suite import Cache
from ..shapes.verdict import Verdict
from .accelerator import accelerator
from .cache import Flush, Rotation, copies_needed, flushed, level_of, rotated, warm
from .calibrate import calibrate
from .canary import EVERY_S, Canary
from .device import find_device
from .environment import environment
from .measure import Measurement, measure
from .messages import (
    Begin,
    Calibrate,
    CanaryTaken,
    Ceilings,
    Done,
    Failure,
    ProviderInfo,
    Ready,
    Refused,
    Result,
    Samples,
    Setup,
    Spoilt,
    TakeCanary,
    Trying,
    Tune,
    Tuned,
    Work,
)
from .operands import Operands
from .plan import Cell, Task
from .prepared import Chosen, Prepared, prepare
from .search import Search, nothing_to_search, search
from .stop import StopRule
from .telemetry import telemetry
from .timer import Subject
from .timers import automatic, make_timer, unavailable
from .trial import DeviceTrial


def main(connection: Connection, setup: Setup, parent: int, log: Path) -> None:
    """Entry of the child process: set up, then answer messages until the parent closes the pipe."""
    _die_with(parent)
    _redirect_output(log)
    try:
        worker = Worker(connection, setup)
    except RooflensError as error:
        connection.send(Refused(str(error), error.exit_code))
        return
    except Exception as error:
        traceback.print_exc()
        connection.send(Refused(f"{_explain(error, 'setting up the worker')[1]}; see {log}", RooflensError.exit_code))
        return
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            message = connection.recv()
            if isinstance(message, Calibrate):
                connection.send(_ceilings(worker, message))
            elif isinstance(message, TakeCanary):
                connection.send(worker.take_canary())
            elif worker.tune(message) if isinstance(message, Tune) else worker.work(message):
                return


def _ceilings(worker: "Worker", message: Calibrate) -> Ceilings:
    """Calibrate; a device that cannot (out of memory, say) costs the ceilings and not the sweep."""
    try:
        return Ceilings(*calibrate(worker.device, worker.machine, message.dtypes, worker.timer))
    except Exception as error:
        return Ceilings([], [f"no ceilings: {_explain(error, 'calibrating')[1]}"])


class Worker:
    """The device, the providers and the measuring tools of one child process."""

    def __init__(self, connection: Connection, setup: Setup) -> None:
        self._send = connection.send
        self._protocol = setup.protocol
        torch.set_num_threads(setup.threads or len(os.sched_getaffinity(0)))
        # fp32 means fp32: no TF32 (NVIDIA) or xf32 (AMD) in the BLAS baselines.
        torch.set_float32_matmul_precision("highest")
        self.device = find_device(setup.device, setup.llc_bytes)
        if self.device.is_gpu:
            torch.cuda.set_device(self.device.index)  # Triton launches on the current device
        self.timer = automatic(self.device) if setup.protocol.timer == "auto" else setup.protocol.timer
        if reason := unavailable(self.timer, self.device):
            raise UsageError(f"timer {self.timer}: {reason}; leave --timer out, or use --timer host")
        self._cold_by = setup.protocol.cold_by
        if self._cold_by == "auto":
            self._cold_by = "rotation" if self.timer == "graph" else "flush"
        self.machine = accelerator(self.device)
        self._telemetry = telemetry(self.device)
        self._providers = registry.load(setup.providers, setup.files)
        self._sources = {name: source_hash(provider) for name, provider in self._providers.items()}
        self._weight: tuple[object, Any] = (None, None)
        self._flush: Flush | None = None
        self._canary: Canary | None = None
        self._canary_due = 0.0
        self._send(
            Ready(
                device=self.device,
                environment=environment(self.device),
                providers={
                    name: ProviderInfo(provider.role.value, self._sources[name])
                    for name, provider in self._providers.items()
                },
                timer=self.timer,
                cold_by=self._cold_by,
                telemetry=self._telemetry.name,
                threads=torch.get_num_threads(),
            )
        )

    def take_canary(self) -> CanaryTaken:
        """Time the canary; a device that cannot (out of memory, say) costs the reading and not the sweep."""
        self._canary_due = self.machine.now() + EVERY_S
        try:
            self._canary = self._canary or Canary(self.device, self.machine)
            return CanaryTaken(asdict(self._canary.read()))
        except Exception as error:
            _raise_if_lost(error)
            return CanaryTaken(None, f"no canary: {_explain(error, 'timing the canary')[1]}")

    def work(self, work: Work) -> bool:
        """Measure one task. Returns True when its state was lost and this process must end."""
        job = _Job(self._send, work)
        try:
            if operands := self._make_operands(job):
                prepared = self._prepare(job, operands)
                for number in job.rounds:
                    self._round(job, operands, prepared, number)
        except _StateLostError:
            self._send(Done(restart=True))
            return True
        self._send(Done())
        return False

    def tune(self, message: Tune) -> bool:
        """Search a configuration for each open cell of one task. Returns True when this process must end."""
        cells, number = message.task.cells, message.search
        job = _Job(self._send, Work(message.task, tuple((number,) * (i in message.open) for i in range(len(cells)))))
        try:
            operands = self._make_operands(job)
            if operands and self._draw(job, operands, job.open_cells, number):
                for index in job.open_cells:
                    found = self._search_one(job, operands, index, number, message.spoilt.get(index, {}))
                    self._send(Tuned(index, found.columns(), found.winner))
        except _StateLostError:
            self._send(Done(restart=True))
            return True
        self._send(Done())
        return False

    def _search_one(
        self, job: "_Job", operands: Operands, index: int, number: int, spoilt: Mapping[int, Failure]
    ) -> Search:
        """Search for one cell of `rooflens tune`; what ends the search itself, and not one candidate, is its result."""
        cell = job.task.cells[index]
        job.begin("list the candidates of", [index], number)
        try:
            return self.search(
                cell, operands, lambda candidate: self._send(Trying(index, candidate)), f"{number} {cell}", spoilt
            )
        except Exception as error:
            failure = _explain(error, "searching")
            if _is_lost(error):
                self._send(Spoilt(*failure))
                raise _StateLostError from error
            return nothing_to_search(*failure)

    def search(
        self,
        cell: Cell,
        operands: Operands,
        begin: Callable[[int], object],
        seed: str,
        spoilt: Mapping[int, Failure] | None = None,
    ) -> Search:
        """Search the configuration of one cell, on operands whose activations are drawn.

        `begin` is told the candidate that is turned to; `seed` and `spoilt` as in `search.search`. Raises what the
        provider raises before its first candidate, and whatever costs the device or the shared weights.
        """
        provider, copies = self._providers[cell.provider], self._copies(cell)
        support = provider.supports(cell.problem, cell.scheme, self.device)
        if not support.ok:
            return nothing_to_search(Verdict.UNSUPPORTED, support.reason)
        truth = operands.truth
        assert truth is not None

        def ready(candidate: int, config: Config) -> DeviceTrial:
            begin(candidate)
            prepared = prepare(provider, operands.copies(copies), Chosen(config or None, "cold"), self.machine)
            if not operands.intact():
                raise _WeightsChangedError("changed the shared weights; work on a copy")
            self._check(prepared, operands, cell)
            subject = self._subject(prepared, cell)
            timer = make_timer(self.timer, self.machine, subject, self.device)
            return DeviceTrial(
                *(prepared, subject, timer, self.machine, self._telemetry, truth),
                begin=lambda: begin(candidate),
                check_again=lambda: self._check_negated(prepared, operands, cell),
            )

        def explain(error: Exception) -> Failure:
            if _is_lost(error):
                raise error
            operands.restore()
            if isinstance(error, _IncorrectError):
                return Verdict.INCORRECT, str(error)
            return _explain(error, "searching")

        # A provider without a choice has its default as the only candidate, so that it is timed like the others.
        candidates = provider.candidates(cell.problem, cell.scheme, self.device) or ({},)
        return search(candidates, ready, explain, spoilt=spoilt, seed=f"{self._protocol.seed} {seed}")

    def _make_operands(self, job: "_Job") -> Operands | None:
        job.begin("make the operands of", job.open_cells)
        problem, scheme = job.task.problem, job.task.scheme
        key = (problem.N, problem.K, problem.B, scheme)
        try:
            if self._weight[0] != key:
                self._weight = (None, None)  # free the old weight before the new one is drawn
                self._weight = (key, make_weight(problem, scheme, self.device, self._protocol.seed))
            return Operands(make_inputs(problem, scheme, self.device, self._protocol.seed, self._weight[1]))
        except Exception as error:
            for index in job.open_cells:
                job.fail(index, *_explain(error, "making the operands"))
            _raise_if_lost(error)
            return None

    def _prepare(self, job: "_Job", operands: Operands) -> dict[int, Prepared]:
        """Prepare each provider for its cells, once where they agree; what cannot be prepared gets its verdict here."""
        found: dict[int, Prepared] = {}
        for name in dict.fromkeys(job.task.cells[index].provider for index in job.open_cells):
            mine = [index for index in job.open_cells if job.task.cells[index].provider == name]
            job.begin("prepare", mine)
            provider, inputs = self._providers[name], operands.inputs
            ready: dict[tuple[str, int], Prepared] = {}
            try:
                support = provider.supports(inputs.problem, inputs.scheme, self.device)
                for index in mine if support.ok else ():
                    cell = job.task.cells[index]
                    chosen, copies = self._choose(job, index), self._copies(cell)
                    key = (str(chosen.config), copies)
                    if key not in ready:
                        ready[key] = prepare(provider, operands.copies(copies), chosen, self.machine)
                    found[index] = ready[key].chosen_as(chosen)
            except Exception as error:
                for index in mine:
                    found.pop(index, None)
                    job.fail(index, *_explain(error, "prepare"))
                _raise_if_lost(error)
                continue
            if not operands.intact():
                for index in mine:
                    job.fail(index, Verdict.RUNTIME_ERROR, "prepare: changed the shared weights; work on a copy")
                self._weight = (None, None)
                raise _StateLostError
            if not support.ok:
                for index in mine:
                    job.fail(index, Verdict.UNSUPPORTED, support.reason)
        return found

    def _choose(self, job: "_Job", index: int) -> Chosen:
        """Decide on the configuration of a cell."""
        return Chosen(None, "default")

    def _copies(self, cell: Cell) -> int:
        """Copies of the operands that a cell rotates among."""
        if cell.cache is Cache.WARM or self._cold_by == "flush":
            return 1
        return copies_needed(_rotated_bytes(cell), self.device)

    def _round(self, job: "_Job", operands: Operands, prepared: dict[int, Prepared], number: int) -> None:
        """Measure every open cell once, in an order of its own, on fresh activations whose reference all share."""
        mine = [index for index in job.open_cells if number in job.missing[index]]
        if not mine:
            return
        if self.machine.now() >= self._canary_due:
            job.begin("time the canary before", [], number)
            self._send(self.take_canary())
        if not self._draw(job, operands, mine, number):
            return
        random.Random(f"{self._protocol.seed} {number} {operands.inputs.problem}").shuffle(mine)
        for order, index in enumerate(mine):
            job.begin("measure", [index], number)
            cell, ready = job.task.cells[index], prepared[index]
            started = datetime.now(UTC).isoformat(timespec="milliseconds")
            columns: dict[str, Any] = {"order": order, "prepare_s": ready.seconds, "started_at": started}
            try:
                # The output is checked before timing, so that a wrong kernel costs no time, and after it on other
                # activations, so that one which goes wrong under repetition or keeps a result is not ranked.
                self._check(ready, operands, cell)
                taken = self._measured(ready, cell)
                columns |= self._columns(taken, ready, cell)
                columns |= self._check_negated(ready, operands, cell)
            except Exception as error:
                if isinstance(error, _IncorrectError):
                    job.fail(index, Verdict.INCORRECT, str(error), number, **columns, **error.columns)
                else:
                    job.fail(index, *_explain(error, "measuring"), number, **columns)
                    _raise_if_lost(error)
                operands.restore()
                continue
            job.finish(Result(index, number, columns, _samples(taken)))

    def _draw(self, job: "_Job", operands: Operands, mine: list[int], number: int) -> bool:
        """Draw the activations of a round and compute their reference; False when that failed, for all of `mine`."""
        job.begin("compute the reference of", mine, number)
        try:
            operands.draw(self._protocol.seed + 1000 * (number + 1) + operands.inputs.problem.M)
        except Exception as error:
            for index in mine:
                job.fail(index, *_explain(error, "computing the reference"), number)
            _raise_if_lost(error)
            return False
        return True

    def _measured(self, ready: Prepared, cell: Cell) -> Measurement:
        subject = self._subject(ready, cell)
        timer = make_timer(self.timer, self.machine, subject, self.device)
        rule = StopRule.of(self._protocol, timer.resolution_s)
        return measure(subject, timer, rule, self.machine, self._telemetry)

    def _subject(self, ready: Prepared, cell: Cell) -> Subject:
        """What a sample of this cell does."""
        runs = [launch.run for launch in ready.launches]
        if cell.cache is Cache.WARM:
            return warm(runs[0])
        if self._cold_by == "rotation":
            return rotated(Rotation(runs, _rotated_bytes(cell), self.device))
        self._flush = self._flush or Flush(self.device)
        return flushed(runs[0], self._flush)

    def _columns(self, taken: Measurement, ready: Prepared, cell: Cell) -> dict[str, Any]:
        launch, provider = ready.launches[0], self._providers[cell.provider]
        work = (cell.problem, cell.scheme, launch.config)
        return {
            "verdict": Verdict.PASSED.value,
            "reason": taken.remark,
            "timer": self.timer,
            "cold_by": "" if cell.cache is Cache.WARM else self._cold_by,
            "copies": len(ready.launches),
            "launches_per_sample": taken.launches_per_sample,
            "blocked": taken.blocked,
            "cache_level": level_of(provider.working_set_bytes(*work), cell.cache, self.device),
            "samples": len(taken.times_s),
            "discarded": sum(map(bool, taken.discarded)),
            "disturbed": taken.disturbed,
            "stop_reason": taken.stop_reason,
            "elapsed_s": taken.elapsed_s,
            "config": dict(launch.config),
            "tuning": ready.chosen.tuning,
            "candidates": ready.chosen.candidates,
            "tuning_s": ready.chosen.seconds,
            "kernels": list(launch.kernels or taken.kernels),
            "dispatched": launch.dispatched,
            "artifact": launch.artifact,
            "moved_bytes": provider.moved_bytes(*work),
        }

    def _check(self, ready: Prepared, operands: Operands, cell: Cell) -> dict[str, Any]:
        """Run once into a poisoned output and compare; raise _IncorrectError below the scheme's floor.

        Of several copies the first and the last are run: the others differ from them in nothing but their addresses.
        """
        assert operands.truth is not None
        columns: dict[str, Any] = {}
        for launch in {id(launch): launch for launch in (ready.launches[-1], ready.launches[0])}.values():
            launch.output.fill_(torch.nan)
            launch()
            self.machine.synchronize()
            accuracy = compare(launch.output, operands.truth)
            columns = _accuracy_columns(accuracy)
            if reason := accuracy.failure(cell.scheme):
                raise _IncorrectError(reason, columns)
        return columns

    def _check_negated(self, ready: Prepared, operands: Operands, cell: Cell) -> dict[str, Any]:
        """Check on -X, whose product follows from that of X without a second reference."""
        operands.negate()
        try:
            return self._check(ready, operands, cell)
        finally:
            operands.negate()


def _samples(taken: Measurement) -> Samples:
    """What is stored of the samples, and of what the device said during them."""
    telemetry = tuple(
        {"batch": batch, "first": first, **asdict(reading), "slowdown": " ".join(reading.slowdown)}
        for batch, (first, reading) in enumerate(taken.readings)
    )
    return Samples(taken.times_s, taken.discarded, taken.host_s, taken.spans_s, telemetry)


def _rotated_bytes(cell: Cell) -> int:
    """Bytes of one copy that every launch reads: weights and scales, whatever else it touches."""
    return cell.scheme.weight_bytes(cell.problem) + cell.scheme.scale_bytes(cell.problem)


_OF_TIMES = ("verdict", "reason", "samples", "discarded")
"""Columns that only a row with times has, or that a failure sets anew."""


class _Job:
    """Bookkeeping of one task: which (cell, round) units are still to do, and what is in flight."""

    def __init__(self, send: Any, work: Work) -> None:
        self._send = send
        self.task: Task = work.task
        self.missing = {index: list(rounds) for index, rounds in enumerate(work.rounds) if rounds}

    @property
    def open_cells(self) -> list[int]:
        """Indices of the cells that have rounds to do."""
        return list(self.missing)

    @property
    def rounds(self) -> list[int]:
        """All rounds that some cell misses, as of now."""
        return sorted({number for rounds in self.missing.values() for number in rounds})

    def begin(self, phase: str, cells: list[int], number: int | None = None) -> None:
        """Tell the parent which units would be lost from now on."""
        units = tuple((index, self.missing[index][0] if number is None else number) for index in cells)
        self._send(Begin(phase, units))

    def finish(self, result: Result) -> None:
        """Report a finished unit."""
        self._send(result)
        self.missing[result.index].remove(result.round)
        if not self.missing[result.index]:
            del self.missing[result.index]

    def fail(self, index: int, verdict: Verdict, reason: str, number: int | None = None, **columns: Any) -> None:
        """Report the failure that ends a cell."""
        columns = {name: value for name, value in columns.items() if name not in _OF_TIMES}
        number = self.missing[index][0] if number is None else number
        self._send(Result(index, number, columns | {"verdict": verdict.value, "reason": reason}))
        del self.missing[index]


class _IncorrectError(Exception):
    def __init__(self, reason: str, columns: dict[str, Any]) -> None:
        super().__init__(reason)
        self.columns = columns


class _WeightsChangedError(Exception):
    """A provider wrote into the weights that all of them share."""


class _StateLostError(Exception):
    """The device context or the shared operands are broken; nothing measured from here on would count."""


def _explain(error: BaseException, doing: str) -> tuple[Verdict, str]:
    """Verdict and one-line reason of an exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = f"{doing}: {type(error).__name__}: {lines[0] if lines else ''}"[:500]
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error):
        return Verdict.OOM, reason
    if type(error).__module__.startswith("triton") or "Triton" in type(error).__name__:
        return Verdict.COMPILE_ERROR, reason
    return Verdict.RUNTIME_ERROR, reason


def _is_lost(error: BaseException) -> bool:
    """Tell whether the device or the shared operands went with an error."""
    return isinstance(error, _WeightsChangedError) or "CUDA error" in str(error) or "HIP error" in str(error)


def _raise_if_lost(error: BaseException) -> None:
    if _is_lost(error):
        raise _StateLostError from error


def _accuracy_columns(accuracy: Accuracy) -> dict[str, Any]:
    return {
        "snr_db": accuracy.snr_db,
        "relative_error": accuracy.relative_error,
        "cosine": accuracy.cosine,
        "max_abs_error": accuracy.max_abs_error,
    }


def _die_with(parent: int) -> None:
    """Ask Linux to kill this process when the parent goes, even by SIGKILL, so that no orphan keeps the device."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _redirect_output(log: Path) -> None:
    """Send what libraries print to the log, below Python, where C++ prints as well; line by line, for who is killed."""
    for text in (sys.stdout, sys.stderr):
        if isinstance(text, io.TextIOWrapper):
            text.reconfigure(line_buffering=True)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.close(handle)
