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
import time
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from ..kernels import registry
from ..kernels.inputs import FourBitInputs, make_inputs, make_weight
from ..kernels.provider import Launch
from ..kernels.reference import Accuracy, reference
from ..kernels.reference import measure as compare
from ..kernels.source_hash import source_hash
from ..shapes.device import Device
from ..shapes.errors import RooflensError
from ..shapes.suite import Cache
from ..shapes.verdict import Verdict
from .cache import control, level_of
from .calibrate import calibrate
from .device import find_device
from .environment import environment
from .measure import measure
from .messages import Begin, Calibrate, Ceilings, Done, ProviderInfo, Ready, Refused, Result, Setup, Work
from .plan import Cell, Task
from .stop import StopRule
from .timers import make_timer, synchronizer


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
                connection.send(_ceilings(worker.device, message, setup.protocol.timer))
            elif worker.work(message):
                return


def _ceilings(device: Device, message: Calibrate, timer: str) -> Ceilings:
    """Calibrate; a device that cannot (out of memory, say) costs the ceilings and not the sweep."""
    try:
        return Ceilings(*calibrate(device, message.dtypes, timer))
    except Exception as error:
        return Ceilings([], [f"no ceilings: {_explain(error, 'calibrating')[1]}"])


class Worker:
    """The device, the providers and the caches' controls of one child process."""

    def __init__(self, connection: Connection, setup: Setup) -> None:
        self._send = connection.send
        self._protocol = setup.protocol
        torch.set_num_threads(setup.threads or len(os.sched_getaffinity(0)))
        # fp32 means fp32: no TF32 (NVIDIA) or xf32 (AMD) in the BLAS baselines.
        torch.set_float32_matmul_precision("highest")
        self.device = find_device(setup.device, setup.llc_bytes)
        if self.device.is_gpu:
            torch.cuda.set_device(self.device.index)  # Triton launches on the current device
        self._providers = registry.load(setup.providers, setup.files)
        self._sources = {name: source_hash(provider) for name, provider in self._providers.items()}
        self._controls = {cache: control(cache, self.device) for cache in Cache}
        self._timers = {
            cache: make_timer(setup.protocol.timer, self.device, change.operations)
            for cache, change in self._controls.items()
        }
        self._synchronize = synchronizer(self.device)
        self._weight: tuple[object, Any] = (None, None)
        self._checksum = (0, 0.0)
        self._send(
            Ready(
                device=self.device,
                environment=environment(self.device),
                providers={
                    name: ProviderInfo(provider.role.value, self._sources[name])
                    for name, provider in self._providers.items()
                },
                timer=self._timers[Cache.WARM].name,
                threads=torch.get_num_threads(),
            )
        )

    def work(self, work: Work) -> bool:
        """Measure one task. Returns True when its state was lost and this process must end."""
        job = _Job(self._send, work)
        try:
            if inputs := self._make_inputs(job):
                launches = dict(self._prepare(job, inputs))
                for number in job.rounds:
                    self._round(job, inputs, launches, number)
        except _StateLostError:
            self._send(Done(restart=True))
            return True
        self._send(Done())
        return False

    def _make_inputs(self, job: "_Job") -> FourBitInputs | None:
        job.begin("make the operands of", job.open_cells)
        problem, scheme = job.task.problem, job.task.scheme
        key = (problem.N, problem.K, problem.B, scheme)
        try:
            if self._weight[0] != key:
                self._weight = (None, None)  # free the old weight before the new one is drawn
                self._weight = (key, make_weight(problem, scheme, self.device, self._protocol.seed))
            inputs = make_inputs(problem, scheme, self.device, self._protocol.seed, self._weight[1])
            self._checksum = _checksum(inputs)
            return inputs
        except Exception as error:
            for index in job.open_cells:
                job.fail(index, *_explain(error, "making the operands"))
            _raise_if_lost(error)
            return None

    def _prepare(self, job: "_Job", inputs: FourBitInputs) -> Iterator[tuple[str, tuple[Launch, float]]]:
        """Prepare each provider once for all its cells; what cannot be prepared gets its verdict here."""
        for name in dict.fromkeys(job.task.cells[index].provider for index in job.open_cells):
            mine = [index for index in job.open_cells if job.task.cells[index].provider == name]
            job.begin("prepare", mine)
            provider = self._providers[name]
            begin = time.perf_counter()
            try:
                support = provider.supports(inputs.problem, inputs.scheme, self.device)
                launch = provider.prepare(inputs) if support.ok else None
                self._synchronize()
            except Exception as error:
                for index in mine:
                    job.fail(index, *_explain(error, "prepare"))
                _raise_if_lost(error)
                continue
            if _checksum(inputs) != self._checksum:
                for index in mine:
                    job.fail(index, Verdict.RUNTIME_ERROR, "prepare: changed the shared weights; work on a copy")
                self._weight = (None, None)
                raise _StateLostError
            if launch is None:
                for index in mine:
                    job.fail(index, Verdict.UNSUPPORTED, support.reason)
            else:
                yield name, (launch, time.perf_counter() - begin)

    def _round(
        self, job: "_Job", inputs: FourBitInputs, launches: dict[str, tuple[Launch, float]], number: int
    ) -> None:
        """Measure every open cell once, in an order of its own, on fresh activations whose reference all share."""
        mine = [index for index in job.open_cells if number in job.missing[index]]
        if not mine:
            return
        job.begin("compute the reference of", mine, number)
        seed = self._protocol.seed + 1000 * (number + 1) + inputs.problem.M
        try:
            inputs.refresh_activations(seed)
            truth = reference(inputs)
        except Exception as error:
            for index in mine:
                job.fail(index, *_explain(error, "computing the reference"), number)
            _raise_if_lost(error)
            return
        random.Random(f"{self._protocol.seed} {number} {inputs.problem}").shuffle(mine)
        for order, index in enumerate(mine):
            job.begin("measure", [index], number)
            cell = job.task.cells[index]
            launch, prepare_s = launches[cell.provider]
            started = datetime.now(UTC).isoformat(timespec="milliseconds")
            columns: dict[str, Any] = {"order": order, "prepare_s": prepare_s, "started_at": started}
            try:
                # The output is checked before timing, so that a wrong kernel costs no time, and after it on other
                # activations, so that one which goes wrong under repetition or keeps a result is not ranked.
                self._check(launch, truth, cell)
                columns |= self._measured(cell, inputs, launch)
                columns |= self._check_negated(launch, truth, cell, inputs)
            except Exception as error:
                if isinstance(error, _IncorrectError):
                    job.fail(index, Verdict.INCORRECT, str(error), number, **columns, **error.columns)
                else:
                    job.fail(index, *_explain(error, "measuring"), number, **columns)
                    _raise_if_lost(error)
                inputs.refresh_activations(seed)  # it may have written into them, which its neighbours would pay for
                continue
            samples, host = columns.pop("times_s"), columns.pop("host_s")
            job.finish(Result(index, number, columns | {"verdict": Verdict.PASSED.value}, samples, host))

    def _measured(self, cell: Cell, inputs: FourBitInputs, launch: Launch) -> dict[str, Any]:
        timer = self._timers[cell.cache]
        rule = StopRule.of(self._protocol, timer.resolution_s)
        taken = measure(launch, timer, self._controls[cell.cache], rule)
        provider = self._providers[cell.provider]
        return {
            "times_s": taken.times_s,
            "host_s": taken.host_s,
            "samples": len(taken.times_s),
            "timer": timer.name,
            "blocked": taken.blocked,
            "stop_reason": taken.stop_reason,
            "elapsed_s": taken.elapsed_s,
            "cache_level": level_of(cell.scheme.compulsory_bytes(cell.problem), cell.cache, self.device),
            "config": dict(launch.config),
            "kernels": list(launch.kernels),
            "dispatched": launch.dispatched,
            "artifact": launch.artifact,
            "moved_bytes": provider.moved_bytes(inputs.problem, inputs.scheme, launch.config),
        }

    def _check(self, launch: Launch, truth: torch.Tensor, cell: Cell) -> dict[str, Any]:
        """Run once into a poisoned output and compare; raise _IncorrectError below the scheme's floor."""
        launch.output.fill_(torch.nan)
        launch()
        self._synchronize()
        accuracy = compare(launch.output, truth)
        columns = _accuracy_columns(accuracy)
        if reason := accuracy.failure(cell.scheme):
            raise _IncorrectError(reason, columns)
        return columns

    def _check_negated(self, launch: Launch, truth: torch.Tensor, cell: Cell, inputs: FourBitInputs) -> dict[str, Any]:
        """Check on -X, whose product follows from that of X: 2 bias - Y(X), without a second reference."""
        _negate(inputs, truth)
        try:
            return self._check(launch, truth, cell)
        finally:
            _negate(inputs, truth)


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
        for name in ("times_s", "host_s", "samples"):
            columns.pop(name, None)
        number = self.missing[index][0] if number is None else number
        self._send(Result(index, number, columns | {"verdict": verdict.value, "reason": reason}))
        del self.missing[index]


