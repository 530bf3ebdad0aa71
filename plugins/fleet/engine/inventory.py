"""The devices that this machine offers a fleet, by architecture, as resources of a Ray node, and its slots."""

import json
import os
import subprocess
import sys
from contextlib import suppress

from ....shapes.errors import RooflensError, UsageError
from .protocol import Slot

_TIMEOUT_S, _END_S = 300.0, 5.0


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


class InventoryProcess:
    """Determines `offer` in a separate process: importing torch in this one would take as long, and stay."""

    def __init__(self, device: str, slots: int) -> None:
        command = [sys.executable, "-m", __name__, device, str(slots)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def answer(self) -> dict[str, int]:
        """Wait for it. Raises what `offer` raised."""
        try:
            output, errors = self._process.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RooflensError(f"this machine's devices were not found within {_TIMEOUT_S:.0f} s") from None
        lines = output.splitlines()
        if self._process.returncode == 0 and lines:
            counts: dict[str, int] = json.loads(lines[-1])
            return counts
        last = (errors.strip().splitlines() or [f"exit code {self._process.returncode}"])[-1]
        raise (UsageError if self._process.returncode == UsageError.exit_code else RooflensError)(last)

    def kill(self) -> None:
        """End it without an answer."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # something that it started holds the pipe open
            self._process.communicate(timeout=_END_S)


def main() -> int:
    """Print the offer as JSON: `python -m rooflens.plugins.fleet.engine.inventory DEVICE SLOTS`."""
    try:
        print(json.dumps(offer(sys.argv[1], int(sys.argv[2]))))
    except RooflensError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
