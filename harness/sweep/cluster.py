"""Where workers run: the devices of this machine, or of others, and which of them a request means."""

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from ...shapes.architectures import is_gpu
from ...shapes.device import Device
from ...shapes.errors import RooflensError, UsageError
from ...shapes.protocol import Protocol as Settings
from .child_process import Child
from .deadline import Deadline
from .in_child import in_child
from .supervisor import Start


@dataclass(frozen=True, slots=True)
class Place:
    """A device, or a part of a CPU's cores: number `index` of `count` of its architecture on `host`.

    `device` is torch's name there, and `node` that of the machine in its cluster, "" for this one.
    """

    host: str
    arch: str
    index: int
    count: int
    device: str
    node: str = ""

    def __str__(self) -> str:
        return f"{self.host} {self.arch}" + (f" #{self.index}" if self.count > 1 else "")

    def found(self, device: Device) -> Device:
        """Return the device of a worker here, with where it is; raise RooflensError for one of another architecture."""
        if device.arch != self.arch:
            raise RooflensError(
                f"its device is {device.arch}, not {self.arch}: start one Ray node per architecture, each with its own "
                "visible devices"
            )
        return replace(device, host=self.host, slot=self.index)

    def take_cores(self) -> None:
        """Confine this thread, and what it starts, to its part of a CPU's cores, so that parts do not overlap.

        Raises RooflensError when there are more parts than cores.
        """
        if is_gpu(self.arch):
            return
        cores = sorted(os.sched_getaffinity(0))
        each = len(cores) // self.count
        if not each:
            raise RooflensError(f"{self.host} has {len(cores)} cores for {self.count} slots: use at most {len(cores)}")
        os.sched_setaffinity(0, cores[self.index * each : (self.index + 1) * each])


class Machine(Protocol):
    """Runs processes for the thread that measures at a place; `remark` says what is not as on this machine.

    `call` returns what a function returns there, which also gets a folder and a stack that are left at the end; None on
    this machine, where whoever measures can call it.
    """

    start: Start
    remark: str
    call: Callable[..., Any] | None


class Here:
    """This machine."""

    start: Start = Child
    remark = ""
    call: Callable[..., Any] | None = None


class Cluster(Protocol):
    """Where workers may run: all of them on this machine if it `is_here`."""

    is_here: bool

    def offered(self) -> Mapping[str, int]:
        """Count the devices by architecture."""

    def now(self) -> Sequence[Place]:
        """List the places that are there at this moment. Raises RooflensError when nobody knows any more."""

    def entered(self, place: Place, deadline: Deadline) -> AbstractContextManager[Machine]:
        """Enter a place with the thread that measures there; the end of the context ends what runs there.

        What takes long there ends as `deadline` says.
        """


PATIENCE_S = 60.0
"""Time to wait for a device when there is none, unless requested otherwise."""


@dataclass(frozen=True, slots=True)
class Target:
    """The devices to measure on: those of architecture `arch` among `places`, at most `most` of them (None: all).

    `patience_s` is the time to wait for one when there is none.
    """

    places: Cluster
    arch: str
    most: int | None = None
    patience_s: float = PATIENCE_S


class LocalCluster:
    """The devices of this machine; `devices` are torch's names for them by architecture."""

    is_here = True

    def __init__(self, devices: Mapping[str, Sequence[str]]) -> None:
        host = socket.gethostname()
        self._places = [
            Place(host, arch, index, len(names), name)
            for arch, names in devices.items()
            for index, name in enumerate(names)
        ]

    def offered(self) -> Mapping[str, int]:
        """Count the devices by architecture."""
        return Counter(place.arch for place in self._places)

    def now(self) -> Sequence[Place]:
        """List all of them."""
        return self._places

    @contextmanager
    def entered(self, place: Place, deadline: Deadline) -> Iterator[Machine]:
        """Enter a place: on a CPU, its cores."""
        place.take_cores()
        yield Here()


def local_cluster(device: str, slots: int | None, should_stop: Callable[[], bool] = lambda: False) -> LocalCluster:
    """Return `slots` devices of this machine (None: all GPUs), found in a process of its own: torch would stay in this.

    Raises RooflensError when a GPU is requested and there is none, UsageError for more than there are.
    """
    found = in_child(partial(_offer, device, slots or 1), (), Settings(), str, dict[str, list[str]], should_stop)
    return LocalCluster(restricted(found, slots))


def _offer(device: str, slots: int, _: object) -> dict[str, list[str]]:
    return offer(device, slots)


def offer(device: str, slots: int) -> dict[str, list[str]]:
    """Name the GPUs of this machine as torch does, by architecture; without any, or for "cpu", `slots` times the CPU.

    Imports torch. Raises RooflensError when a GPU is requested and there is none, UsageError for too many slots.
    """
    import torch

    from ..machine.device import find_device
    from ..telemetry.linux import usable_cores

    found = find_device(device)
    if not found.is_gpu:
        if slots > (cores := usable_cores()):
            raise UsageError(
                f"{slots} parts of the CPU are requested, and it has {cores} cores: request at most {cores}"
            )
        return {found.arch: ["cpu"] * slots}
    names: dict[str, list[str]] = {}
    for index in range(torch.cuda.device_count()):
        names.setdefault(find_device(f"cuda:{index}").arch, []).append(f"cuda:{index}")
    return names


def chosen(asked: str, count: int | None, offered: Mapping[str, int], stored: str = "") -> str:
    """Return the architecture to measure, on `count` devices; `stored` is that of a run to resume, "" for none.

    Without a request ("") it is that of the GPUs, or of the CPUs if there are none. Raises UsageError for what is not
    offered, and where several would do.
    """
    if not offered:
        raise UsageError("no node of this Ray cluster offers an architecture: start them with rooflens fleet start")
    if stored and (asked not in ("", stored) or stored not in offered):
        raise UsageError(
            f"cannot resume: the run is of {stored}, and this call measures {asked or _listed(offered)}: choose "
            "another -o"
        )
    if asked and offered.get(asked, 0) < (count or 1):
        raise UsageError(
            f"{count or 1} x {asked} is requested, and this cluster offers {_listed(offered)}: start more nodes "
            "with rooflens fleet start --address HOST:PORT"
        )
    if found := asked or stored:
        return found
    kinds = [arch for arch in offered if is_gpu(arch)] or [*offered]
    if len(kinds) > 1:
        calls = " and ".join(f"one with --on {name}" for name in kinds)
        raise UsageError(f"a call measures one architecture: make {calls}, each with its own -o")
    return kinds[0]


def restricted(offer: Mapping[str, Sequence[str]], slots: int | None) -> dict[str, Sequence[str]]:
    """Return `offer` reduced to `slots` devices. Raises UsageError when there are fewer GPUs, or of two kinds."""
    counts = {arch: len(names) for arch, names in offer.items()}
    total = sum(counts.values())
    if slots is None or slots == total:
        return dict(offer)
    if slots > total:
        raise UsageError(f"--jobs local:{slots}: this machine has {_listed(counts)}; request at most {total}")
    if len(offer) > 1:
        raise UsageError(
            f"--jobs local:{slots}: this machine has {_listed(counts)}, and it is ambiguous which to exclude: use all "
            "of them, or set CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES on AMD)"
        )
    return {arch: names[:slots] for arch, names in offer.items()}


def _listed(offered: Mapping[str, int]) -> str:
    return ", ".join(f"{count} x {arch}" for arch, count in offered.items())
