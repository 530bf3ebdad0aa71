"""The worker: a child process that owns the device, measures tasks and sends rows back.

Nothing that a kernel does here (crash, hang, device fault, a print to stdout) reaches the parent except as the verdict
of the unit in flight.
"""

import contextlib
import faulthandler
import gc
import os
import random
import traceback
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from ...kernels import provider as providers
from ...kernels import registry
from ...kernels.identity import code_of, identity
from ...kernels.inputs import make_inputs, make_weight, other_weight
from ...shapes.errors import RooflensError, UsageError
from ...shapes.verdict import Verdict
from ..ceilings.probe import calibrate
from ..isolation.child import redirect_output
from ..isolation.faults import (
    IncorrectError,
    StateLostError,
    describe,
    explain,
    is_lost,
    mark_lost,
    raise_if_lost,
)
from ..isolation.process_state import Guard
from ..machine.device import find_device
from ..machine.software import version
from ..plan.plan import Task
from ..telemetry.clock import CLOCK
from ..timing.canary import EVERY_S, STARTING, STARTING_S
from . import wire
from .bench import Bench
from .code_origin import Origin, OriginError, loaded_code
from .configurations import Configurations
from .messages import (
    CANARY_PHASE,
    IMPORT_PHASE,
    MEASURE_PHASE,
    PREPARE_PHASE,
    REFERENCE_PHASE,
    Begin,
    Calibrate,
    Calibrated,
    CanaryTaken,
    Done,
    Refused,
    SearchResult,
    Setup,
    Stored,
    TakeCanary,
    UnitResult,
    Work,
)
from .operands import Operands
from .prepared import Prepared, prepare
from .search import nothing_to_search
from .task_progress import TaskProgress
from .worker_info import ready


def main(connection: Connection, setup: Setup, log: Path) -> None:
    """Entry of the child process: set up, then answer messages until the parent closes the pipe."""
    redirect_output(log)
    faulthandler.enable()  # a kernel that crashes leaves its Python lines in the log
    try:
        worker = Worker(connection, setup)
    except RooflensError as error:
        wire.send(connection, Refused(str(error), error.exit_code))
        return
    except Exception as error:
        traceback.print_exc()
        why = f"{explain(error, 'setting up the worker')[1]}; see {log}"
        wire.send(connection, Refused(why, RooflensError.exit_code))
        return
    with contextlib.suppress(EOFError, BrokenPipeError):
        try:
            while worker.answer(wire.receive(connection)):
                pass
        except OriginError as error:
            wire.send(connection, Refused(str(error), error.exit_code))


KEPT_WEIGHTS = 1 / 64
"""Share of the device's memory for weights that are kept for their next M or round, at 2 bytes an element."""


class _EnoughError(Exception):
    """The parent wants no more of this task."""


