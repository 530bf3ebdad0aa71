"""Streaming read, write and copy in Triton: a fixed number of programs that visit one block of memory after another.

All passes over a footprint are in one launch, because a single pass over what fits in a cache takes microseconds, most
of them the launch. `VisitOrder` says who visits what: no program returns to a block before it has seen all others that
it may see, so that the cache of its own multiprocessor (at most 256 KiB on NVIDIA, 32 KiB on AMD) has nothing for it.
"""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ....shapes.device import Device
from ...jit.launch import compile_launch
from ..probe import Pattern, Probe

BLOCK_WORDS = 2048
"""32-bit words of a block: four 16-byte accesses of each lane of four warps of 32."""

BLOCK_BYTES = 4 * BLOCK_WORDS

OPTIONS = {"num_warps": 4, "num_stages": 1}

PROGRAMS_PER_UNIT = (4, 8)
"""Programs per multiprocessor that are worth trying: with 8, loads of 64 to 128 KiB are in flight on each."""

SLICES = 24
"""Multiple of the numbers of chiplets (1, 2, 3, 4, 6 or 8) that programs go round, each with an L2 of its own."""


@triton.jit(do_not_specialize=["blocks", "step", "visits"])
def read_kernel(data, out, blocks, step, visits, BLOCK: tl.constexpr, MODIFIER: tl.constexpr):
    """out[p] = sum of all words that program p visits, modulo 2^32.

    data  int32 [blocks * BLOCK], contiguous; out  int32 [programs]
    Program p visits `visits` blocks, first p % blocks, then `step` further each time, in a ring. MODIFIER as in
    `cache_modifier`. Traffic: visits * BLOCK * 4 bytes read per program, 4 bytes written.
    """
    words = tl.arange(0, BLOCK)
    block = tl.program_id(0) % blocks
    total = tl.zeros([BLOCK], dtype=tl.int32)
    for _ in range(visits):
        total += tl.load(data + block * BLOCK + words, cache_modifier=MODIFIER)
        block += step
        block = tl.where(block >= blocks, block - blocks, block)
    tl.store(out + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit(do_not_specialize=["blocks", "step", "visits"])
def write_kernel(data, blocks, step, visits, BLOCK: tl.constexpr):
    """Word i of a visited block becomes i + 1 + the number of the visit; the order of visits is that of `read_kernel`.

    data  int32 [blocks * BLOCK], contiguous. Traffic: visits * BLOCK * 4 bytes written per program.
    """
    words = tl.arange(0, BLOCK)
    block = tl.program_id(0) % blocks
    for visit in range(visits):
        tl.store(data + block * BLOCK + words, words + 1 + visit)
        block += step
        block = tl.where(block >= blocks, block - blocks, block)


@triton.jit(do_not_specialize=["blocks", "step", "visits"])
def copy_kernel(source, target, blocks, step, visits, BLOCK: tl.constexpr, MODIFIER: tl.constexpr):
    """Copy every visited block of `source` to `target`; the order of visits is that of `read_kernel`.

    source, target  int32 [blocks * BLOCK], contiguous. Traffic: visits * BLOCK * 8 bytes per program.
    """
    words = tl.arange(0, BLOCK)
    block = tl.program_id(0) % blocks
    for _ in range(visits):
        value = tl.load(source + block * BLOCK + words, cache_modifier=MODIFIER)
        tl.store(target + block * BLOCK + words, value)
        block += step
        block = tl.where(block >= blocks, block - blocks, block)


@dataclass(frozen=True, slots=True)
class VisitOrder:
    """`programs` programs visit `visits` of `blocks` blocks each, `step` blocks apart, as `read_kernel` describes."""

    blocks: int
    programs: int
    step: int
    visits: int

    @property
    def visited_bytes(self) -> int:
        """Bytes of all visits, repetitions counted."""
        return self.programs * self.visits * BLOCK_BYTES

    @property
    def passes(self) -> float:
        """How often a block is visited, on average."""
        return self.programs * self.visits / self.blocks


def once(footprint_bytes: int, programs: int) -> VisitOrder:
    """Visit each block of at most `footprint_bytes` exactly once: what is far larger than a cache passes through it."""
    visits = max(1, footprint_bytes // BLOCK_BYTES // programs)
    return VisitOrder(visits * programs, programs, programs, visits)


def again_and_again(footprint_bytes: int, programs: int, least_bytes: int, stay: bool) -> VisitOrder:
    """Visit at most `footprint_bytes` over and over, at least `least_bytes` in all.

    Programs go round the chiplets of a device (AMD's XCDs). `stay`: each chiplet sees its own part of the blocks only,
    which its L2 then holds; otherwise every program sees every block, so that a small L2 in front of the cache that is
    measured does not serve them.
    """
    unit = SLICES if stay else 1
    blocks = max(SLICES, footprint_bytes // BLOCK_BYTES // SLICES * SLICES)
    # A stride of about all programs spreads the visits of one time evenly; one that shares no factor with the ring
    # comes back to a block last.
    step = unit * next(
        stride for stride in range(programs // unit, programs // unit + blocks) if math.gcd(stride, blocks // unit) == 1
    )
    return VisitOrder(blocks, programs, step % blocks or unit, -(-least_bytes // (programs * BLOCK_BYTES)))


def cache_modifier(device: Device) -> str:
    """Return how loads are marked: past the multiprocessor's cache on NVIDIA (.cg), ordinary on AMD.

    AMD's .cg also says that the line is used once (nt, slc), which its L2 heeds; there the order of the visits must do.
    """
    return ".cg" if device.vendor == "NVIDIA" else ""


def sweep(pattern: Pattern, data: torch.Tensor, order: VisitOrder, modifier: str) -> Probe:
    """Compile and bind one sweep over `data`, contiguous int32 on the current device; a copy uses its two halves.

    Raises ValueError when the blocks of `order` (twice as many for a copy) do not fit into `data`.
    """
    words = order.blocks * BLOCK_WORDS
    halves = 2 if pattern is Pattern.COPY else 1
    if data.dtype != torch.int32 or not data.is_contiguous() or data.numel() < halves * words:
        raise ValueError(f"sweep: {halves * words} contiguous int32 words are needed, not {data.numel()} {data.dtype}")
    path = {"blocks": order.blocks, "step": order.step, "visits": order.visits}
    constants: dict[str, object] = {"BLOCK": BLOCK_WORDS, "MODIFIER": modifier}
    if pattern is Pattern.READ:
        operands = {"data": data, "out": torch.zeros(order.programs, dtype=torch.int32, device=data.device)}
        kernel = read_kernel
    elif pattern is Pattern.COPY:
        operands, kernel = {"source": data[:words], "target": data[words : 2 * words]}, copy_kernel
    else:
        operands, kernel = {"data": data}, write_kernel
        del constants["MODIFIER"]
    launch = compile_launch(kernel, (order.programs, 1, 1), operands | path, constants, OPTIONS)
    times = "once" if order.passes == 1 else f"{order.passes:.0f} times in one launch"
    how = f"Triton {pattern} of {halves * 4 * words / 2**20:.4g} MiB, {times}, by {order.programs} programs"
    return Probe(launch.run, halves * order.visited_bytes, how)
