"""The canary: a frozen GEMM and a frozen copy, timed now and then. When their time moves, the device has moved.

It never changes with suite, provider or tuning, so that its drift says something about the device and nothing else.
"""

from functools import partial
from statistics import median
from typing import Any

import torch

from ...shapes.device import Device
from ..telemetry.clock import CLOCK
from .accelerator import Host
from .timer import Subject, Timer
from .timers import make_timer

EVERY_S = 60.0
"""Seconds between two readings in a long sweep."""

STARTING, STARTING_S = 6, 1.0
"""Readings of a process before its first cell, whose scatter is this machine's own; after so long, three do."""

SAMPLES = 15

WARM_UP_S = 0.2
"""Both run this long first: a device that was idle has to reach its working clock, and a fresh process its memory."""


class Canary:
    """A square GEMM that fills the device (bf16 on GPUs, fp32 on CPUs), and a copy far beyond the last-level cache."""

    def __init__(self, device: Device, machine: Host) -> None:
        self._machine = machine
        size, dtype = (4096, torch.bfloat16) if device.is_gpu else (768, torch.float32)
        generator = torch.Generator(device.torch_name).manual_seed(0)
        a, b = (torch.randn(size, size, generator=generator, device=device.torch_name).to(dtype) for _ in range(2))
        # 2 x LLC at least: what is copied must come from memory.
        source = torch.ones(2 * device.llc_bytes // 4, device=device.torch_name)
        self._gemm = partial(torch.mm, a, b, out=torch.empty_like(a))
        self._copy = partial(torch.empty_like(source).copy_, source)
        name = "event" if device.is_gpu else "host"
        self._ended = 0.0
        self._timers = [make_timer(name, machine, Subject(work), device) for work in (self._gemm, self._copy)]

    def read(self) -> dict[str, Any]:
        """Time both, after warming up a device that has not just done so: a row of canary.csv, without its process."""
        began = self._machine.now()
        while began - self._ended > WARM_UP_S > self._machine.now() - began:
            self._gemm()
            self._copy()
            self._machine.synchronize()
        gemm, copy = (_typical(timer) for timer in self._timers)
        self._ended = self._machine.now()
        return {"at": CLOCK.now(), "gemm_s": gemm, "copy_s": copy}


def _typical(timer: Timer) -> float:
    """Median of the samples that count; of all, where none does."""
    batch = timer.batch(SAMPLES)
    return median(batch.counting or batch.times_s)