class _IncorrectError(Exception):
    def __init__(self, reason: str, columns: dict[str, Any]) -> None:
        super().__init__(reason)
        self.columns = columns


class _StateLostError(Exception):
    """The device context or the shared operands are broken; nothing measured from here on would count."""


def _checksum(inputs: FourBitInputs) -> tuple[int, float]:
    """Sums over the shared weights, which a provider must leave as they are."""
    return int(inputs.packed.sum(dtype=torch.int64)), float(inputs.absmax.double().sum())


def _explain(error: BaseException, doing: str) -> tuple[Verdict, str]:
    """Verdict and one-line reason of an exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = f"{doing}: {type(error).__name__}: {lines[0] if lines else ''}"[:500]
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error):
        return Verdict.OOM, reason
    if type(error).__module__.startswith("triton") or "Triton" in type(error).__name__:
        return Verdict.COMPILE_ERROR, reason
    return Verdict.RUNTIME_ERROR, reason


def _negate(inputs: FourBitInputs, truth: torch.Tensor) -> None:
    """Turn X into -X, and the fp64 product of X into that of -X, in place."""
    inputs.x.neg_()
    truth.neg_()
    if inputs.bias is not None:
        truth.add_(inputs.bias.double(), alpha=2)


def _raise_if_lost(error: BaseException) -> None:
    if "CUDA error" in str(error) or "HIP error" in str(error):
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
