"""Timers: how the duration of one launch is taken. Each is one class behind `Timer`, made for one subject.

profiler  what the device recorded of each launch's kernels          GPUs; the default there; launching is not in it
event     device events around each launch, queued behind a blocker  GPUs; launching is in it
graph     many launches in a graph between two events                GPUs; warm, or cold by rotation
host      wall clock around launch and synchronize                   GPUs (a call from idle to idle); the CPU
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Protocol as Interface

from ...shapes.device import Device
from .samples import Samples

if TYPE_CHECKING:  # it imports torch, and `unavailable` is asked where there may be none yet
    from .accelerator import Action


def nothing(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What one sample does: `before`, untimed, then `launch`, timed, then `after`, untimed.

    `after` gets the time of the host at which the launch had ended, unless the device is still busy with it.
    `operations` is the number of device operations that `before` queues (0: it queues none); `copy` tells which copy of
    the operands the next launch uses; `period` is the number of launches after which `launch` uses the same buffers
    again; `turn` the number of samples that one flush in `before` serves.
    """

    launch: "Action"
    before: "Action" = nothing
    operations: int = 0
    period: int = 1
    turn: int = 1
    after: Callable[..., object] = nothing
    copy: Callable[[], int] = int


class Timer(Interface):
    """One way to take time, of one subject."""

    name: str
    resolution_s: float
    launches_per_sample: int
    remark: str
    """A note for readers of the times on how they were taken; usually ""."""

    def batch(self, count: int, meanwhile: "Action" = nothing) -> Samples:
        """Take up to `count` samples, or what one graph holds.

        `meanwhile` is called once, while the device works where it works by itself.
        """


def automatic(device: Device, traces: bool) -> str:
    """Name of the timer that "auto" selects; `traces`: the profiler gives records of kernels."""
    return ("profiler" if traces else "event") if device.is_gpu else "host"


def unavailable(name: str, device: Device) -> str:
    """Say why a timer cannot be used on `device`; "" when it can."""
    if name == "host" or device.is_gpu:
        return ""
    lacking = {"event": "events", "graph": "graphs", "profiler": "kernels of its own to trace"}
    what = lacking.get(name, f"{name} timer")
    return f"{device.torch_name} has no {what}"
