"""Providers that misbehave on a GPU: an illegal access, a device-side assertion, no memory, a kernel that does not end.

As in faulty_providers.py, each is right except at M == FAULTY_M.
"""

import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from rooflens.kernels.fourbit.quantize import dequantize
from rooflens.kernels.provider import Launch, Provider, Role

FAULTY_M = 2

HANG_CYCLES = 200_000_000_000
"""100 s at 2 GHz: far past every time limit of the tests, and still an end if nothing ends it before."""


@triton.jit
def write_far_away(pointer, distance):
    tl.store(pointer + distance, 1.0)


class RightOnDevice(Provider):
    name = "right_on_device"
    role = Role.DEQUANT_BLAS

    def misbehave(self, inputs):
        """Nothing here."""

    def prepare(self, inputs, config=None):
        weight = dequantize(inputs.weight, torch.float32).view(inputs.problem.N, -1)
        out = inputs.empty_output()

        def run():
            out.copy_(inputs.x.float() @ weight.t())
            if inputs.problem.M == FAULTY_M:
                self.misbehave(inputs)

        return Launch(run, out)


class IllegalAccess(RightOnDevice):
    """Stores 4 TiB past the activations."""

    name = "illegal_access"
    role = Role.CANDIDATE

    def misbehave(self, inputs):
        write_far_away[(1,)](inputs.x, 1 << 40)


class DeviceAssert(RightOnDevice):
    """Reads element 2^20 of 4."""

    name = "device_assert"
    role = Role.CANDIDATE

    def misbehave(self, inputs):
        few = torch.ones(4, device=inputs.x.device)
        few[torch.full((1,), 1 << 20, device=inputs.x.device)]


class DeviceOutOfMemory(RightOnDevice):
    name = "device_oom"
    role = Role.CANDIDATE

    def misbehave(self, inputs):
        torch.empty(1 << 46, device=inputs.x.device)


class DeviceHang(RightOnDevice):
    """Leaves a stamp, and a kernel that does not end in time."""

    name = "device_hang"
    role = Role.CANDIDATE

    def misbehave(self, inputs):
        stamp = Path(f"{self.name}.stamp")
        if not stamp.exists():
            stamp.write_text(repr(time.time()))
        torch.cuda._sleep(HANG_CYCLES)


PROVIDERS = [RightOnDevice(), IllegalAccess(), DeviceAssert(), DeviceOutOfMemory(), DeviceHang()]
