"""Runs what a user's file does in a process of its own: however that ends, the command can say so and continue."""

import faulthandler
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ...kernels import registry
from ...shapes.errors import RooflensError, UsageError
from ...shapes.files.record import WrongTypeError, from_json
from ...shapes.protocol import Protocol
from ..worker import wire
from ..worker.messages import IMPORT_PHASE, Begin, ChildCall, Interpreter, Plain, Refused
from .child_process import Child
from .fault_attribution import limit_of
from .supervisor import Start, SupervisedWorker, WorkerSetupError

Tell = Callable[[str], object]

TRACED = 0.9
"""Share of its limit after which the lines that a phase executes are noted."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a provider says of itself."""

    role: str
    family: str


def in_child(
    act: Callable[[Tell], Any],
    files: Sequence[Path],
    protocol: Protocol,
    doing: Tell,
    returns: Any = Any,
    should_stop: Callable[[], bool] = lambda: False,
    start: Start | None = None,
    **more: Any,
) -> Any:
    """Return what `act` returns in a process of its own, a plain value or dataclass of the type `returns`.

    `act` is given a function to be told what it begins.

    `protocol` has the limits of that, `more` are those of `ChildCall`; `doing` is told what takes long. What is printed
    goes to stderr. Raises WorkerSetupError for a process that died or hung, `where` with the line that ran last, and a
    RooflensError or UsageError of `act`.
    """
    with tempfile.NamedTemporaryFile(prefix="rooflens-") as trace:
        try:
            worker = SupervisedWorker(
                *(ChildCall(act, protocol, **more), Path(trace.name), should_stop, doing, start or Child, _enter)
            )
            worker.kill()
            return from_json(returns, worker.ready.value)
        except WrongTypeError as error:
            raise WorkerSetupError(
                None, f"process sent what is no answer: {error}", ", ".join(map(str, files))
            ) from None
        except WorkerSetupError as error:
            text = trace.read().decode(errors="replace").rpartition("most recent call first")[2]
            lines = {file: re.search(rf'File "{re.escape(str(file))}", line (\d+)', text) for file in files}
            where = [f"{file}:{found[1]}" for file, found in lines.items() if found] or map(str, files)
            error.why, error.where = error.why.replace("worker", "process"), ", ".join(where)
            raise


def _enter(connection: Connection, call: ChildCall, log: Path) -> None:
    os.dup2(2, 1)  # what a file prints is no result of the command
    with log.open("w") as trace:
        faulthandler.enable(trace)

        def begin(phase: str) -> None:
            begun = Begin(phase, ())
            wire.send(connection, begun)
            limit_s = limit_of(call.protocol, begun, "").seconds
            faulthandler.dump_traceback_later(TRACED * min(limit_s, call.within_s or limit_s), file=trace)

        try:
            answer: Any = Plain(call.act(begin))
        except RooflensError as error:
            answer = Refused(str(error), error.exit_code)
        faulthandler.cancel_dump_traceback_later()
        wire.send(connection, answer)


def declared(
    files: Sequence[Path],
    build_timeout_s: float,
    doing: Tell,
    should_stop: Callable[[], bool] = lambda: False,
    interpreter: Interpreter | None = None,
    start: Start | None = None,
) -> dict[str, Declared]:
    """Return the providers of `files`, by name, which are imported for that, by an interpreter of their own if given.

    `start` starts its process elsewhere.

    Raises UsageError for a file that fails, ends the process or takes longer than `build_timeout_s`.
    """
    files = [file.resolve() for file in files]
    try:
        found: dict[str, Declared] = in_child(
            partial(declarations, files),
            files,
            Protocol(build_timeout_s=build_timeout_s),
            doing,
            dict[str, Declared],
            should_stop,
            start,
            interpreter=interpreter,
        )
    except WorkerSetupError as error:
        raise UsageError(f"--providers {error.where}: import: {error.why}") from None
    return found


def declarations(files: Sequence[Path], begin: Tell) -> dict[str, Declared]:
    """Import `files` in this process, and return what their providers say of themselves."""
    begin(IMPORT_PHASE)
    return {name: Declared(str(one.role), one.family) for name, one in registry.load((), files).items()}
