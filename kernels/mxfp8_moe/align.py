"""moe_align_block_size as launches: the routing is laid out on the device, from topk_ids that are there."""

from collections.abc import Callable

import torch
import triton

from ..aot import Request, kernel_path
from ..triton_launch import compile_launch
from .routing import Aligned, empty_aligned
from .triton_align import align_count_kernel, align_place_kernel

COUNT_CHUNK = 1024
PLACE_CHUNK = 256
WARPS = 4
"""Slots that a program takes at a time, and its warps."""


def prepare_align(
    topk_ids: torch.Tensor, block: int, experts: int, expert_map: torch.Tensor | None = None
) -> tuple[Callable[[], None], Aligned]:
    """Return the call that lays out `topk_ids` (int32 [T, top_k], read at every call), and where it does.

    expert_map  int32 [experts] or None, as in `routing.align`. Experts must exist: nobody can raise on the device.
    """
    device = topk_ids.device
    result = empty_aligned(topk_ids.numel(), block, experts, device)
    starts, filled, ends, cursors = torch.empty(4, experts, dtype=torch.int32, device=device)
    sizes = align_sizes(topk_ids.numel(), block, experts)
    layout = {"starts": starts, "filled": filled, "ends": ends, "cursors": cursors, "padded": result.padded}
    count = compile_launch(
        align_count_kernel,
        (1, 1, 1),
        {"topk_ids": topk_ids, **layout, "numel": sizes["numel"], "experts": experts},
        count_constants(block, experts),
        {"num_warps": WARPS},
    )
    place = compile_launch(
        align_place_kernel,
        (experts + -(-sizes["length"] // PLACE_CHUNK), 1, 1),
        {
            "topk_ids": topk_ids, **layout, "expert_map": expert_map, "sorted_ids": result.sorted_ids,
            "expert_ids": result.expert_ids, **sizes,
        },
        place_constants(block, expert_map is not None),
        {"num_warps": WARPS},
    )  # fmt: skip

    def run() -> None:
        count.run()
        place.run()

    return run, result


def align_sizes(numel: int, block: int, experts: int) -> dict[str, int]:
    """Integer arguments of `align_place_kernel`."""
    length = numel + experts * (block - 1)
    return {"numel": numel, "experts": experts, "length": length, "blocks": -(-length // block)}


def count_constants(block: int, experts: int) -> dict[str, int]:
    """Constexpr arguments of `align_count_kernel`."""
    return {"BLOCK": block, "BINS": triton.next_power_of_2(experts + 1), "CHUNK": COUNT_CHUNK}


def place_constants(block: int, mapped: bool) -> dict[str, int | bool]:
    """Constexpr arguments of `align_place_kernel`."""
    return {"BLOCK": block, "ROWS": triton.next_power_of_2(block), "CHUNK": PLACE_CHUNK, "MAPPED": mapped}


def align_requests(numel: int, block: int, experts: int) -> list[Request]:
    """Return what `prepare_align` would compile, without an expert map."""
    sizes = align_sizes(numel, block, experts)
    layout = dict.fromkeys(("topk_ids", "starts", "filled", "ends", "cursors", "padded"), "*i32")
    more = {"expert_map": None, "sorted_ids": "*i32", "expert_ids": "*i32"}
    options = {"num_warps": WARPS}
    counted = {"numel": numel, "experts": experts}
    return [
        Request(kernel_path(align_count_kernel), {**layout, **counted}, count_constants(block, experts), options),
        Request(kernel_path(align_place_kernel), {**layout, **more, **sizes}, place_constants(block, False), options),
    ]
