"""Settings of the process, of Python and of torch that any code in the process can change.

Most are only compared: the process of a provider that leaves one changed measures no other (`process_state`). Those of
`RESTORED` are put back, for one of three reasons: libraries change them when they are first used (`torch.compile` does:
environment, filters, recursion limit), our own code between two providers depends on them, or right code consumes them
(random states).

Excluded is what has no getter (options of the C library's allocator, for example), and what is read only once, when a
library is loaded.
"""

import faulthandler
import gc
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

import torch

Write = Callable[[Any], object]

Values = Mapping[tuple[str, int], Any]
"""By name and thread; 0 for what the whole process shares."""

_LONGEST = 60
"""Characters of a value that is shown in a message."""


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)  # None leaves no mode behind


def _set_environment(value: dict[str, str]) -> None:
    for name in os.environ.keys() - value.keys():
        del os.environ[name]
    os.environ.update(value)


def _set_warnings_filters(value: list[Any]) -> None:
    warnings.resetwarnings()  # tells the caches of modules that their answers are old
    warnings.filters[:] = value  # type: ignore[index]


CONSUMED: dict[str, Write] = {
    "random.getstate()": random.setstate,
    "numpy.random.get_state()": lambda value: sys.modules["numpy"].random.set_state(value),
    "torch.get_rng_state()": torch.set_rng_state,
    "torch.cuda.get_rng_state()": torch.cuda.set_rng_state,
}
"""Random states: nobody is named for them."""

RESTORED: dict[str, Write] = CONSUMED | {
    "torch.get_default_device()": _set_default_device,
    "torch.get_default_dtype()": torch.set_default_dtype,
    "torch.is_grad_enabled()": torch._C._set_grad_enabled,
    "torch.cuda.current_device()": torch.cuda.set_device,
    "torch.cuda.current_stream()": torch.cuda.set_stream,
    "os.environ.copy()": _set_environment,
    "warnings.filters.copy()": _set_warnings_filters,
    "sys.getrecursionlimit()": sys.setrecursionlimit,
    "threading.excepthook": partial(setattr, threading, "excepthook"),
}

_COMPARED = """
torch._C._len_torch_dispatch_stack() torch._C._len_torch_function_stack() torch.is_inference_mode_enabled()
torch._C._autograd._profiler_enabled() torch.is_autocast_cache_enabled() torch.get_num_threads()
torch.get_num_interop_threads() torch.are_deterministic_algorithms_enabled()
torch.is_deterministic_algorithms_warn_only_enabled() torch.utils.deterministic.fill_uninitialized_memory
torch.get_float32_matmul_precision() torch._C._get_cudnn_allow_tf32() torch._C._get_mkldnn_enabled()
torch.backends.quantized.engine torch.backends.cuda.preferred_blas_library()
torch.backends.cudnn.enabled torch.backends.cudnn.benchmark torch.backends.cudnn.deterministic
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction torch.backends.cuda.matmul.allow_fp16_accumulation
torch.cuda.get_sync_debug_mode() torch.cuda.tunable.is_enabled() torch.cuda.tunable.tuning_is_enabled()
torch.cuda.get_per_process_memory_fraction() torch.is_anomaly_enabled() torch.backends.cuda.flash_sdp_enabled()
torch.backends.cuda.mem_efficient_sdp_enabled() torch.backends.cuda.math_sdp_enabled() tracemalloc.is_tracing()
sys.gettrace() sys.getprofile() threading.gettrace() threading.getprofile() sys.getswitchinterval()
gc.isenabled() gc.get_threshold() gc.get_debug() gc.callbacks.copy()
sys.stdout sys.stderr sys.__stdout__.closed sys.__stderr__.closed os.getcwd()
"""

_CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "clock_gettime", "sleep")

OF_THREADS = ("CPU affinity", "scheduling policy", "nice")

PACING = ("module time", "torch.get_num_threads()", *OF_THREADS)
"""How many cores a launch gets, how soon, and by which clock it is timed: other times compare with nobody's."""


def _reader(name: str) -> Callable[[], Any]:
    """Return a function that reads the attribute of that name, or what calling it returns.

    Settings of CUDA and HIP are read where that is in use: asking would start it elsewhere.
    """
    root, _, path = name.removesuffix("()").partition(".")
    get, is_called, is_gpus = attrgetter(path), name.endswith("()"), name.startswith("torch.cuda.")

    def read() -> Any:
        if is_gpus and not torch.cuda.is_initialized():
            return None
        found = get(sys.modules[root])
        return found() if is_called else found

    return read


