"""How slow this machine is at present, for tests whose subject is a time limit that real processes run into."""

import math
import subprocess
import sys
import time
from functools import cache

USUAL_START_S = 2.0
"""Time that a process usually takes to import torch."""


def patient(limit_s: float) -> int:
    """Return `limit_s`, in whole seconds, times how much longer than usual a process takes to start here."""
    return math.ceil(limit_s * max(1.0, _start_s() / USUAL_START_S))


@cache
def _start_s() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True, timeout=300)
    return time.monotonic() - began
