"""The rate of vector instructions: chains of them in registers, enough of them apart for every lane to be busy.

What decodes weights is bound by it. "integer" are shifts and logic, which some GPUs issue at half the rate of "fma".
"""

import torch
import triton
import triton.language as tl

from ....shapes.device import Device
from ...jit.launch import compile_launch
from ..probe import Probe

BLOCK = 2048
"""Chains of a program: 16 per lane of four warps of 32, 8 of four waves of 64."""

STEPS = 16
"""Links of each chain in one iteration."""

PROGRAMS_PER_UNIT = 8
"""Programs per multiprocessor: eight warps for each of its four schedulers."""

ROUNDS = 1024
"""Iterations: about a millisecond, of which a launch is little."""

OPTIONS = {"num_warps": 4, "num_stages": 1}


@triton.jit(do_not_specialize=["rounds", "factor", "addend"])
def fma_kernel(out, rounds, factor, addend, BLOCK: tl.constexpr, STEPS: tl.constexpr, ASM: tl.constexpr):
    """out[p, i] = i after `rounds` times STEPS steps of a = a * factor + addend, in fp32.

    out  fp32 [programs, BLOCK]. Traffic: written once. BLOCK * STEPS * rounds fused multiply-adds per program.
    ASM  instruction set whose plain multiply-add is asked for, "ptx" or "gcn", because compilers pack two into one
         instruction on gfx9 and sm100; "": tl.fma
    """
    i = tl.arange(0, BLOCK)
    a = i.to(tl.float32)
    b = tl.full([BLOCK], factor, tl.float32)
    c = tl.full([BLOCK], addend, tl.float32)
    for _ in range(rounds):
        for _ in tl.static_range(STEPS):
            if ASM == "ptx":
                a = tl.inline_asm_elementwise("fma.rn.f32 $0, $1, $2, $3;", "=r,r,r,r", [a, b, c], tl.float32, True, 1)
            elif ASM == "gcn":
                a = tl.inline_asm_elementwise("v_fma_f32 $0, $1, $2, $3", "=v,v,v,v", [a, b, c], tl.float32, True, 1)
            else:
                a = tl.fma(a, b, c)
    tl.store(out + tl.program_id(0) * BLOCK + i, a)


@triton.jit(do_not_specialize=["rounds", "shift", "mask"])
def integer_kernel(out, rounds, shift, mask, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """out[p, i] = i after `rounds` times STEPS steps of a = (a >> shift) ^ mask.

    out  int32 [programs, BLOCK]. Traffic: written once. 2 BLOCK * STEPS * rounds instructions of a lane per program:
    with a shift that the compiler does not know, no two steps become one.
    """
    i = tl.arange(0, BLOCK)
    a = i
    for _ in range(rounds):
        for _ in tl.static_range(STEPS):
            a = (a >> shift) ^ mask
    tl.store(out + tl.program_id(0) * BLOCK + i, a)


KERNELS = {"fma": fma_kernel, "integer": integer_kernel}

INSTRUCTIONS = {"fma": 1, "integer": 2}
"""Vector instructions of one step."""


def operands(pattern: str, rounds: int) -> dict[str, int | float]:
    """Scalar arguments of the kernel of a pattern; values of chains neither die out nor overflow."""
    values = {"factor": 0.999, "addend": 1.5} if pattern == "fma" else {"shift": 3, "mask": 0x5BD1E995}
    return {"rounds": rounds, **values}


def constants(pattern: str, amd: bool) -> dict[str, int | str]:
    """Return the constexpr arguments of the kernel of a pattern."""
    asm = {"ASM": "gcn" if amd else "ptx"} if pattern == "fma" else {}
    return {"BLOCK": BLOCK, "STEPS": STEPS, **asm}


def chains(device: Device, pattern: str) -> Probe:
    """Compile the chains of a pattern ("fma" or "integer") for `device`, which must be the current one."""
    programs = PROGRAMS_PER_UNIT * device.compute_units
    dtype = torch.float32 if pattern == "fma" else torch.int32
    out = torch.empty(programs, BLOCK, dtype=dtype, device=device.torch_name)
    arguments = {"out": out, **operands(pattern, ROUNDS)}
    launch = compile_launch(KERNELS[pattern], (programs, 1, 1), arguments, constants(pattern, device.is_rocm), OPTIONS)
    instructions = INSTRUCTIONS[pattern] * BLOCK * STEPS * ROUNDS * programs
    what = {"fma": "fp32 multiply-adds", "integer": "32-bit shifts and logic"}[pattern]
    return Probe(launch.run, out.nbytes, f"Triton chains of {what}", lane_operations=instructions)
