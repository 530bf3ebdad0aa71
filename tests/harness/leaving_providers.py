"""Providers that are right, and leave the process that they share changed; one that stores what it finds."""

import faulthandler
import gc
import io
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import warnings
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import torch
from rooflens.harness.isolation import settings
from rooflens.kernels.fourbit.quantize import dequantize
from rooflens.kernels.provider import Launch, Provider, Role
from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import BaseTorchDispatchMode

KEPT = []
"""What would end a mode when it is freed."""


def enter(context):
    KEPT.append(context)
    context.__enter__()


def setting(enable, name):
    enable(not getattr(torch.backends.cuda, f"{name}_enabled")())


def flips(module, name):
    return lambda: setattr(module, name, not getattr(module, name))


def getrlimit(name):
    return resource.getrlimit(getattr(resource, name))


def lowers(limit):
    """Lower the soft limit by one; of an unlimited one, set one that nobody reaches."""
    unreached = 1 << (30 if limit == resource.RLIMIT_CPU else 50)  # the kernel counts processor time in nanoseconds

    def change():
        soft, hard = resource.getrlimit(limit)
        resource.setrlimit(limit, (soft - 1 if soft > 0 else hard if soft == 0 else unreached, hard))

    return change


def raises_in_a_thread():
    def fails():
        raise ValueError("the second half is missing")

    thread = threading.Thread(target=fails)
    thread.start()
    thread.join()


def of_every_thread(change):
    def changes():
        for thread in os.listdir("/proc/self/task"):
            change(int(thread))

    return changes


def redirects(descriptor):
    def change():
        with tempfile.TemporaryFile() as other:
            os.dup2(other.fileno(), descriptor)

    return change


def closes_streams():
    """As `with sys.stdout:` does, or a library at the end of its own program."""
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(OSError):  # where the descriptor was closed first
            stream.close()


def closes_descriptors():
    """As a library does that makes a daemon of its process."""
    os.closerange(0, 3)


def notes_pid(name, pid):
    with open(f"{name}.pids", "a") as file:
        file.write(f"{pid}\n")


def detaches(by="detaches"):
    """Leave a process in a session of its own to whoever adopts it."""
    script = "setsid sleep 1000 >/dev/null 2>&1 & echo $!"
    done = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    notes_pid(by, done.stdout)


