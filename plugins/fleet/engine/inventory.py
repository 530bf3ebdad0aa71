"""The devices that this machine offers a fleet, by architecture, and the cores of its slots."""

import os
from functools import partial

from ....harness.sweep.in_child import in_child
from ....shapes.errors import RooflensError, UsageError
from ....shapes.protocol import Protocol
from .protocol import Slot


def offer_in_child(device: str, slots: int) -> dict[str, list[str]]:
    """Return `offer`, found in a process of its own: torch would stay in this one."""
    found: dict[str, list[str]] = in_child(partial(_offer, device, slots), (), Protocol(), str, dict[str, list[str]])
    return found


def _offer(device: str, slots: int, _: object) -> dict[str, list[str]]:
    return offer(device, slots)


def offer(device: str, slots: int) -> dict[str, list[str]]:
    """Name the GPUs of this machine as torch does, by architecture; without any, or for "cpu", `slots` times the CPU.

    Imports torch. Raises RooflensError when a GPU is requested and there is none, UsageError for too many slots.
    """
    import torch

    from ....harness.machine.device import find_device
    from ....harness.telemetry.linux import usable_cores

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


def take_cores(slot: Slot) -> None:
    """Confine this process and its children to the slot's part of the cores, so that slots of a CPU do not overlap.

    Raises RooflensError when there are more slots than cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // slot.count
    if not each:
        raise RooflensError(f"{slot.host} has {len(cores)} cores for {slot.count} slots: use at most {len(cores)}")
    os.sched_setaffinity(0, cores[slot.index * each : (slot.index + 1) * each])
