"""What this machine offers a fleet: its devices by architecture, as resources of a Ray node."""

import json
import subprocess
import sys

from ...shapes.errors import RooflensError, UsageError

_TIMEOUT_S = 300.0


def offer(device: str, slots: int) -> dict[str, int]:
    """Count the GPUs here by architecture; with none, or for "cpu", say `slots` of the CPU's. Imports torch.

    Raises RooflensError when a GPU is asked for and there is none, and UsageError for more slots than a CPU has cores.
    """
    import torch

    from ..machine.device import find_device
    from ..telemetry.linux import usable_cores

    found = find_device(device)
    if not found.is_gpu:
        if slots > (cores := usable_cores()):
            raise UsageError(
                f"{slots} parts of the CPU are asked for, and it has {cores} cores: ask for at most {cores}"
            )
        return {found.arch: slots}
    counts: dict[str, int] = {}
    for index in range(torch.cuda.device_count()):
        arch = find_device(f"cuda:{index}").arch
        counts[arch] = counts.get(arch, 0) + 1
    return counts


class Asked:
    """The offer of this machine, asked of a process of its own: importing torch here would take as long, and stay."""

    def __init__(self, device: str, slots: int) -> None:
        command = [sys.executable, "-m", __name__, device, str(slots)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def answer(self) -> dict[str, int]:
        """Wait for it. Raises what `offer` raised."""
        try:
            said, complaint = self._process.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.drop()
            raise RooflensError(f"this machine's devices were not found within {_TIMEOUT_S:.0f} s") from None
        lines = said.splitlines()
        if self._process.returncode == 0 and lines:
            counts: dict[str, int] = json.loads(lines[-1])
            return counts
        last = (complaint.strip().splitlines() or ["no word of why"])[-1]
        raise (UsageError if self._process.returncode == UsageError.exit_code else RooflensError)(last)

    def drop(self) -> None:
        """End it unanswered."""
        self._process.kill()
        self._process.communicate()


def main() -> int:
    """Print the offer as JSON: `python -m rooflens.harness.fleet.inventory DEVICE SLOTS`."""
    try:
        print(json.dumps(offer(sys.argv[1], int(sys.argv[2]))))
    except RooflensError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
