"""Providers that misbehave on a GPU: an illegal access, a device-side assertion, no memory, a kernel that does not end.

As in faulty_providers.py, whose class they are of, each is right except at M == FAULTY_M.
"""

import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from faulty_providers import Faulty

HANG_CYCLES = 200_000_000_000
"""100 s at 2 GHz: far past every time limit of the tests, and still an end if nothing ends it before."""


@triton.jit
def write_far_away(pointer, distance):
    tl.store(pointer + distance, 1.0)


def reads_far_away(inputs, out):
    """Read element 2^20 of 4."""
    few = torch.ones(4, device=out.device)
    few[torch.full((1,), 1 << 20, device=out.device)]


def hangs(inputs, out):
    """Leave a stamp, and a kernel that does not end in time."""
    stamp = Path("device_hang.stamp")
    if not stamp.exists():
        stamp.write_text(repr(time.time()))
    torch.cuda._sleep(HANG_CYCLES)


PROVIDERS = [
    Faulty("right_on_device", lambda inputs, out: None),
    Faulty("illegal_access", lambda inputs, out: write_far_away[(1,)](inputs.x, 1 << 40)),  # 4 TiB past the activations
    Faulty("device_assert", reads_far_away),
    Faulty("device_oom", lambda inputs, out: torch.empty(1 << 46, device=out.device)),
    Faulty("device_hang", hangs),
]
