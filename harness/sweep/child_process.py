"""How a child process begins: any Python, which is told through its pipe what to enter."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from ..telemetry.clock import CLOCK
from ..telemetry.reading import STARTED_BY
from ..worker.messages import Interpreter

_BEGIN = f"import sys, json; sys.path[:] = json.loads(sys.argv[1]) or sys.path; from {__name__} import main; main()"


def start(
    interpreter: Interpreter | None, enter: Callable[..., None], *arguments: Any
) -> "tuple[subprocess.Popen[bytes], Connection]":
    """Start a process that calls `enter` with its end of a pipe and `arguments`; return it with the other end.

    It imports from where this process does; that of an `interpreter` from where that one does.
    """
    ours, theirs = Pipe()
    with theirs:
        process = subprocess.Popen(
            # -P: the working directory is the user's working tree, and must not be the first place to import from
            [
                *(str(interpreter.program if interpreter else sys.executable), "-P", "-c", _BEGIN),
                *(json.dumps([] if interpreter else sys.path), str(theirs.fileno())),
            ],
            pass_fds=[theirs.fileno()],
            env=interpreter.variables if interpreter else None,
            cwd=interpreter.folder if interpreter else None,
            stdin=subprocess.DEVNULL,
        )
    with suppress(BrokenPipeError, ConnectionResetError):  # whoever waits for its answer is told how it ended
        ours.send((CLOCK.origin_s, enter, arguments))
    return process, ours


def main() -> None:
    """Enter what the parent says."""
    connection = Connection(int(sys.argv[2]))
    del sys.argv[1:]  # a library may read them
    CLOCK.origin_s, enter, arguments = connection.recv()
    STARTED_BY.append(os.getppid())
    enter(connection, *arguments)
