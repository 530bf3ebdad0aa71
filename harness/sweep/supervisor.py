"""The parent's side of a worker: start it, exchange messages, and report how it ended."""

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ...shapes.errors import Interrupted, RooflensError, UsageError
from ..worker import wire
from ..worker.messages import IMPORT_PHASE, Begin, ChildCall, Interpreter, Plain, Ready, Refused, Setup
from .child_process import Child
from .fault_attribution import MOST_FRUITLESS, Limit, limit_of, timed_out

SETUP_TIMEOUT_S = 600.0
"""Importing torch and starting the device's driver may take this long."""

SILENT_S = 5.0
"""After so long, a wait says every second what it waits for."""

BUSY = 0.1
"""Share of a core that compilers use at least."""


class WorkerEndedError(Exception):
    """The worker died; the message says how."""


class WorkerTimeoutError(Exception):
    """The worker did not answer before the deadline, and was killed."""


class LateError(WorkerTimeoutError):
    """As when a worker hangs, but nothing had its whole time: `latest` came first."""


class PlaceLostError(Exception):
    """The device of a worker, or its machine, does not answer any more; the message says how that showed."""


class WorkerSetupError(RooflensError):
    """The worker died, or did not answer, before it was ready: `why`, and in which phase; `where` says more.

    `hung`: it did not answer, and another one would not either.
    """

    def __init__(self, begun: Begin | None, why: str, where: object, hung: bool = False) -> None:
        self.phase, self.why, self.where, self.hung = begun.phase if begun else "start", why, where, hung
        super().__init__(f"the worker could not be set up: {self.phase}: {why}; see {where}")


def _work(*arguments: Any) -> None:
    """Import the worker only in the child: the parent needs no torch."""
    from ..worker.worker import main

    main(*arguments)


Start = Callable[[Interpreter | None, Callable[..., None], Any, Path], Any]
"""Starts a child process, as `Child` does on this machine."""


class SupervisedWorker:
    """One worker process. Every wait has a limit, checks `should_stop`, and tells `doing` what a long one is for.

    `enter` runs in the process with the other end of the pipe, `setup` and `log`. It sends `Begin` for what it does,
    and then `Refused` or what becomes `ready`.
    """

    ready: Any

    def __init__(
        self,
        setup: Setup | ChildCall,
        log: Path,
        should_stop: Callable[[], bool],
        doing: Callable[[str], object] = lambda what: None,
        start: Start = Child,
        enter: Callable[..., None] = _work,
    ) -> None:
        self._should_stop, self._doing, self._log = should_stop, doing, log
        self._child = start(setup.interpreter, enter, setup, log)
        with ExitStack() as held:
            held.callback(self.kill)
            self.ready = self._set_up(setup)
            held.pop_all()

    def _set_up(self, setup: Setup | ChildCall) -> Any:
        """Wait for what becomes `ready`."""
        begun: Begin | None = None
        latest: float | None = None
        try:
            answer = self.receive(Limit("the start of a worker", SETUP_TIMEOUT_S))
            while isinstance(answer, Begin):
                begun = answer
                if isinstance(setup, ChildCall) and setup.within_s and not latest and begun.phase != IMPORT_PHASE:
                    latest = time.monotonic() + setup.within_s
                answer = self.receive(limit_of(setup.protocol, begun, begun.phase, latest))
        except WorkerTimeoutError as error:
            had_its_time = begun and not isinstance(error, LateError)
            why = timed_out(setup.protocol, begun, setup.interpreter)[1] if begun and had_its_time else str(error)
            raise WorkerSetupError(begun, why, self._log, hung=True) from None
        except WorkerEndedError as error:
            raise WorkerSetupError(begun, str(error), self._log) from None
        if isinstance(answer, Refused):
            raise (UsageError if answer.exit_code == UsageError.exit_code else RooflensError)(answer.message)
        if not isinstance(answer, Plain if isinstance(setup, ChildCall) else Ready):
            raise WorkerSetupError(begun, f"it sent {type(answer).__name__}", self._log)
        return answer

    def send(self, message: Any) -> None:
        """Send a message; the next `receive` notices a worker that is gone."""
        self._child.send(wire.to_bytes(message))

    def receive(self, limit: Limit) -> Any:
        """Wait for a message. Raises WorkerEndedError, WorkerTimeoutError (the worker is killed) or Interrupted."""
        began = last = time.monotonic()
        within_s = limit.within_s(began)
        look, told_s = began + within_s / 2, SILENT_S
        used_s: float | None = None
        while True:
            # Before every message, not only while waiting: fast cells leave no pause.
            self._stop_if_asked()
            try:
                if self._child.poll(max(0.0, min(self._child.poll_s, look - time.monotonic()))):
                    return wire.from_bytes(self._child.receive(within_s))
            except wire.MalformedError as error:
                self.kill()
                raise WorkerEndedError(f"worker ended, as it sent what is no message: {error}") from None
            except (EOFError, OSError):  # OSError: it died in the middle of a message
                death = self._death()
                self._stop_if_asked()  # a SIGTERM to the whole process group is not the fault of the kernel in flight
                raise WorkerEndedError(death) from None
            now = time.monotonic()
            if now - began >= told_s:
                told_s = now - began + 1
                self._doing(f"waiting for {limit.what}: {now - began:.0f} s of at most {within_s:.0f} s")
            if now < look:
                continue
            before_s = used_s
            used_s = self._child.worked_s(limit.builds)
            is_over = now - began >= limit.most_s
            if before_s is not None and (is_over or used_s - before_s < BUSY * (now - last)):
                self.kill()
                if within_s < limit.seconds:
                    raise LateError(f"no end after {now - began:.0f} s, when the time of --within was over")
                raise WorkerTimeoutError("no answer before the time limit")
            last, look = now, now + within_s / 2

    def kill(self) -> None:
        """End the worker and all processes that it has started, and wait for it."""
        self._child.end()

    def _stop_if_asked(self) -> None:
        if self._should_stop():
            raise Interrupted("stopped")

    def _death(self) -> str:
        code = self._child.code(5)
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"worker killed by {signal.Signals(-code).name}"
        return f"worker ended with exit code {code}"


def started_again(start: Callable[[], SupervisedWorker]) -> SupervisedWorker:
    """Start a replacement worker; one that dies while it starts is replaced too, a limited number of times."""
    for _ in range(MOST_FRUITLESS):
        try:
            return start()
        except WorkerSetupError as error:
            if error.hung:
                raise
    return start()
