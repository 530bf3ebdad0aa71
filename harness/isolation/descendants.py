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
from pathlib import Path

MARK = "ROOFLENS_WORKER"
"""Environment variable with the `mark` of a worker, which it hands down to all that it starts.

It sets it itself: what multiprocessing starts beside a worker (its resource tracker) serves the parent.
"""

_PR_SET_CHILD_SUBREAPER = 36

_PAUSE_S = 0.01


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
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found += map(int, file.read_text().split())
    return [child for child in found if birth(child)]


def descendants(pid: int) -> Iterator[int]:
    """Yield the living descendants of `pid`, parents first."""
    for child in children(pid):
        yield child
        yield from descendants(child)


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
    return [pid for pid in processes if pid not in handled]


def end(pid: int) -> None:
    """Kill a child of this process and all its descendants."""
    for one in (pid, *descendants(pid)):
        _kill(one)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def end_all_of(worker: int, marked: str, within_s: float) -> None:
    """Kill the descendants of a worker of this process, and what bears its mark, but not the worker itself.

    The worker is stopped first, so that it starts nothing meanwhile. What does not go within `within_s` seconds (it is
    in a driver) is left to the system.
    """
    is_alive = mark(worker) == marked  # else the number may be somebody else's by now
    if is_alive:
        os.kill(worker, signal.SIGSTOP)
    deadline = time.monotonic() + within_s
    while found := {*(descendants(worker) if is_alive else ()), *_marked(marked)} - {worker, os.getpid()}:
        for pid in found:
            _kill(pid)
        if time.monotonic() >= deadline:
            return
        time.sleep(_PAUSE_S)


def _marked(by: str) -> Iterator[int]:
    """Yield the living processes that have inherited the mark of a worker."""
    line = f"{MARK}={by}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if line in (folder / "environ").read_bytes().split(b"\0") and birth(int(folder.name)):
                yield int(folder.name)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _stat(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""
