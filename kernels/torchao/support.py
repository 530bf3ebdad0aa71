"""What a provider of this family can be asked for, and on which devices FP8 exists."""

import re

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ..provider import Support


def other_op(op: Op, problem: Problem) -> Support | None:
    """Return why a provider of one operation cannot compute another, None when it is the same."""
    return None if problem.op is op else Support.no(f"computes a {op}; this is a {problem.op}")


LONGEST_ROW = 1 << 24
"""Offsets inside a tile are 32-bit: up to 128 rows (or columns) of this many elements."""


def fp8_support(device: Device) -> Support:
    """Whether the device is a GPU with FP8 conversions and matrix instructions for its own e4m3."""
    if not device.is_gpu:
        return Support.no("Triton kernels need a GPU; on the CPU they are only checked in the interpreter")
    cuda = re.fullmatch(r"sm(\d+)", device.arch)
    if cuda and int(cuda.group(1)) < 89:
        return Support.no(f"{device.arch} has no FP8: needs sm89 or newer")
    if not cuda and device.arch not in ("gfx942", "gfx950") and not device.arch.startswith("gfx12"):
        return Support.no(f"{device.arch} has no FP8 matrix instructions: needs gfx942, gfx950 or gfx12")
    return Support.yes()


def gpu_family(arch: str) -> str:
    """Return "cuda", "cdna" (gfx9...) or "rdna"."""
    if not arch.startswith("gfx"):
        return "cuda"
    return "cdna" if arch.startswith("gfx9") else "rdna"
