"""What this machine offers for measuring: device, caches, clocks, neighbours, host, software, timers, room to store.

`survey` looks at everything once and returns plain values in base units, unknown None; `advice` says
what they mean for the numbers of a run.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...shapes import protocol
from ...shapes.device import Device
from ..telemetry import linux
from ..telemetry.linux import HostFacts
from ..telemetry.source import Board, DeviceProcess, Reading, Telemetry, holds_context, telemetry
from ..timing.timer import unavailable
from . import software
from .device import find_device, gpu_possible
from .software import Software

WATCH_S = 0.5
"""How long the cores are watched for what others do on them."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that can be requested by name; `reason` says why it is not available, or what it is, in one line."""

    name: str
    available: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProviderOffer(Offer):
    """A provider; `family` is that of the problems which it computes, "" where it says none."""

    family: str = ""


@dataclass(frozen=True, slots=True)
class Caches:
    """Cache sizes in bytes, each with the place that it is from; `torch_l2_bytes` is what torch calls the L2."""

    l2_bytes: int
    l2_source: str
    llc_bytes: int
    llc_source: str
    torch_l2_bytes: int | None


@dataclass(frozen=True, slots=True)
class Survey:
    """One look at a machine. `others` are the processes on the device that are not this one, as far as they show.

    `siblings` are the other GPUs that torch sees, `driver_gpus` those of the machine that a driver shows ("NVIDIA" or
    "AMD", empty when there are none): they may be more than torch can use. `free_bytes` is memory of the device,
    `disk_free_bytes` the room where runs are stored.
    """

    device: Device
    caches: Caches
    free_bytes: int | None
    telemetry: Offer
    reading: Reading
    board: Board
    others: tuple[DeviceProcess, ...]
    siblings: tuple[str, ...]
    driver_gpus: tuple[str, ...]
    host: HostFacts
    software: Software
    timers: tuple[Offer, ...]
    providers: tuple[ProviderOffer, ...]
    disk: str
    disk_free_bytes: int | None


def survey(
    name: str = "auto",
    providers: Callable[[Device], Iterable[ProviderOffer]] = lambda device: (),
    runs: Path = Path("runs"),
) -> Survey:
    """Look at the machine, and at the device `name` ("auto", "cpu", "cuda", "cuda:N").

    `providers` returns what can run on the device; `runs` is where runs will be stored. Raises
    RooflensError when there is no such device.
    """
    device = find_device(name)
    source = telemetry(device)
    others, reading = _others(source, device), _reading(source, device)  # before we have a context and load ourselves
    offers = tuple(providers(device))
    return Survey(
        device=device,
        caches=_caches(device),
        telemetry=Offer(source.name, source.name != "unknown", source.why),
        reading=reading,
        board=source.board(),
        others=others,
        free_bytes=_free_bytes(device),
        siblings=_siblings(device),
        driver_gpus=_driver_gpus(),
        host=linux.describe(),
        software=software.describe(),
        timers=tuple(_timer(one, device) for one in protocol.TIMERS if one != "auto"),
        providers=offers,
        disk=str(runs.absolute()),
        disk_free_bytes=_disk_free_bytes(runs),
    )


def _others(source: Telemetry, device: Device) -> tuple[DeviceProcess, ...]:
    """Processes on the device without this one, which has an entry only if it holds a context already."""
    found = source.processes() or ()
    others = tuple(one for one in found if one.pid != os.getpid())
    hidden = len(others) == len(found) and device.is_gpu and holds_context(device)
    return () if hidden and len(others) == 1 else others


def _reading(source: Telemetry, device: Device) -> Reading:
    """Read the device; a CPU is watched for a moment in which this process does nothing."""
    if not device.is_gpu:
        source.read()
        time.sleep(WATCH_S)
    return source.read()


def _caches(device: Device) -> Caches:
    if not device.is_gpu:
        known = (linux.ROOT / "sys/devices/system/cpu/cpu0/cache/index0").exists()
        source = "/sys" if known else "assumed: this CPU does not report it"
        return Caches(device.l2_bytes, source, device.llc_bytes, source, None)
    import torch

    properties: Any = torch.cuda.get_device_properties(device.index)
    spec = device.spec
    return Caches(
        l2_bytes=device.l2_bytes,
        l2_source="device table" if spec and spec.l2_bytes else "torch",
        llc_bytes=device.llc_bytes,
        llc_source="device table" if spec and spec.last_level_bytes else "assumed: 4x what torch calls the L2",
        torch_l2_bytes=properties.L2_cache_size,
    )


def _free_bytes(device: Device) -> int | None:
    if not device.is_gpu:
        return linux.memory_available_bytes()
    import torch

    try:
        free, _ = torch.cuda.mem_get_info(device.index)
    except RuntimeError:  # no room even for a context
        return None
    return int(free)


def _siblings(device: Device) -> tuple[str, ...]:
    if not gpu_possible():
        return ()
    import torch

    names = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return tuple(name for name in names if name != device.torch_name)


def _driver_gpus() -> tuple[str, ...]:
    """GPUs that have a device file, whether torch can use them or not."""
    nvidia = len(list((linux.ROOT / "dev").glob("nvidia[0-9]*")))
    return ("NVIDIA",) * nvidia + (("AMD",) if (linux.ROOT / "dev/kfd").exists() else ())


def _timer(name: str, device: Device) -> Offer:
    reason = unavailable(name, device)
    return Offer(name, not reason, reason)


def _disk_free_bytes(folder: Path) -> int | None:
    """Free bytes where `folder` is, or would be made."""
    for place in (folder.absolute(), *folder.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None
