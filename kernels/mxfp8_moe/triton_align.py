"""moe_align_block_size on the device: two launches, no synchronization."""

# Triton types its kernels itself.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

import triton
import triton.language as tl


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