def _umask() -> int:
    """Read it by setting it, for a moment, to the most restrictive value: there is no other portable way."""
    found = os.umask(0o077)
    os.umask(found)
    return found


def _file(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _fp32_precision() -> dict[str, str]:
    """What newer releases of torch have a precision of its own for."""
    of = [("generic", "all"), *((to, by) for to in ("cuda", "mkldnn") for by in ("all", "matmul", "conv", "rnn"))]
    return {f"{to} {by}": torch._C._get_fp32_precision_getter(to, by) for to, by in of}


_LEAST_NORMAL = sys.float_info.min
"""Half of it is 0 for a thread that flushes denormals."""

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
_LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]

READ: dict[str, Callable[[], Any]] = {
    **{name: _reader(name) for name in (*RESTORED, *_COMPARED.split())},
    **{f"autocast of {kind}": partial(torch.is_autocast_enabled, kind) for kind in ("cpu", "cuda")},
    **{f"autocast dtype of {kind}": partial(torch.get_autocast_dtype, kind) for kind in ("cpu", "cuda")},
    "fp32 precision": _fp32_precision,
    "functions of torch": lambda: [getattr(torch, name) for name in ("mm", "matmul", "bmm", "addmm", "empty")],
    "module time": lambda: {name: getattr(time, name) for name in _CLOCKS},
    "faulthandler": faulthandler.is_enabled,
    "flush_denormal": lambda: _LEAST_NORMAL / 2 == 0.0,
    "gc.freeze": lambda: gc.get_freeze_count() > 0,
    "umask": _umask,
    "standard input": partial(_file, 0),
    "standard output": partial(_file, 1),
    "standard error": partial(_file, 2),
    "blocked signals": partial(signal.pthread_sigmask, signal.SIG_BLOCK, ()),
    "alarms": lambda: [signal.getitimer(timer) != (0.0, 0.0) for timer in _TIMERS],
    "signal handlers": lambda: {getattr(one, "name", one): signal.getsignal(one) for one in _SIGNALS},
    **{name: partial(resource.getrlimit, getattr(resource, name)) for name in _LIMITS},
}


def now(names: Iterable[str] = READ) -> Values:
    """Read all settings; what cannot be read is a value as well, so that reading never ends a worker."""
    values: dict[tuple[str, int], Any] = dict(_scheduling())
    for name in names:
        try:
            values[name, 0] = READ[name]()
        except Exception as error:
            values[name, 0] = f"unreadable ({error})"
    return values


def _scheduling() -> Iterator[tuple[tuple[str, int], Any]]:
    """Yield what Linux knows of every thread by itself, with the threads that torch has started."""
    for thread in map(int, os.listdir("/proc/self/task") if sys.platform.startswith("linux") else ()):
        with suppress(ProcessLookupError):  # it has ended
            policy = os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority
            found = os.sched_getaffinity(thread), policy, os.getpriority(os.PRIO_PROCESS, thread)
            yield from (((name, thread), value) for name, value in zip(OF_THREADS, found, strict=True))


def restore(before: Values) -> tuple[dict[str, str], dict[str, str]]:
    """Put back what is put back at all; return in words, by name, what was left of that and of all the rest."""
    left = _left(before)
    for name, write in RESTORED.items():
        if name in left or name in CONSUMED:
            with suppress(Exception):  # it then counts to the rest
                write(before[name, 0])
    rest = _left(before) if left else {}
    return {name: text for name, text in left.items() if name not in rest}, rest


def _left(before: Values) -> dict[str, str]:
    """Compare; a thread that is new may have settings of its own, for a kernel may pin its threads."""
    return {
        name: f"left {_difference(name.removesuffix('()').removesuffix('.copy'), before[name, thread], found)}"
        for (name, thread), found in now([name for name in READ if name not in CONSUMED]).items()
        if (name, thread) in before and found != before[name, thread]
    }


def _difference(name: str, before: Any, found: Any) -> str:
    if isinstance(before, dict) and isinstance(found, dict):
        keys = dict.fromkeys(key for key in (*before, *found) if before.get(key) != found.get(key))
        return f"{name} changed ({', '.join(map(str, keys))})"[: 2 * _LONGEST]
    if max(len(repr(found)), len(repr(before))) > _LONGEST:
        return f"{name} changed"
    return f"{name} at {found!r} instead of {before!r}"
