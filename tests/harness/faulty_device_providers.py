"""Providers that misbehave on a GPU: an illegal access, a device-side assertion, no memory, a kernel that does not end.

As in faulty_providers.py, each is right except at M == FAULTY_M.
"""

import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from rooflens.kernels.fourbit.quantize import dequantize
from rooflens.kernels.provider import Launch, Provider

FAULTY_M = 2

HANG_CYCLES = 200_000_000_000
"""100 s at 2 GHz: far past every time limit of the tests, and still an end if nothing ends it before."""


@triton.jit
def write_far_away(pointer, distance):
    tl.store(pointer + distance, 1.0)


class OnDevice(Provider):
    def __init__(self, name, misbehave):
        self.name, self._misbehave = name, misbehave

    def prepare(self, inputs, config=None):
        weight = dequantize(inputs.weight, torch.float32).view(inputs.problem.N, -1)
        out = inputs.empty_output()

        def run():
            out.copy_(inputs.x.float() @ weight.t())
            if inputs.problem.M == FAULTY_M:
                self._misbehave(inputs.x)

        return Launch(run, out)


def reads_far_away(x):
    """Read element 2^20 of 4."""
    few = torch.ones(4, device=x.device)
    few[torch.full((1,), 1 << 20, device=x.device)]


def hangs(x):
    """Leave a stamp, and a kernel that does not end in time."""
    stamp = Path("device_hang.stamp")
    if not stamp.exists():
        stamp.write_text(repr(time.time()))
    torch.cuda._sleep(HANG_CYCLES)


PROVIDERS = [
    OnDevice("right_on_device", lambda x: None),
    OnDevice("illegal_access", lambda x: write_far_away[(1,)](x, 1 << 40)),  # 4 TiB past the activations
    OnDevice("device_assert", reads_far_away),
    OnDevice("device_oom", lambda x: torch.empty(1 << 46, device=x.device)),
    OnDevice("device_hang", hangs),
]
