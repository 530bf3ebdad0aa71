"""What runs on a node of Ray for one device: an actor, which starts processes there and passes on what they say."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import wraps
from typing import Any

from ...harness.storage.scratch import new_scratch, open_scratch, remove_scratch
from ...harness.storage.worker_log import take
from ...harness.sweep.child_process import Child
from ...harness.sweep.cluster import Place
from ...harness.worker.messages import Interpreter
from ...shapes.errors import RooflensError

_OF_RAY = ("OMP_NUM_THREADS",)
"""What Ray sets in the environment of its workers and `rooflens run` does not: it would change the timings."""


PART_BYTES = 64 << 10
"""Most of a message that is passed on at once. From 100 kB on Ray passes on what is returned through its object store,
and ends the process, silently, that lets go of such an object after the store has died with its node."""


def _told(method: Callable[..., Any]) -> Callable[..., tuple[Any, BaseException | None]]:
    """Return what a method returns and raises, of which Ray would wrap the latter."""

    @wraps(method)
    def call(host: "RayHost", *arguments: Any) -> tuple[Any, BaseException | None]:
        try:
            return method(host, *arguments), None
        except Exception as error:
            return None, error.with_traceback(None)

    return call


class RayHost:
    """The actor: at most one process at a time, whose log is in a scratch folder of this machine."""

    def __init__(self, place: Place, name: str) -> None:
        self._place, self._scratch = place, new_scratch(name)
        self._child: Child | None = None
        self._message = b""
        self._held = ExitStack()
        """What ends with it."""

    @_told
    def enter(self) -> str:
        """Begin as a worker of `rooflens run` does; return what Ray does otherwise and cannot be undone."""
        self._place.take_cores()
        self._held.callback(remove_scratch, self._scratch, open_scratch(self._scratch))
        self._scratch.mkdir(parents=True, exist_ok=True)
        for variable in _OF_RAY:
            os.environ.pop(variable, None)
        niceness = os.nice(0)
        if niceness > 0:
            try:
                os.setpriority(os.PRIO_PROCESS, 0, 0)
            except OSError:
                return (
                    f"Ray runs its workers at nice {niceness}, below other programs: start its nodes with "
                    "RAY_worker_niceness=0 in the environment"
                )
        return ""

    @_told
    def leave(self) -> None:
        """End what runs, and leave nothing behind."""
        if self._child:
            self._held.callback(self._child.end)
        self._held.close()

    @_told
    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns here, given a folder and a stack that are left at the end."""
        return function(*arguments, self._scratch, self._held)

    @_told
    def start(self, interpreter: Interpreter | None, enter: Callable[..., None], setup: Any) -> None:
        """Start a process, as `Child` does."""
        log = self._scratch / "worker.log"
        try:
            self._child = Child(replace(interpreter, log=log) if interpreter else None, enter, setup, log)
        except OSError as error:
            raise RooflensError(f"cannot start a process: {error}") from None

    @_told
    def child(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the process returns."""
        return getattr(self._child, method)(*arguments)

    @_told
    def receive(self, within_s: float) -> int:
        """Read a message of the process for `part`; return its length."""
        assert self._child
        self._message = self._child.receive(within_s)
        return len(self._message)

    @_told
    def end(self) -> int:
        """End the process; read what it has printed for `part`, and return the length of it."""
        assert self._child
        self._child.end()
        self._message = take(self._scratch / "worker.log")
        return len(self._message)

    @_told
    def part(self, start: int) -> bytes:
        """Return what begins at `start` of the message that was read."""
        return self._message[start : start + PART_BYTES]
