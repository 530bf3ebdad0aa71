"""The devices that this machine offers a fleet, by architecture, as resources of a Ray node, and its slots."""

import os
from functools import partial

from ....harness.sweep.in_child import in_child
from ....shapes.errors import RooflensError, UsageError
from ....shapes.protocol import Protocol
from .protocol import Slot


def offer_in_child(device: str, slots: int) -> dict[str, int]:
    """Return `offer`, found in a process of its own: torch would stay in this one."""
    found: dict[str, int] = in_child(partial(_offer, device, slots), (), Protocol(), str, dict[str, int])
    return found


def _offer(device: str, slots: int, _: object) -> dict[str, int]:
    return offer(device, slots)


def offer(device: str, slots: int) -> dict[str, int]:
    """Count the GPUs of this machine by architecture; without any, or for "cpu", `slots` parts of the CPU.

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
        return {found.arch: slots}
    counts: dict[str, int] = {}
    for index in range(torch.cuda.device_count()):
        arch = find_device(f"cuda:{index}").arch
        counts[arch] = counts.get(arch, 0) + 1
    return counts


def take_cores(slot: Slot) -> None:
    """Confine this process and its children to the slot's part of the cores, so that slots of a CPU do not overlap.

    Raises RooflensError when there are more slots than cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // slot.count
    if not each:
        raise RooflensError(f"{slot.host} has {len(cores)} cores for {slot.count} slots: use at most {len(cores)}")
    os.sched_setaffinity(0, cores[slot.index * each : (slot.index + 1) * each])
