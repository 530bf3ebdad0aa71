"""The timers by name.

event     device events around each launch, queued behind a blocker             GPUs; the default there
graph     launches in a graph: events in it around each, or around all of them  GPUs; free of launch overhead
profiler  durations of the kernels themselves                                   GPUs; free of launch overhead
host      wall clock around launch and synchronize                              the only one of the CPU
"""

from collections.abc import Callable

from ..shapes.device import Device
from ..shapes.errors import UsageError
from .accelerator import Accelerator, Host
from .event_timer import EventTimer
from .graph_difference_timer import GraphDifferenceTimer
from .graph_timer import GraphTimer
from .host_timer import HostTimer
from .marked_graph_timer import MarkedGraphTimer
from .profiler_timer import ProfilerTimer
from .timer import Subject, Timer, automatic, unavailable


def graph_timer(device: Accelerator, subject: Subject) -> Timer:
    """Return the timer that gets a graph of `subject`'s launches timed on `device`."""
    if not subject.operations:
        return GraphTimer(device, subject)
    return MarkedGraphTimer(device, subject) if device.marks_graphs else GraphDifferenceTimer(device, subject)


TIMERS: dict[str, Callable[..., Timer]] = {
    "event": EventTimer,
    "graph": graph_timer,
    "profiler": ProfilerTimer,
    "host": HostTimer,
}


def make_timer(name: str, machine: Host | Accelerator, subject: Subject, device: Device) -> Timer:
    """Build the timer `name` ("auto": event on GPUs, host on the CPU); raise UsageError when `device` has none such."""
    if name == "auto":
        name = automatic(device)
    if reason := unavailable(name, device):
        raise UsageError(f"timer {name}: {reason}; leave --timer out, or use --timer host")
    return TIMERS[name](machine, subject)
