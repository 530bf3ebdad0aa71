"""A child process: any Python, which is told through its pipe what to enter; and what its parent does with it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Timer
from typing import Any

from ..isolation.child import die_with
from ..isolation.descendants import END_S, end_with_all, mark, worked_s
from ..storage.worker_log import trim
from ..telemetry.clock import CLOCK
from ..telemetry.reading import STARTED_BY
from ..worker import wire
from ..worker.messages import Interpreter

_BEGIN = f"""
import sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv.pop()))
parent, path = connection.recv()
sys.path[:] = path or sys.path
from {__name__} import main
main(connection, parent)
"""

_GONE = (EOFError, BrokenPipeError, ConnectionResetError)


class Child:
    """A process on this machine, which calls `enter` with its end of a pipe, `setup`, and the `log` that it prints to.

    It imports from where this process does, with the options of its Python, and prints where this process prints until
    `enter` does otherwise; that of an `interpreter` does all this as the interpreter says.
    """

    poll_s = 0.1
    """Interval at which a waiting parent checks deadlines and Ctrl-C."""

    def __init__(self, interpreter: Interpreter | None, enter: Callable[..., None], setup: Any, log: Path) -> None:
        self._log, self._mark = log, ""
        with ExitStack() as held:
            with _ctrl_c_blocked():
                self._process, self._connection = _started(interpreter)
                held.callback(self.end)  # nothing else can end it yet
                self._mark = mark(self._process.pid)
            with suppress(*_GONE):  # whoever waits for its answer is told how it ended
                path = None if interpreter else [entry or os.getcwd() for entry in sys.path]
                self._connection.send((os.getpid(), path))
                self._connection.send((CLOCK.origin_s, enter, (setup, log)))
            held.pop_all()

    def send(self, content: bytes) -> None:
        """Send a message; the next `poll` notices a process that is gone."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send_bytes(content)

    def poll(self, seconds: float) -> bool:
        """Wait so long for a message; True when one begins to arrive. Raises EOFError or OSError without a process."""
        trim(self._log)
        return self._connection.poll(seconds)

    def receive(self, within_s: float) -> bytes:
        """Read a message that has begun to arrive; a process that stops in the middle of it is killed.

        Raises MalformedError, and EOFError or OSError where the process is gone.
        """
        timer = Timer(within_s, self._process.kill)
        timer.start()
        try:
            return wire.read(self._connection)
        finally:
            timer.cancel()

    def worked_s(self, itself: bool) -> float:
        """Processor time in seconds of all that it has started, and of it `itself`."""
        return worked_s(self._process.pid, itself=itself)

    def code(self, within_s: float) -> int | None:
        """Wait for its end; return its exit code, None where it does not end."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
        return self._process.returncode

    def end(self) -> None:
        """End it and all processes that it has started, and wait for it.

        A process that hangs inside a driver may not end: after `END_S` it is left to the system.
        """
        try:
            end_with_all(self._process.pid, self._mark)
        finally:
            self._process.kill()
            self.code(END_S)
            self._connection.close()
            trim(self._log)


def _started(interpreter: Interpreter | None) -> "tuple[subprocess.Popen[bytes], Connection]":
    """Start a process; return it with the end of the pipe through which it is told what to enter."""
    ours, theirs = Pipe()
    with theirs, ExitStack() as held:
        log = held.enter_context(interpreter.log.open("ab")) if interpreter else None
        options = [] if interpreter else subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        program = interpreter.program if interpreter else sys.executable
        # -P: the working directory is the user's working tree, and must not be the first place to import from
        process = subprocess.Popen(
            [program, *options, "-P", "-c", _BEGIN, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=interpreter.variables if interpreter else None,
            cwd=interpreter.folder if interpreter else None,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    return process, ours


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Block Ctrl-C, which reaches the whole foreground group, in what is started meanwhile; here it is handled after.

    A worker ignores it once it is up, and the parent kills it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def main(connection: Connection, parent: int) -> None:
    """Enter what the parent says, until it is gone."""
    die_with(parent)
    STARTED_BY.append(parent)
    with suppress(*_GONE):
        CLOCK.origin_s, enter, arguments = connection.recv()
        enter(connection, *arguments)