class Worker:
    """The device, the providers and the tasks of one child process."""

    def __init__(self, connection: Connection, setup: Setup) -> None:
        self._send, self._receive = partial(wire.send, connection), partial(wire.receive, connection)
        self._protocol = setup.protocol
        torch.set_num_threads(setup.protocol.threads or len(os.sched_getaffinity(0)))
        # fp32 means fp32: no TF32 (NVIDIA) or xf32 (AMD) in the BLAS baselines.
        torch.set_float32_matmul_precision("highest")
        self.device = find_device(setup.device, setup.protocol.llc_bytes)
        if self.device.is_gpu:
            torch.cuda.set_device(self.device.index)  # Triton launches on the current device
        self._bench = Bench(self.device, setup.protocol)
        self._send(Begin(IMPORT_PHASE))
        self._providers = registry.load(setup.providers, setup.files)
        self._codes = {name: code_of(provider) for name, provider in self._providers.items()}  # as it was loaded
        self._trusted = registry.trusted(self._providers)
        self._origin = setup.origin
        self._checked = (0, 0)
        self._task: Task | None = None
        if setup.origin:
            setup.origin.check_providers(self._providers)
            self._check_code(setup.origin)
        if setup.protocol.tuning == "pinned" and setup.tuned is None:
            raise UsageError("tuning pinned needs --tuned TABLE: make one with rooflens tune SUITE -o RUN")
        self._weights: dict[Any, Any] = {}
        self._canary_due = 0.0
        self._guard = Guard()
        self._configurations = Configurations(
            self._bench,
            self._providers,
            self._trusted,
            self._guard,
            setup.protocol.tuning,
            setup.tuned,
            self._send,
            self._report,
        )
        self._send(ready(setup, self.device, self._providers, self._bench))

    def answer(self, message: Any) -> bool:
        """Do what the parent asks for. False when state was lost, and this process must end."""
        try:
            if isinstance(message, Calibrate):
                self._send(self._ceilings(message))
            elif isinstance(message, TakeCanary):
                self._send(self._take_canary())
            elif message.searches_only:
                self._search_task(message)
            else:
                self._work(message)
                if self.device.is_gpu:
                    gc.collect()  # functions of a provider that lead to each other keep its operands
        except StateLostError as error:
            self._send(Done(True, next(iter(error.args), None), self._guard.left))
            return False
        except _EnoughError:
            self._send(Done())
        return True

    def _ceilings(self, message: Calibrate) -> Calibrated:
        """Calibrate; a device that cannot (out of memory, say) costs the ceilings and not the sweep."""
        try:
            return Calibrated(
                *calibrate(
                    *(self.device, self._bench.machine, message.types, self._bench.timer),
                    within_s=message.within_s,
                    step=lambda number, total, what: self._send(Begin(f"ceiling {number} of {total}: {what}")),
                )
            )
        except Exception as error:
            return Calibrated([], {"failed": f"no ceilings: {explain(error, 'calibrating')[1]}"})

    def _take_canary(self) -> CanaryTaken:
        """Time the canary, at first several times; a device that cannot costs the reading and not the sweep."""
        now = self._bench.machine.now
        began, wanted = now(), 1 if self._canary_due else STARTING
        self._canary_due = began + EVERY_S
        if self._guard.alone:  # it would be timed with the settings that this provider leaves
            return CanaryTaken([])
        try:
            rows = [self._bench.canary()]
            while len(rows) < wanted and (len(rows) < 3 or now() - began < STARTING_S):
                rows.append(self._bench.canary())
            return CanaryTaken(rows)
        except Exception as error:
            return CanaryTaken([], f"no canary: {explain(error, 'timing the canary')[1]}")

    def _report(self, message: Any) -> None:
        """Hand over what is to be stored and wait until it is written: what a kill costs is one unit, never two.

        Raises OriginError instead, so that nothing is stored, when `prepare` or a launch has imported code that is not
        the version's.
        """
        if self._origin:
            self._check_code(self._origin)
            if self._task and isinstance(message, UnitResult) and message.columns["verdict"] == Verdict.PASSED:
                self._origin.check_used([self._providers[self._task.cells[message.index].provider]])
        self._send(message)
        answer = self._receive()
        assert isinstance(answer, Stored)
        if answer.enough:
            raise _EnoughError

    def _check_code(self, origin: Origin) -> None:
        """Check what is loaded, where it is not what was loaded at the last check."""
        if (loaded := loaded_code()) != self._checked:
            origin.check_code()
            self._checked = loaded

    def _work(self, work: Work) -> None:
        """Measure one task."""
        job = TaskProgress(self._send, self._report, work)
        self._task, self._guard.alone = job.task, work.alone
        if operands := self._make_operands(job):
            prepared = self._prepare(job, operands, work)
            for number in job.rounds:
                if work.canary and self._bench.machine.now() >= self._canary_due:
                    job.begin(CANARY_PHASE, [], number)
                    self._send(self._take_canary())
                self._round(job, operands, prepared, number, work.budget_s)
        self._send(Done())

    def _search_task(self, work: Work) -> None:
        """Search a configuration for each open cell of one task."""
        job = TaskProgress(self._send, self._report, work)
        self._guard.alone = work.alone
        if operands := self._make_operands(job):
            (number,) = job.rounds
            for index in job.open_cells if self._draw(job, operands, job.open_cells, number) else ():
                job.begin("list the candidates of", [index], number)
                cell = job.task.cells[index]
                around = self._guard.around(cell.provider)
                try:
                    found = self._configurations.search(cell, operands, index, work, f"{number} {cell}", around)
                except StateLostError:
                    raise
                except Exception as error:  # it ends the search itself, and not one candidate
                    found = nothing_to_search(*explain(error, "searching"))
                self._report(SearchResult(index, found.columns()))
                job.begin("continue the searches", [])  # a fault from here on is none of this cell
        self._send(Done())

    def _make_operands(self, job: TaskProgress) -> Operands | None:
        job.begin("make the operands of", job.open_cells)
        problem, scheme = job.task.problem, job.task.scheme
        key = (replace(problem, M=1), scheme)
        try:
            if key not in self._weights:
                elements = sum(one.B * max(1, one.E) * one.N * one.K for one, _ in (*self._weights, key))
                if 2 * elements > KEPT_WEIGHTS * self.device.memory_bytes:
                    self._weights.clear()  # before the new one is drawn
                weight = make_weight(problem, scheme, self.device, self._protocol.seed)
                self._weights[key] = weight, cache(partial(other_weight, weight))
            weight, other = self._weights[key]
            return Operands(make_inputs(problem, scheme, self.device, self._protocol.seed, weight), other)
        except Exception as error:
            job.fail_all(job.open_cells, *explain(error, "making the operands"))
            raise_if_lost(error)
            return None

    def _prepare(self, job: TaskProgress, operands: Operands, work: Work) -> dict[int, Prepared]:
        """Prepare each provider for its cells, once where they agree; what cannot be prepared gets its verdict here."""
        found: dict[int, Prepared] = {}
        for name in dict.fromkeys(job.task.cells[index].provider for index in job.open_cells):
            indices = [index for index in job.open_cells if job.task.cells[index].provider == name]
            provider, inputs = self._providers[name], operands.inputs
            job.begin(PREPARE_PHASE, indices)
            ready: dict[tuple[str, int], Prepared] = {}
            chosen: dict[int, Prepared] = {}
            try:
                with self._guard.around(name) as left:
                    support = providers.support(provider, inputs.problem, inputs.scheme, self.device)
                    if not support.ok:
                        job.fail_all(indices, Verdict.UNSUPPORTED, support.reason)
                        continue
                    for index in indices:
                        choice = self._configurations.choose(job, operands, index, work)
                        copies = self._bench.copies(job.task.cells[index])
                        job.begin(PREPARE_PHASE, indices)
                        key = (str(choice.config), copies)
                        if key not in ready:
                            ready[key] = prepare(
                                provider, operands.copies(copies), choice, self._bench.machine,
                                refreshes=name in self._trusted, other=operands.other(copies),
                            )  # fmt: skip
                        chosen[index] = ready[key].chosen_as(choice)
                operands.require_unchanged()
                remark = f"prepare: {'; '.join(left)}" if left else ""
                if name == work.alone:
                    remark = f"measured after the others, as it {work.left}"
                found |= {index: replace(prepared, remark=remark) for index, prepared in chosen.items()}
            except (StateLostError, _EnoughError, OriginError):
                raise
            except Exception as error:
                _note_change(error, operands)
                job.fail_all(indices, *explain(error, "prepare"))
                raise_if_lost(error)
        return found

    def _round(
        self,
        job: TaskProgress,
        operands: Operands,
        prepared: Mapping[int, Prepared],
        number: int,
        budget_s: float | None,
    ) -> None:
        """Measure every open cell once, in an order of its own, on fresh activations whose reference all share."""
        indices = [index for index in job.open_cells if number in job.missing[index]]
        if not indices:
            return
        if not self._draw(job, operands, indices, number):
            return
        random.Random(f"{self._protocol.seed} {number} {operands.inputs.problem}").shuffle(indices)
        for order, index in enumerate(indices):
            job.begin(MEASURE_PHASE, [index], number)
            self._measure(job, operands, prepared[index], index, number, order, budget_s)

    def _measure(
        self,
        job: TaskProgress,
        operands: Operands,
        ready: Prepared,
        index: int,
        number: int,
        order: int,
        budget_s: float | None,
    ) -> None:
        """Check, time and check again one (cell, round).

        The output is checked before timing, so that a wrong kernel costs no time, on activations of the round before;
        while it is timed, on those of this round, in samples drawn at random (`watch`); and after it on the same with
        other signs (`Inputs.negate`).
        """
        cell, bench = job.task.cells[index], self._bench
        columns: dict[str, Any] = {
            "order": order,
            "prepare_s": ready.seconds,
            "started_at": CLOCK.now(),
            "operands": operands.checksum,
        }
        try:
            with self._guard.around(cell.provider) as left:
                with operands.earlier():
                    bench.check(ready, operands, cell)
                taken = bench.measured(ready, operands, cell, budget_s, self._guard.threads_s)
                accuracy = bench.check_negated(ready, operands, cell)
                columns |= bench.columns(taken, ready, cell, self._providers[cell.provider]) | accuracy
            columns["reason"] = "; ".join(filter(None, (columns["reason"], *left)))
            columns["identity"] = self._identity(cell.provider, columns)
            operands.require_unchanged()
        except StateLostError:
            raise
        except Exception as error:
            _note_change(error, operands)
            if isinstance(error, IncorrectError):
                job.fail(index, Verdict.INCORRECT, describe(error), number, columns | error.columns)
            else:
                job.fail(index, *explain(error, "measuring"), number, columns)
            raise_if_lost(error)
            operands.restore()
            return
        job.finish(UnitResult(index, number, columns, taken))

    def _identity(self, name: str, columns: Mapping[str, Any]) -> str:
        code, role = self._codes[name], self._providers[name].role
        versions = {package: version(package) for package in code.packages}
        return identity(code.launched(columns["kernels"], role, self.device.is_gpu, versions), columns, self.device)

    def _draw(self, job: TaskProgress, operands: Operands, indices: list[int], number: int) -> bool:
        """Draw the activations of a round and compute their reference; False when that failed, for all of `indices`."""
        job.begin(REFERENCE_PHASE, indices, number)
        try:
            operands.draw(self._protocol.seed + 1000 * (number + 1) + operands.inputs.problem.M)
        except Exception as error:
            job.fail_all(indices, *explain(error, "computing the reference"), number)
            raise_if_lost(error)
            return False
        return True


def _note_change(error: BaseException, operands: Operands) -> None:
    """Let an error say what its provider changed of the shared operands, and end this process."""
    if not is_lost(error) and (change := operands.change()):
        error.add_note(change)
        mark_lost(error)
