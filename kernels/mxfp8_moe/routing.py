"""Routing of tokens to experts, and the layouts in which grouped kernels read it (torch; kernels: `triton.align`).

A slot is one (token, choice) pair: slot i = token * top_k + choice. `align` sorts slots by expert and pads every expert
to whole blocks of rows, as vLLM's and aiter's `moe_align_block_size` do.
"""

from dataclasses import dataclass

import torch

from ...shapes.errors import UsageError
from ...shapes.schemes.mxfp8_moe import hit_experts


@dataclass(frozen=True, slots=True)
class Aligned:
    """Slots sorted by expert, each expert padded to whole blocks.

    sorted_ids   int32 [numel + E * (block - 1)], slots; the sentinel `numel` = T * top_k where there is none
    expert_ids   int32 [cd(numel + E * (block - 1), block)], expert of each block, -1 of a block whose expert is not
                 here (expert map), 0 beyond the end
    padded       int32 [1], rows in use: a multiple of `block`
    block        rows per block
    numel        slots
    """

    sorted_ids: torch.Tensor
    expert_ids: torch.Tensor
    padded: torch.Tensor
    block: int
    numel: int

    @property
    def max_blocks(self) -> int:
        """Blocks that can be in use, known without asking the device: each has a row, and the buffers hold them."""
        return min(self.numel, int(self.expert_ids.numel()))


def route(tokens: int, experts: int, top_k: int, generator: torch.Generator) -> torch.Tensor:
    """Draw topk_ids, int32 [tokens, top_k], on the generator's device: distinct experts per token.

    Uniform among the draws that hit `hit_experts` experts in all, so that traffic does not depend on the seed. That is
    the likeliest number or next to it: of 256 experts, one draw in fifteen hits just as many at worst.
    """
    hits = hit_experts(tokens, experts, top_k)
    while True:
        keys = torch.rand(tokens, experts, generator=generator, device=generator.device, dtype=torch.float32)
        topk_ids = keys.argsort(dim=1)[:, :top_k]
        if topk_ids.unique().numel() == hits:
            return topk_ids.to(torch.int32).contiguous()


def empty_aligned(numel: int, block: int, experts: int, device: torch.device | str) -> Aligned:
    """Allocate the layout of `numel` slots. Raises UsageError when it has no row, or more than 31 bits can number."""
    length = numel + experts * (block - 1)
    if not 0 < length < 1 << 31:
        raise UsageError(f"{numel} slots in blocks of {block} for {experts} experts do not fit 32-bit indices")
    return Aligned(
        torch.empty(length, dtype=torch.int32, device=device),
        torch.empty(-(-length // block), dtype=torch.int32, device=device),
        torch.empty(1, dtype=torch.int32, device=device),
        block,
        numel,
    )


def align(topk_ids: torch.Tensor, block: int, experts: int, expert_map: torch.Tensor | None = None) -> Aligned:
    """Sort and pad slots: `moe_align_block_size`. Slots of one expert stand in rising order here; that is no guarantee.

    topk_ids    integer [T, top_k], experts in 0 .. experts - 1; block  rows per block
    expert_map  integer [experts], where an expert is in the local weights, -1 where it is not; None: all are here.
                Slots of absent experts keep their blocks, which then carry -1.

    Raises UsageError for a block below 1 or an expert that does not exist.
    """
    if block < 1:
        raise UsageError(f"block={block}: a block has at least one row")
    slots = topk_ids.reshape(-1).long()
    numel = slots.numel()
    if numel and not 0 <= int(slots.min()) <= int(slots.max()) < experts:
        raise UsageError(f"topk_ids holds an expert outside 0 .. {experts - 1}")
    result = empty_aligned(numel, block, experts, topk_ids.device)
    counts = torch.bincount(slots, minlength=experts)
    blocks = (counts + block - 1) // block
    ends = blocks.cumsum(0) * block
    order = slots.argsort(stable=True)
    first = counts.cumsum(0) - counts
    rank = torch.arange(numel, device=slots.device) - first[slots[order]]
    result.sorted_ids.fill_(numel)
    result.sorted_ids[(ends - blocks * block)[slots[order]] + rank] = order.int()
    used = torch.repeat_interleave(torch.arange(experts, device=slots.device), blocks)
    result.expert_ids.zero_()
    result.expert_ids[: used.numel()] = (used if expert_map is None else expert_map.long()[used]).int()
    result.padded.copy_(ends[-1:])
    return result
