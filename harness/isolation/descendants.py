"""Processes that a worker has started, directly or not, also those that left its process group: found and ended.

A process whose parent ends becomes a child of the worker (`adopt_orphans`). The mark in its environment tells whose it
was even after the worker itself has ended.
"""

import ctypes
import gc
import multiprocessing.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

MARK = "ROOFLENS_WORKER"
"""Environment variable with the `mark` of a worker, which it hands down to all that it starts."""

_PR_SET_CHILD_SUBREAPER = 36

_PAUSE_S = 0.01

_LOOKS = 2
"""Times in a row that nothing is found: a program that is just being started has no environment for a moment."""

END_S = 2.0
"""Time within which killed processes end, unless they hang in a driver."""


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, as prctl(2) says; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def mark(pid: int) -> str:
    """Return the mark of a worker: its process number and start time, so that no other process has the same."""
    return f"{pid}-{birth(pid)}"


def children(pid: int) -> list[int]:
    """Return the living processes whose parent is `pid`; none where /proc does not tell."""
    found: list[int] = []
    for thread in numbers(f"/proc/{pid}/task"):
        with suppress(OSError):  # it has ended
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return [child for child in found if birth(child)]


def descendants(pid: int) -> Iterator[int]:
    """Yield the living descendants of `pid`, parents first."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def numbers(folder: str) -> list[int]:
    """Return the processes or threads that a folder of /proc lists; none of a process that has ended."""
    # Path.glob raises if the process ends between two of its steps
    with suppress(OSError):
        return [int(name) for name in os.listdir(folder) if name.isdigit()]
    return []


def worked_s(pid: int, *, itself: bool) -> float:
    """Processor time in seconds of all that a process has started, and of it `itself`; 0 where /proc does not tell.

    What has ended counts once its parent has taken note of that.
    """
    ticks = 0
    for one in (pid, *descendants(pid)):
        fields = _stat(one).rpartition(")")[2].split()
        ticks += sum(map(int, fields[13 if one == pid and not itself else 11 : 15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def birth(pid: int) -> str:
    """Start time of a process in clock ticks, which tells it from a later one of the same number; "" once it ended."""
    fields = _stat(pid).rpartition(")")[2].split()
    return fields[19] if fields and fields[0] not in "ZX" else ""


def name(pid: int) -> str:
    """Name of the program that a process runs, as far as the system keeps it."""
    return _stat(pid).partition("(")[2].rpartition(")")[0]


def unattended(processes: list[int]) -> list[int]:
    """Return those children of this process that no Python object represents, so that nothing can use or await them."""
    if not processes:
        return []
    kinds = (subprocess.Popen, multiprocessing.process.BaseProcess)
    # by type, not isinstance: that asks each object for its `__class__`, which some compute with a warning
    handled = {found.pid for found in gc.get_objects() if issubclass(type(found), kinds)}
    handled |= {forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid}  # type: ignore[attr-defined]
    return [pid for pid in processes if pid not in handled]


def end(pid: int) -> None:
    """Kill a child of this process and all its descendants; one that hangs in a driver is left to the system."""
    for one in (pid, *descendants(pid)):
        _signal(one, signal.SIGKILL)
    deadline = time.monotonic() + END_S
    with suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)


def end_with_all(worker: int, marked: str) -> None:
    """Kill a worker of this process, its descendants, and what bears its mark.

    It is stopped first, so that it starts nothing meanwhile, and killed whatever fails after that. What does not go
    within `END_S` (it is in a driver) is left to the system.
    """
    is_alive = mark(worker) == marked  # else the number may be somebody else's by now
    deadline = time.monotonic() + END_S
    try:
        if is_alive:
            _signal(worker, signal.SIGSTOP)
        looks = _LOOKS
        while looks and time.monotonic() < deadline:
            found = {*(descendants(worker) if is_alive else ()), *_marked(marked)} - {worker, os.getpid()}
            for pid in found:
                _signal(pid, signal.SIGKILL)
            looks = _LOOKS if found else looks - 1
            time.sleep(_PAUSE_S if looks else 0)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            if worker != os.getpgid(0):
                os.killpg(worker, signal.SIGKILL)  # if it leads a group by now
        if is_alive:
            _signal(worker, signal.SIGKILL)


def _marked(by: str) -> Iterator[int]:
    """Yield the living processes that have inherited the mark of a worker."""
    line = f"{MARK}={by}".encode()
    for pid in numbers("/proc"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") and birth(pid):
                yield pid


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _stat(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""
