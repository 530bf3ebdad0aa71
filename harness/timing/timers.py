"""The timers by name; `timer` says what each one times."""

from collections.abc import Callable

from ...shapes.device import Device
from ...shapes.errors import UsageError
from .accelerator import Accelerator, Host
from .event_timer import EventTimer
from .graph_timer import GraphTimer
from .host_timer import HostTimer
from .profiler_timer import ProfilerTimer
from .timer import Subject, Timer, automatic, unavailable

TIMERS: dict[str, Callable[..., Timer]] = {
    "event": EventTimer,
    "graph": GraphTimer,
    "profiler": ProfilerTimer,
    "host": HostTimer,
}


def make_timer(name: str, machine: Host | Accelerator, subject: Subject, device: Device) -> Timer:
    """Build the timer `name`; raise UsageError when `device` has none such."""
    return TIMERS[available(name, machine, device)](machine, subject)


def available(name: str, machine: Host | Accelerator, device: Device) -> str:
    """Name the timer that `name`, or "auto", means on `device`; raise UsageError when it has none such."""
    if name == "auto":
        name = automatic(device, machine.traces)
    if reason := unavailable(name, device):
        raise UsageError(f"timer {name}: {reason}; omit it, or use --set timer=host")
    return name
