"""The parent's side of a worker: start it, exchange messages, and report how it ended."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from ...shapes.errors import Interrupted, RooflensError, UsageError
from ...shapes.protocol import Protocol
from ..isolation.descendants import end_all_of, mark
from ..storage.worker_log import trim
from ..telemetry.clock import CLOCK
from ..worker.messages import Begin, Ready, Refused, Setup
from .fault_attribution import MOST_FRUITLESS, limit_s, timed_out

POLL_S = 0.1
"""Interval at which a waiting parent checks deadlines and Ctrl-C."""

KILL_WAIT_S = 2.0

SETUP_TIMEOUT_S = 600.0
"""Importing torch and starting the device's driver may take this long."""


class WorkerEndedError(Exception):
    """The worker died; the message says how."""


class WorkerTimeoutError(Exception):
    """The worker did not answer before the deadline, and was killed."""


class WorkerSetupError(RooflensError):
    """The worker died, or did not answer, before it was ready."""


class SupervisedWorker:
    """One worker process. Every wait checks the deadline and `should_stop`."""

    def __init__(self, setup: Setup, log: Path, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop
        self._log = log
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_enter, args=(CLOCK.origin_s, theirs, setup, os.getpid(), log), daemon=True
        )
        # A Ctrl-C reaches the whole foreground group: the worker ignores it, and the parent kills it.
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with _without_main():
                self._process.start()
        finally:
            signal.signal(signal.SIGINT, previous)
        self._mark = mark(self._process.pid or 0)
        theirs.close()
        try:
            answer = self._set_up(setup.protocol)
        except (WorkerEndedError, WorkerTimeoutError) as error:
            self.kill()
            raise WorkerSetupError(f"the worker could not be set up: {error}; see {log}") from None
        except BaseException:  # nothing else can kill this worker yet
            self.kill()
            raise
        if isinstance(answer, Refused):
            self.kill()
            raise (UsageError if answer.exit_code == UsageError.exit_code else RooflensError)(answer.message)
        assert isinstance(answer, Ready)
        self.ready = answer

    def send(self, message: Any) -> None:
        """Send a message; the next `receive` notices a worker that is gone."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send(message)

    def receive(self, deadline: float) -> Any:
        """Wait for a message until `deadline` (monotonic seconds).

        Raises WorkerEndedError, WorkerTimeoutError (the worker is killed) or Interrupted.
        """
        while True:
            # Before every message, not only while waiting: fast cells leave no pause.
            self._stop_if_asked()
            trim(self._log)
            try:
                if self._connection.poll(max(0.0, min(POLL_S, deadline - time.monotonic()))):
                    return self._connection.recv()
            except (EOFError, OSError):  # OSError: it died in the middle of a message
                death = self._death()
                self._stop_if_asked()  # a SIGTERM to the whole process group is not the fault of the kernel in flight
                raise WorkerEndedError(death) from None
            if time.monotonic() >= deadline:
                self.kill()
                raise WorkerTimeoutError("no answer before the time limit")

    def kill(self) -> None:
        """End the worker and all processes that it has started, and wait for it.

        A process that hangs inside a driver may not end: after `KILL_WAIT_S` it is left to the system.
        """
        if self._process.pid is not None:
            end_all_of(self._process.pid, self._mark, KILL_WAIT_S)
        _kill_group(self._process.pid)
        self._process.kill()
        self._process.join(KILL_WAIT_S)
        self._connection.close()
        trim(self._log)

    def _set_up(self, protocol: Protocol) -> Any:
        """Wait for Ready or Refused."""
        answer = self.receive(time.monotonic() + SETUP_TIMEOUT_S)
        if not isinstance(answer, Begin):
            return answer
        try:
            return self.receive(time.monotonic() + limit_s(protocol, answer))
        except WorkerTimeoutError:
            raise WorkerTimeoutError(f"{answer.phase}: {timed_out(protocol, answer)[1]}") from None

    def _stop_if_asked(self) -> None:
        if self._should_stop():
            raise Interrupted("stopped")

    def _death(self) -> str:
        self._process.join(5)
        code = self._process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"worker killed by {signal.Signals(-code).name}"
        return f"worker ended with exit code {code}"


def started_again(start: Callable[[], SupervisedWorker]) -> SupervisedWorker:
    """Start a replacement worker; one that dies while it starts is replaced too, a limited number of times."""
    for _ in range(MOST_FRUITLESS):
        with suppress(WorkerSetupError):
            return start()
    return start()


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep a child from importing the main program again: the console script, or Ray's worker."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


def _kill_group(pid: int | None) -> None:
    """Kill the process group of a worker, if it leads one by now."""
    with suppress(ProcessLookupError, PermissionError):
        if pid is not None and pid != os.getpgid(0):
            os.killpg(pid, signal.SIGKILL)


def _enter(origin_s: float, *arguments: Any) -> None:
    """Import the worker only in the child: the parent needs no torch."""
    from ..worker.worker import main

    CLOCK.origin_s = origin_s
    main(*arguments)
