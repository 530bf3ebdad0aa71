"""How a child process begins: any Python, which is told through its pipe what to enter."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from ..isolation.child import die_with
from ..telemetry.clock import CLOCK
from ..telemetry.reading import STARTED_BY
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


def start(
    interpreter: Interpreter | None, enter: Callable[..., None], *arguments: Any
) -> "tuple[subprocess.Popen[bytes], Connection]":
    """Start a process that calls `enter` with its end of a pipe and `arguments`; return it with the other end.

    It imports from where this process does, with the options of its Python, and prints where this process prints; that
    of an `interpreter` does all this as the interpreter says.
    """
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
    try:
        with suppress(*_GONE):  # whoever waits for its answer is told how it ended
            ours.send((os.getpid(), None if interpreter else [entry or os.getcwd() for entry in sys.path]))
            ours.send((CLOCK.origin_s, enter, arguments))
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process, ours


def main(connection: Connection, parent: int) -> None:
    """Enter what the parent says, until it is gone."""
    die_with(parent)
    STARTED_BY.append(parent)
    with suppress(*_GONE):
        CLOCK.origin_s, enter, arguments = connection.recv()
        enter(connection, *arguments)
