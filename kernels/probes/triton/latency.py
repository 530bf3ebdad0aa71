"""How long one load takes: a program that reads where the next load reads from."""

import torch
import triton
import triton.language as tl

from ....shapes.device import Device
from ...jit.launch import compile_launch
from ..probe import Probe
from .streams import cache_modifier

STEPS = 2048
"""Loads of one launch, of which its own time is a thousandth."""

LINE_BYTES = 128
"""A load that shares its cache line with none before it."""

FOOTPRINT_BYTES = {"llc": 2 << 20, "dram": 1 << 30}
"""More than a first-level cache holds, and than a last-level one: no launch comes back to what one before it read."""

OPTIONS = {"num_warps": 1, "num_stages": 1}


@triton.jit
def chase_kernel(ring, position, STEPS: tl.constexpr, CACHE: tl.constexpr):
    """Follow ring[i] for STEPS steps from position[0], and store where that ends. One program; its time is latency.

    ring  int32, each element the index of the next one; position  int32 [1]
    """
    i = tl.load(position)
    for _ in range(STEPS):
        i = tl.load(ring + i, cache_modifier=CACHE)
    tl.store(position, i)


def chase(device: Device, level: str) -> Probe:
    """Compile the loads, one after another, from "llc" or "dram" of `device`, which must be the current one."""
    lines, words = FOOTPRINT_BYTES[level] // LINE_BYTES, LINE_BYTES // 4
    order = torch.randperm(lines, device=device.torch_name)
    ring = torch.zeros(lines * words, dtype=torch.int32, device=device.torch_name)
    ring[order * words] = (order.roll(-1) * words).int()
    position = torch.zeros(1, dtype=torch.int32, device=device.torch_name)
    constants = {"STEPS": STEPS, "CACHE": cache_modifier(device)}
    launch = compile_launch(chase_kernel, (1, 1, 1), {"ring": ring, "position": position}, constants, OPTIONS)
    how = f"Triton loads, each from where the one before it says, {STEPS} in {FOOTPRINT_BYTES[level] >> 20} MiB"
    return Probe(launch.run, STEPS * LINE_BYTES, how)
