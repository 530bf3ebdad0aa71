"""moe_align_block_size on the device: two launches, no synchronization."""

import torch
import triton
import triton.language as tl

from ...jit.call import KernelCall
from ..routing import Aligned

COUNT_CHUNK = 1024
PLACE_CHUNK = 256
WARPS = 4
"""Slots that a program takes at a time, and its warps."""


@triton.jit(do_not_specialize=["numel", "experts"])
def align_count_kernel(
    topk_ids, starts, filled, ends, cursors, padded, numel, experts,
    BLOCK: tl.constexpr, BINS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Count the slots of every expert, and lay out its rows.

    topk_ids  int32 [numel], experts of the slots; padded int32 [1], written: rows in use
    starts, filled, ends, cursors   int32 [experts], written: where the rows of an expert begin, where its slots end,
              where its padded rows end, and again where they begin (`align_place_kernel` counts these up)
    BINS      a power of two above `experts`: the last bin takes what is no slot

    One program counts everything: 4 bytes per slot.
    """
    bins = tl.arange(0, BINS)
    counts = tl.zeros([BINS], tl.int32)
    for first in range(0, numel, CHUNK):
        slot = first + tl.arange(0, CHUNK)
        counts += tl.histogram(tl.load(topk_ids + slot, mask=slot < numel, other=BINS - 1), BINS)
    here = bins < experts
    size = tl.where(here, (counts + (BLOCK - 1)) // BLOCK * BLOCK, 0)
    end = tl.cumsum(size, 0)
    start = end - size
    tl.store(starts + bins, start, mask=here)
    tl.store(filled + bins, start + counts, mask=here)
    tl.store(ends + bins, end, mask=here)
    tl.store(cursors + bins, start, mask=here)
    tl.store(padded, tl.sum(size, 0))


@triton.jit(do_not_specialize=["numel", "experts", "length", "blocks"])
def align_place_kernel(
    topk_ids, starts, filled, ends, cursors, padded, expert_map, sorted_ids, expert_ids,
    numel, experts, length, blocks,
    BLOCK: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr, MAPPED: tl.constexpr,
):  # fmt: skip
    """Place the slots, the sentinels, and the expert of every block: `routing.Aligned`.

    starts ... padded  of `align_count_kernel`; expert_map int32 [experts] or None (MAPPED)
    sorted_ids         int32 [length]; expert_ids int32 [blocks]; ROWS  a power of two, BLOCK or above

    Program p < experts pads the rows of expert p and names its blocks. The others take CHUNK slots each, and what lies
    behind the last row in use: grid experts + cd(length, CHUNK). The order of the slots of an expert is that in which
    their atomics arrive.
    """
    program = tl.program_id(0)
    if program < experts:
        end = tl.load(ends + program)
        row = tl.load(filled + program) + tl.arange(0, ROWS)
        tl.store(sorted_ids + row, numel + tl.zeros_like(row), mask=row < end)
        owner = program
        if MAPPED:
            owner = tl.load(expert_map + program)
        for first in range(tl.load(starts + program) // BLOCK, end // BLOCK, CHUNK):
            block = first + tl.arange(0, CHUNK)
            tl.store(expert_ids + block, owner + tl.zeros_like(block), mask=block < end // BLOCK)
    else:
        item = (program - experts) * CHUNK + tl.arange(0, CHUNK)
        slot = item < numel
        expert = tl.load(topk_ids + item, mask=slot, other=0)
        place = tl.atomic_add(cursors + expert, 1, mask=slot, sem="relaxed")
        tl.store(sorted_ids + place, item, mask=slot)
        used = tl.load(padded)
        tl.store(sorted_ids + item, numel + tl.zeros_like(item), mask=(item >= used) & (item < length))
        tl.store(expert_ids + item, tl.zeros_like(item), mask=(item >= used // BLOCK) & (item < blocks))


def align_calls(
    topk_ids: torch.Tensor, aligned: Aligned, experts: int, expert_map: torch.Tensor | None = None
) -> list[KernelCall]:
    """Lay out `topk_ids` (int32 [T, top_k], read at every call) in `aligned`, on the device.

    expert_map  int32 [experts] or None, as in `routing.align`. Experts must exist: nobody can raise on the device.
    """
    block, device = aligned.block, topk_ids.device
    scratch = (torch.empty(experts, dtype=torch.int32, device=device) for _ in range(4))
    layout = dict(zip(("starts", "filled", "ends", "cursors"), scratch, strict=True)) | {"padded": aligned.padded}
    shared = {"topk_ids": topk_ids, **layout, "numel": aligned.numel, "experts": experts}
    length, blocks = aligned.sorted_ids.numel(), aligned.expert_ids.numel()
    result = {"expert_map": expert_map, "sorted_ids": aligned.sorted_ids, "expert_ids": aligned.expert_ids}
    counting = {"BLOCK": block, "BINS": triton.next_power_of_2(experts + 1), "CHUNK": COUNT_CHUNK}
    placing = {
        "BLOCK": block, "ROWS": triton.next_power_of_2(block), "CHUNK": PLACE_CHUNK, "MAPPED": expert_map is not None,
    }  # fmt: skip
    place = {**shared, **result, "length": length, "blocks": blocks}
    programs, options = experts + -(-length // PLACE_CHUNK), {"num_warps": WARPS}
    return [
        KernelCall(align_count_kernel, (1, 1, 1), shared, counting, options),
        KernelCall(align_place_kernel, (programs, 1, 1), place, placing, options),
    ]
