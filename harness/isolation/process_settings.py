"""Settings of Python and of the process that any code in it can change.

Excluded is what has no getter (options of the allocator of the C library, for example), and what is read only once,
when a library is loaded.
"""

import faulthandler
import gc
import io
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .setting import ProcessSetting, Write, attribute


def process_settings() -> tuple[ProcessSetting, ...]:
    """Return the settings in the order in which they are written back."""
    return (*_of_python(), *_of_the_process())


_CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "clock_gettime", "sleep")


def _set_clocks(value: Mapping[str, Any]) -> None:
    for name, function in value.items():
        setattr(time, name, function)


def _of_python() -> tuple[ProcessSetting, ...]:
    return (
        # All providers are timed by them.
        ProcessSetting("module time", lambda: {name: getattr(time, name) for name in _CLOCKS}, _set_clocks, paces=True),
        ProcessSetting("sys.settrace", sys.gettrace, sys.settrace),
        ProcessSetting("sys.setprofile", sys.getprofile, sys.setprofile),
        ProcessSetting("threading.settrace", threading.gettrace, threading.settrace),
        ProcessSetting("threading.setprofile", threading.getprofile, threading.setprofile),
        attribute(threading, "excepthook"),
        ProcessSetting("sys.setswitchinterval", sys.getswitchinterval, sys.setswitchinterval),
        ProcessSetting("sys.setrecursionlimit", sys.getrecursionlimit, sys.setrecursionlimit),
        ProcessSetting("garbage collector", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
        ProcessSetting("gc.set_threshold", gc.get_threshold, lambda value: gc.set_threshold(*value)),
        ProcessSetting("gc.set_debug", gc.get_debug, gc.set_debug),
        ProcessSetting("gc.callbacks", lambda: [*gc.callbacks], _filling(gc.callbacks)),
        ProcessSetting("gc.freeze", lambda: gc.get_freeze_count() > 0, lambda on: gc.freeze() if on else gc.unfreeze()),
        ProcessSetting("warnings.filters", lambda: [*warnings.filters], _set_warnings_filters),
        attribute(sys, "stdout"),
        attribute(sys, "stderr"),
        ProcessSetting("random state of Python", random.getstate, random.setstate, is_consumed=True),
        ProcessSetting("random state of numpy", _numpy_random, _set_numpy_random, is_consumed=True),
    )


def _filling(target: list[Any]) -> Write:
    """Return a writer that keeps the identity of a list that others refer to."""

    def write(value: list[Any]) -> None:
        target[:] = value

    return write


def _set_warnings_filters(value: list[Any]) -> None:
    warnings.resetwarnings()  # tells the caches of modules that their answers are old
    warnings.filters[:] = value  # type: ignore[index]


def _numpy_random() -> Any:
    numpy: ModuleType | None = sys.modules.get("numpy")
    return numpy and numpy.random.get_state()


def _set_numpy_random(value: Any) -> None:
    if value is not None:
        sys.modules["numpy"].random.set_state(value)


def _of_the_process() -> tuple[ProcessSetting, ...]:
    return (
        *(
            _descriptor(number, name)
            for number, name in enumerate(("standard input", "standard output", "standard error"))
        ),
        _closed_streams(),  # after the descriptors that they write to
        ProcessSetting("the environment", lambda: dict(os.environ), _set_environment),
        ProcessSetting("the working directory", os.getcwd, os.chdir),
        ProcessSetting("umask", _umask, os.umask),
        ProcessSetting("signal handlers", _handlers, _set_handlers),
        ProcessSetting("blocked signals", _blocked, lambda value: signal.pthread_sigmask(signal.SIG_SETMASK, value)),
        ProcessSetting("alarms", _armed, lambda value: [signal.setitimer(timer, 0) for timer in _ALARMS - value]),
        ProcessSetting(
            "faulthandler",
            faulthandler.is_enabled,
            lambda on: faulthandler.enable() if on else faulthandler.disable(),
        ),
        *(_limit(name, which) for which, name in sorted(_LIMITS.items())),
        *_of_threads(),
    )


def _descriptor(number: int, name: str) -> ProcessSetting:
    """What one of the first descriptors refers to; a duplicate of it is kept for that."""
    try:
        kept = os.dup(number)
    except OSError:  # closed from the start
        kept = -1

    def read() -> tuple[int, int] | None:
        try:
            found = os.fstat(number)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def write(value: object) -> None:
        if kept < 0:
            os.close(number)
        else:
            os.dup2(kept, number)

    return ProcessSetting(name, read, write)


def _closed_streams() -> ProcessSetting:
    """Which of Python's own output streams are closed.

    Other code may hold a reference to one (a handler of `logging`, for example), so that it is reopened, not replaced.
    """
    own = {"stdout": sys.__stdout__, "stderr": sys.__stderr__}
    streams = {name: stream for name, stream in own.items() if isinstance(stream, io.TextIOWrapper)}
    encodings = {name: (stream.encoding, stream.errors) for name, stream in streams.items()}

    def read() -> tuple[str, ...]:
        return tuple(name for name, stream in streams.items() if stream.closed)

    def write(value: tuple[str, ...]) -> None:
        for name in set(read()) - set(value):
            raw = io.FileIO(("stdout", "stderr").index(name) + 1, "wb", closefd=False)
            raw.name = f"<{name}>"  # as Python does
            encoding, errors = encodings[name]
            io.TextIOWrapper.__init__(streams[name], io.BufferedWriter(raw), encoding, errors, line_buffering=True)

    return ProcessSetting("closed streams", read, write)


def _set_environment(value: dict[str, str]) -> None:
    for name in [name for name in os.environ if name not in value]:
        del os.environ[name]
    for name, text in value.items():
        if os.environ.get(name) != text:
            os.environ[name] = text


def _umask() -> int:
    """Read it by setting it, for a moment, to the most restrictive value: there is no other portable way."""
    found = os.umask(0o077)
    os.umask(found)
    return found


_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


def _handlers() -> dict[str, Any]:
    return {_signal_name(number): signal.getsignal(number) for number in _SIGNALS}


def _set_handlers(value: dict[str, Any]) -> None:
    """Raises TypeError where a handler was not Python's: its address is unknown."""
    for number in _SIGNALS:
        handler = value[_signal_name(number)]
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


def _signal_name(number: int) -> str:
    return number.name if isinstance(number, signal.Signals) else f"signal {number}"


def _blocked() -> set[Any]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


_ALARMS = frozenset((signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF))


def _armed() -> set[int]:
    return {timer for timer in _ALARMS if signal.getitimer(timer) != (0.0, 0.0)}


_LIMITS = {getattr(resource, name): name for name in sorted(dir(resource), reverse=True) if name.startswith("RLIMIT_")}
"""Names of the resource limits; of two names, the first."""


def _limit(name: str, which: int) -> ProcessSetting:
    """One resource limit, (soft, hard); a hard one that was lowered needs a privilege to be raised."""
    return ProcessSetting(name, lambda: resource.getrlimit(which), lambda value: resource.setrlimit(which, value))


def _of_threads() -> tuple[ProcessSetting, ...]:
    """What Linux knows of every thread by itself, with the threads that torch has started."""
    if not sys.platform.startswith("linux"):
        return ()

    def nice(thread: int) -> int:
        return os.getpriority(os.PRIO_PROCESS, thread)

    def policy(thread: int) -> tuple[int, int]:
        return os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority

    def set_policy(thread: int, value: tuple[int, int]) -> None:
        os.sched_setscheduler(thread, value[0], os.sched_param(value[1]))

    def cores(thread: int) -> tuple[int, ...]:
        return tuple(sorted(os.sched_getaffinity(thread)))

    return (
        _of_each_thread("CPU affinity", cores, os.sched_setaffinity),
        _of_each_thread("scheduling policy", policy, set_policy),
        _of_each_thread("nice", nice, lambda thread, value: os.setpriority(os.PRIO_PROCESS, thread, value)),
    )


@dataclass(frozen=True, slots=True)
class _Threads:
    """A value per thread, which shows as that of the first thread that differs from the main one, if any does."""

    of: dict[int, Any]

    def __repr__(self) -> str:
        main = self.of.get(os.getpid())
        return repr(next((value for value in self.of.values() if value != main), main))


def _of_each_thread(name: str, get: Callable[[int], Any], put: Callable[[int, Any], object]) -> ProcessSetting:
    """Make a setting of a value that every thread has of its own.

    A thread that is new has inherited it from the main thread, if both have the same now. Any other value is its own
    affair: a kernel may pin threads of its own.
    """

    def read() -> _Threads:
        found = {}
        for entry in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # it has ended
                found[int(entry)] = get(int(entry))
        return _Threads(found)

    def expected(saved: _Threads, found: _Threads) -> dict[int, Any]:
        main = os.getpid()
        return {
            thread: saved.of.get(thread, saved.of[main])
            for thread, value in found.of.items()
            if thread in saved.of or value == found.of[main]
        }

    def same(saved: _Threads, found: _Threads) -> bool:
        return all(found.of[thread] == value for thread, value in expected(saved, found).items())

    def write(saved: _Threads) -> None:
        found = read()
        for thread, value in expected(saved, found).items():
            if found.of[thread] != value:
                with suppress(ProcessLookupError):
                    put(thread, value)

    return ProcessSetting(name, read, write, paces=True, same=same)
