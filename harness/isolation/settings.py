"""What all code of a process shares and any of it can change: a table of settings, with how each is read and written.

`guard.py` reads and compares them around every provider's code. Left out is what has no getter (options of the
allocator of the C library, say), and what is read once, when a library is loaded.
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
from operator import eq
from types import ModuleType
from typing import Any

import torch

Read = Callable[[], Any]
Write = Callable[[Any], object]

_LONGEST = 60
"""Characters of a value that is shown in a message."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `write` brings back what `read` has returned, and is None where nothing can bring it back.

    `paces`: it decides how many cores a launch gets, or how soon, so that times taken with another value compare with
    nobody's. `is_consumed`: right code changes it as well (random states), so that nobody is named for it. `same` tells
    whether what was read before and what is read now are alike.
    """

    name: str
    read: Read
    write: Write | None
    paces: bool = False
    is_consumed: bool = False
    same: Callable[[Any, Any], bool] = eq

    def now(self) -> Any:
        """Read it; what cannot be read is a value as well, so that reading never ends a worker."""
        try:
            return self.read()
        except Exception as error:
            return f"unreadable ({error})"

    def write_back(self, saved: Any) -> bool:
        """Write what was read before; tell whether that is what is read now."""
        if self.write is None:
            return False
        try:
            self.write(saved)
        except Exception:
            return False
        return self.is_consumed or self.same(saved, self.now())

    def difference(self, saved: Any, found: Any) -> str:
        """Say what was left, in words that follow "left"."""
        if isinstance(saved, Mapping) and isinstance(found, Mapping):
            keys = dict.fromkeys(key for key in (*saved, *found) if saved.get(key) != found.get(key))
            return f"{self.name} changed ({', '.join(map(str, keys))})"[: 2 * _LONGEST]
        if max(len(repr(found)), len(repr(saved))) > _LONGEST:
            return f"{self.name} changed"
        return f"{self.name} at {found!r} instead of {saved!r}"


def settings() -> tuple[Setting, ...]:
    """Return all settings, in the order in which they are to be written back.

    Modes of torch come first: one that was left would intercept what is done about the others.
    """
    return (*_modes(), *_of_torch(), *_of_cuda(), *_of_python(), *_of_the_process())


def _attribute(module: Any, name: str) -> Setting:
    """Make a setting of an attribute, named as its module is."""
    where = getattr(module, "__name__", None) or f"{type(module).__module__}.matmul"
    return Setting(f"{where}.{name}", lambda: getattr(module, name), lambda value: setattr(module, name, value))


# --- torch -----------------------------------------------------------------------------------------------------------


def _modes() -> tuple[Setting, ...]:
    context = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)  # of `set_default_device`, which pushes a mode

    def default_device() -> Any:
        found = getattr(context, "device_context", None)
        return found and found.device

    def leave_dispatch_modes(depth: int) -> None:
        for place in range(torch._C._len_torch_dispatch_stack(), depth, -1):
            torch._C._get_dispatch_stack_at(place - 1).__exit__(None, None, None)

    def leave_function_modes(depth: int) -> None:
        for place in range(torch._C._len_torch_function_stack(), depth, -1):
            torch._C._get_function_stack_at(place - 1).__exit__(None, None, None)

    return (
        Setting("torch dispatch modes", torch._C._len_torch_dispatch_stack, leave_dispatch_modes),
        Setting("default device", default_device, torch.set_default_device),
        Setting("torch function modes", torch._C._len_torch_function_stack, leave_function_modes),
        # An object of the provider's ends it, whenever that is freed.
        Setting("inference mode", torch.is_inference_mode_enabled, None),
        Setting("autograd profiler", torch._C._autograd._profiler_enabled, None),
        Setting("grad mode", torch.is_grad_enabled, torch._C._set_grad_enabled),
        *(_autocast(kind) for kind in ("cpu", "cuda")),
        Setting("autocast cache", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    )


def _autocast(kind: str) -> Setting:
    def read() -> tuple[bool, torch.dtype]:
        return torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)

    def write(value: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled(kind, value[0])
        torch.set_autocast_dtype(kind, value[1])
        torch.clear_autocast_cache()

    return Setting(f"autocast of {kind}", read, write)


def _of_torch() -> tuple[Setting, ...]:
    backends = torch.backends

    def deterministic() -> tuple[bool, bool]:
        return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()

    return (
        Setting("torch.num_threads", torch.get_num_threads, torch.set_num_threads, paces=True),
        Setting("torch.num_interop_threads", torch.get_num_interop_threads, None),  # set once in a process
        Setting("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        Setting(
            "deterministic algorithms",
            deterministic,
            lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
        ),
        _attribute(torch.utils.deterministic, "fill_uninitialized_memory"),
        Setting("fp32 precision", _fp32_precision, _set_fp32_precision),
        # Threads that torch has started meanwhile inherited it.
        Setting("flush_denormal", lambda: _LEAST_NORMAL / 2 == 0.0, None),
        Setting(
            "oneDNN (torch.backends.mkldnn.enabled)",
            torch._C._get_mkldnn_enabled,
            torch._C._set_mkldnn_enabled,
        ),
        *(_attribute(backends.cudnn, name) for name in ("enabled", "benchmark", "deterministic")),
        *(_attribute(backends.cuda.matmul, name) for name in _REDUCED if hasattr(backends.cuda.matmul, name)),
        Setting("preferred BLAS library", backends.cuda.preferred_blas_library, backends.cuda.preferred_blas_library),
        _attribute(backends.quantized, "engine"),
        Setting("random state of torch", torch.get_rng_state, torch.set_rng_state, is_consumed=True),
    )


_LEAST_NORMAL = sys.float_info.min
"""Half of it is 0 for a thread that flushes denormals."""

_REDUCED = (
    "allow_fp16_reduced_precision_reduction",
    "allow_bf16_reduced_precision_reduction",
    "allow_fp16_accumulation",
)

_PRECISIONS = (
    ("generic", "all"),
    *((backend, what) for backend in ("cuda", "mkldnn") for what in ("all", "matmul", "conv", "rnn")),
)
"""What newer releases of torch have a precision of its own for, the most general first."""


def _fp32_precision() -> Mapping[str, Any]:
    found = {f"{backend} {what}": torch._C._get_fp32_precision_getter(backend, what) for backend, what in _precisions()}
    for name, read in (
        ("matmul", torch.get_float32_matmul_precision),
        ("cudnn allow_tf32", torch._C._get_cudnn_allow_tf32),
    ):
        try:
            found[name] = read()
        except RuntimeError:  # it refuses to tell while the newer interface says otherwise
            found[name] = "mixed"
    return found


def _set_fp32_precision(value: Mapping[str, Any]) -> None:
    torch.set_float32_matmul_precision(value["matmul"])
    torch._C._set_cudnn_allow_tf32(value["cudnn allow_tf32"])
    for backend, what in _precisions():
        torch._C._set_fp32_precision_setter(backend, what, value[f"{backend} {what}"])


def _precisions() -> tuple[tuple[str, str], ...]:
    return _PRECISIONS if hasattr(torch._C, "_get_fp32_precision_getter") else ()


def _of_cuda() -> tuple[Setting, ...]:
    """Of the current device, where CUDA or HIP is in use: asking would start it elsewhere."""
    cuda = torch.cuda

    def used(name: str, read: Read, write: Write, **more: Any) -> Setting:
        def write_where_used(value: Any) -> None:
            if value is not None:
                write(value)

        return Setting(name, lambda: read() if cuda.is_initialized() else None, write_where_used, **more)

    return (
        used("current GPU", cuda.current_device, cuda.set_device),
        used("current stream", cuda.current_stream, cuda.set_stream),
        used("synchronization debug mode", cuda.get_sync_debug_mode, cuda.set_sync_debug_mode),
        used("TunableOp", cuda.tunable.is_enabled, cuda.tunable.enable),
        used("tuning of TunableOp", cuda.tunable.tuning_is_enabled, cuda.tunable.tuning_enable),
        used(
            "share of the GPU's memory",
            getattr(cuda, "get_per_process_memory_fraction", lambda: 1.0),
            cuda.set_per_process_memory_fraction,
        ),
        used("random state of the GPU", cuda.get_rng_state, cuda.set_rng_state, is_consumed=True),
    )


# --- Python ----------------------------------------------------------------------------------------------------------


_CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "clock_gettime", "sleep")


def _set_clocks(value: Mapping[str, Any]) -> None:
    for name, function in value.items():
        setattr(time, name, function)


def _of_python() -> tuple[Setting, ...]:
    return (
        # All providers are timed by them.
        Setting("module time", lambda: {name: getattr(time, name) for name in _CLOCKS}, _set_clocks, paces=True),
        Setting("sys.settrace", sys.gettrace, sys.settrace),
        Setting("sys.setprofile", sys.getprofile, sys.setprofile),
        Setting("threading.settrace", threading.gettrace, threading.settrace),
        Setting("threading.setprofile", threading.getprofile, threading.setprofile),
        _attribute(threading, "excepthook"),
        Setting("sys.setswitchinterval", sys.getswitchinterval, sys.setswitchinterval),
        Setting("sys.setrecursionlimit", sys.getrecursionlimit, sys.setrecursionlimit),
        Setting("garbage collector", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
        Setting("gc.set_threshold", gc.get_threshold, lambda value: gc.set_threshold(*value)),
        Setting("gc.set_debug", gc.get_debug, gc.set_debug),
        Setting("gc.callbacks", lambda: [*gc.callbacks], _filling(gc.callbacks)),
        Setting("gc.freeze", lambda: gc.get_freeze_count() > 0, lambda on: gc.freeze() if on else gc.unfreeze()),
        Setting("warnings.filters", lambda: [*warnings.filters], _set_warnings_filters),
        _attribute(sys, "stdout"),
        _attribute(sys, "stderr"),
        Setting("random state of Python", random.getstate, random.setstate, is_consumed=True),
        Setting("random state of numpy", _numpy_random, _set_numpy_random, is_consumed=True),
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


# --- the process -----------------------------------------------------------------------------------------------------


def _of_the_process() -> tuple[Setting, ...]:
    return (
        *(
            _descriptor(number, name)
            for number, name in enumerate(("standard input", "standard output", "standard error"))
        ),
        _closed_streams(),  # after the descriptors that they write to
        Setting("the environment", lambda: dict(os.environ), _set_environment),
        Setting("the working directory", os.getcwd, os.chdir),
        Setting("umask", _umask, os.umask),
        Setting("signal handlers", _handlers, _set_handlers),
        Setting("blocked signals", _blocked, lambda value: signal.pthread_sigmask(signal.SIG_SETMASK, value)),
        Setting("alarms", _armed, lambda value: [signal.setitimer(timer, 0) for timer in _ALARMS - value]),
        Setting(
            "faulthandler",
            faulthandler.is_enabled,
            lambda on: faulthandler.enable() if on else faulthandler.disable(),
        ),
        *(_limit(name, which) for which, name in sorted(_LIMITS.items())),
        *_of_threads(),
    )


def _descriptor(number: int, name: str) -> Setting:
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

    return Setting(name, read, write)


def _closed_streams() -> Setting:
    """Which of Python's own output streams are closed.

    Whoever has kept a reference to one (a handler of `logging`, say) goes on with the same object, so that it is opened
    again, and not replaced.
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

    return Setting("closed streams", read, write)


def _set_environment(value: dict[str, str]) -> None:
    for name in [name for name in os.environ if name not in value]:
        del os.environ[name]
    for name, text in value.items():
        if os.environ.get(name) != text:
            os.environ[name] = text


def _umask() -> int:
    """Ask by setting it, for a moment, to what lets nobody else read: there is no other way on all systems."""
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


def _limit(name: str, which: int) -> Setting:
    """One resource limit, (soft, hard); a hard one that was lowered needs a privilege to be raised."""
    return Setting(name, lambda: resource.getrlimit(which), lambda value: resource.setrlimit(which, value))


def _of_threads() -> tuple[Setting, ...]:
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


def _of_each_thread(name: str, get: Callable[[int], Any], put: Callable[[int, Any], object]) -> Setting:
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

    return Setting(name, read, write, paces=True, same=same)