def daemonizes():
    """Fork twice, as a daemon does, with an empty environment."""
    code = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
    code += "print(os.getpid(), flush=True)\nos.closerange(0, 3)\ntime.sleep(1000)"
    done = subprocess.run([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, text=True, check=True, env={})
    notes_pid("daemonizes", done.stdout)


HELD = []


def holds_a_pool():
    HELD.append(subprocess.Popen(["sleep", "1000"], start_new_session=True))
    notes_pid("holds_a_pool", HELD[-1].pid)


def detaches_and_crashes():
    detaches("detaches_and_crashes")
    os.kill(os.getpid(), signal.SIGSEGV)


def trace(*_):
    return None


def other_precision(backend, operation):
    found = torch._C._get_fp32_precision_getter(backend, operation)
    torch._C._set_fp32_precision_setter(backend, operation, "tf32" if found == "ieee" else "ieee")


def other_priority(thread):
    os.setpriority(os.PRIO_PROCESS, thread, 5 + (os.getpriority(os.PRIO_PROCESS, thread) + 1) % 5)


RESTORED = {
    "torch.get_default_device": lambda: torch.set_default_device("meta"),
    "torch.is_grad_enabled": lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
    "torch.get_default_dtype": lambda: torch.set_default_dtype(torch.float64),
    "threading.excepthook": lambda: setattr(threading, "excepthook", trace),
    "sys.getrecursionlimit": lambda: sys.setrecursionlimit(5000 + sys.getrecursionlimit() % 100),
    "warnings.filters": lambda: warnings.simplefilter("ignore", BytesWarning),
    "os.environ": lambda: os.environ.update(LEFT_BEHIND="1"),
}
"""How each setting is changed that is put back."""

HARMLESS = {*RESTORED} - {"torch.get_default_device"}
"""Those with which the rest of a unit works."""

CHANGES = {
    "torch._C._len_torch_dispatch_stack": lambda: enter(BaseTorchDispatchMode()),
    "torch._C._len_torch_function_stack": lambda: enter(BaseTorchFunctionMode()),
    "autocast of cpu": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast of cuda": lambda: torch.set_autocast_enabled("cuda", True),
    "autocast dtype of cpu": lambda: torch.set_autocast_dtype("cpu", torch.float16),
    "autocast dtype of cuda": lambda: torch.set_autocast_dtype("cuda", torch.bfloat16),
    "torch.is_autocast_cache_enabled": lambda: torch.set_autocast_cache_enabled(not torch.is_autocast_cache_enabled()),
    "torch.are_deterministic_algorithms_enabled": lambda: torch.use_deterministic_algorithms(True),
    "torch.is_deterministic_algorithms_warn_only_enabled": lambda: torch.use_deterministic_algorithms(
        True, warn_only=True
    ),
    **{
        f"{module.__name__}.{name}": flips(module, name)
        for module, name in (
            (torch.utils.deterministic, "fill_uninitialized_memory"),
            (torch.backends.cudnn, "enabled"),
            (torch.backends.cudnn, "benchmark"),
            (torch.backends.cudnn, "deterministic"),
        )
    },
    "torch.get_float32_matmul_precision": lambda: torch.set_float32_matmul_precision("medium"),
    "torch._C._get_cudnn_allow_tf32": lambda: torch._C._set_cudnn_allow_tf32(False),
    "fp32 precision": lambda: other_precision("generic", "all"),
    "torch._C._get_mkldnn_enabled": lambda: torch.backends.mkldnn.set_flags(False),
    **{
        f"torch.backends.cuda.matmul.{name}": flips(torch.backends.cuda.matmul, name)
        for name in (
            "allow_fp16_reduced_precision_reduction",
            "allow_bf16_reduced_precision_reduction",
            "allow_fp16_accumulation",
        )
    },
    "torch.backends.quantized.engine": lambda: setattr(torch.backends.quantized, "engine", "onednn"),
    "sys.gettrace": lambda: sys.settrace(trace),
    "sys.getprofile": lambda: sys.setprofile(trace),
    "threading.gettrace": lambda: threading.settrace(trace),
    "threading.getprofile": lambda: threading.setprofile(trace),
    "torch.is_anomaly_enabled": lambda: torch.autograd.set_detect_anomaly(not torch.is_anomaly_enabled()),
    **{
        f"torch.backends.cuda.{name}_enabled": partial(setting, getattr(torch.backends.cuda, f"enable_{name}"), name)
        for name in ("flash_sdp", "mem_efficient_sdp", "math_sdp")
    },
    "tracemalloc.is_tracing": lambda: tracemalloc.stop() if tracemalloc.is_tracing() else tracemalloc.start(),
    "functions of torch": lambda: setattr(torch, "mm", partial(torch.mm)),
    "sys.getswitchinterval": lambda: sys.setswitchinterval(sys.getswitchinterval() * 1.5),
    "gc.isenabled": lambda: gc.disable() if gc.isenabled() else gc.enable(),
    "gc.get_threshold": lambda: gc.set_threshold(gc.get_threshold()[0] + 1),
    "gc.get_debug": lambda: gc.set_debug(gc.DEBUG_UNCOLLECTABLE),
    "gc.callbacks": lambda: gc.callbacks.append(trace),
    "faulthandler": lambda: faulthandler.disable() if faulthandler.is_enabled() else faulthandler.enable(2),
    "sys.stdout": lambda: setattr(sys, "stdout", io.StringIO()),
    "sys.stderr": lambda: setattr(sys, "stderr", io.StringIO()),
    "standard input": redirects(0),
    "standard output": redirects(1),
    "standard error": redirects(2),
    "sys.__stdout__.closed": lambda: sys.__stdout__.close(),
    "sys.__stderr__.closed": lambda: sys.__stderr__.close(),
    "os.getcwd": lambda: os.chdir(tempfile.gettempdir()),
    "umask": lambda: os.umask(0o007),
    "blocked signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]),
    "alarms": lambda: signal.setitimer(signal.ITIMER_REAL, 1000),
    **{
        name: lowers(getattr(resource, name))
        for name in dir(resource)
        if name.startswith("RLIMIT_") and getrlimit(name) != (0, 0)  # what is at 0 cannot be lowered
    },
    "signal handlers": lambda: signal.signal(signal.SIGUSR1, trace),
    "gc.freeze": gc.freeze,  # last: whoever counts what is frozen then takes 0.1 s
}
"""How settings are changed that decide on no time by themselves."""

PACED = {
    "module time": lambda: setattr(time, "perf_counter", lambda now=time.perf_counter: now() / 2),
    "torch.get_num_threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "CPU affinity": of_every_thread(lambda thread: os.sched_setaffinity(thread, {min(os.sched_getaffinity(thread))})),
    "scheduling policy": of_every_thread(
        lambda thread: os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
    ),
    "nice": of_every_thread(other_priority),
}
"""Those that decide on times."""

FOR_GOOD = {
    "torch.is_inference_mode_enabled": lambda: enter(torch.inference_mode()),
    "torch._C._autograd._profiler_enabled": lambda: enter(torch.autograd.profiler.profile()),
    "flush_denormal": lambda: torch.set_flush_denormal(True),
    "torch.get_num_interop_threads": lambda: torch.set_num_interop_threads(torch.get_num_interop_threads() + 1),
}
"""Those that a process can change once."""


class Right(Provider):
    """X W^T; at M = 2 its launch makes `changes`, once in a unit."""

    role = Role.CANDIDATE
    changes = ()

    def __init__(self, name, changes=()):
        self.name, self.changes = name, changes

    def prepare(self, inputs, config=None):
        weight, out = (
            dequantize(inputs.weight, torch.float32).view(inputs.problem.N, -1).t().contiguous(),
            inputs.empty_output(),
        )

        def run():
            torch.mm(inputs.x, weight, out=out)
            if inputs.problem.M == 2 and self.changes and "LEFT_BEHIND" not in os.environ:
                for change in self.changes:
                    change()
                os.environ["LEFT_BEHIND"] = "1"  # put back with the others, so that the next unit leaves all of it anew

        return Launch(run, out)


OF_A_RUN = r" at 0x\w+|(?<='ROOFLENS_WORKER': )'[\d-]+'"


class Finds(Right):
    """Stores the settings that its launch finds."""

    def prepare(self, inputs, config=None):
        launch, found = super().prepare(inputs), {PAUSED: gc.isenabled()}

        def run():
            launch.run()
            values = {(name, re.sub(OF_A_RUN, "", repr(value))) for (name, _), value in settings.now(TABLE).items()}
            found["settings"] = sorted(values)  # of threads that differ, all
            found.update(
                {f"standard {number}": Path(f"/proc/self/fd/{number}").readlink().name for number in (0, 1, 2)}
            )

        return Launch(run, launch.output, config=found)


class Talks(Right):
    """Prints in `prepare`, through Python and below it."""

    def prepare(self, inputs, config=None):
        print(f"printed at M={inputs.problem.M}")
        SAVED_STDERR.write("written to a stream that was kept\n")
        os.write(1, b"written to the descriptor\n")
        return super().prepare(inputs)


class Counts(Right):
    """Stores which of the processes that others have noted are alive at its launch."""

    def prepare(self, inputs, config=None):
        launch, found = super().prepare(inputs), {}

        def run():
            launch.run()
            for file in sorted(Path().glob("*.pids")):
                found[file.stem] = sum(map(is_alive, file.read_text().split()))

        return Launch(run, launch.output, config=found)


def is_alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


SAVED_STDERR = sys.stderr

PAUSED = "gc.isenabled()"
"""Off while samples are taken, on in the launches between them: what `prepare` finds is what counts."""

TABLE = [
    name for name in settings.READ if name not in (PAUSED, *settings.CONSUMED) and not name.startswith("standard ")
]
"""The log of the worker is another file in each run."""

PROVIDERS = [
    Finds("finds"),
    Right("restored", [RESTORED[name] for name in HARMLESS]),
    Right("leaves", [*CHANGES.values(), RESTORED["os.environ"]]),
    Right("leaves_pace", PACED.values()),
    Right("raises_in_a_thread", [raises_in_a_thread]),
    Right("closes_descriptors", [closes_descriptors]),
    Right("closes_streams", [closes_streams, closes_descriptors]),
    Talks("talks"),
    Right("detaches", [detaches]),
    Right("daemonizes", [daemonizes]),
    Right("holds_a_pool", [holds_a_pool]),
    Right("detaches_and_crashes", [detaches_and_crashes]),
    Counts("counts"),
    Right("leaves_for_good", [cache(FOR_GOOD["torch.get_num_interop_threads"])]),  # torch allows it once
]
