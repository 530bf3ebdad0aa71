"""grouped_moe, guarded_moe, gemv_moe and grouped_with_align_moe: the fused MoE kernels, and how they are called."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8_moe import ID_BYTES, MxFp8Moe
from ..geometry import Tiling, padded
from ..jit.call import KernelCall
from ..jit.provider import TritonProvider
from ..jit.tiles import Tile, compiler_options
from ..needs import NOT_ON_CPU
from ..provider import Config, Support
from .inputs import MoeInputs
from .routing import Aligned, align, empty_aligned
from .traffic import fused_bytes, part_bytes
from .triton.align import align_calls
from .triton.gemv import gemv_moe_kernel
from .triton.grouped import grouped_moe_kernel
from .triton_configs import GEMV_ROWS, Traits, gemv_configs, grouped_configs, traits

MAX_K = 1 << 24
"""Offsets inside the rows of one program are 32-bit: up to 128 rows of this many elements."""

SMALL = 1 << 31
"""Offsets below this fit a signed 32-bit number; payloads have one byte per element, so it counts bytes too."""

GEMV_MAX_ROWS = 64
"""Routed rows up to which gemv_moe is offered."""

WORD_ELEMENTS = 4 * 32
"""Elements whose scales make a word."""


class Fused(TritonProvider[MxFp8Moe, MoeInputs]):
    """A kernel over the sorted slots. The routing is laid out in `prepare`: the launch is the GEMM alone."""

    family = "mxfp8_moe"
    kernel: ClassVar[Any]
    wide: ClassVar[bool] = True

    def supports(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> Support:
        """Any problem of the family, on a GPU."""
        if not device.is_gpu:
            return Support.no(NOT_ON_CPU)
        if problem.K > MAX_K:
            return Support.no(f"K is limited to {MAX_K} (32-bit offsets inside a tile)")
        return Support.yes()

    def tiles(self, problem: Problem, device: Device) -> Sequence[Tile]:
        """Configurations worth trying, the default first."""
        return grouped_configs(problem, device)

    def candidates(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> Sequence[Config]:
        """Rows of the per-architecture table for this mean of rows per expert; K divided so that the grid fills."""
        return [tile.as_json() for tile in self.tiles(problem, device)]

    def calls(self, inputs: MoeInputs, outputs: tuple[torch.Tensor, ...], config: Config) -> Sequence[KernelCall]:
        """The kernel, on slots that are sorted and padded here."""
        return [moe_call(self.kernel, inputs, _aligned(inputs, config), outputs[0], config, self.wide)]

    def moved_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """Weights of hit experts once per block of their rows, whose number is the expected one."""
        return fused_bytes(problem, scheme, config)

    def working_set_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """Operands, routing and Y, and the parts of a divided K."""
        return scheme.compulsory_bytes(problem) + part_bytes(problem, config)


class Grouped(Fused):
    """One launch over all blocks of rows, on the matrix units; any size."""

    name = "grouped_moe"
    kernel = grouped_moe_kernel

    def math_dtype(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> str:
        """Matrix units with block scales, or fp16 ones where there are none."""
        return "mxfp8" if traits(device.arch).math == "scaled" else "fp16"


class Guarded(Grouped):
    """The same kernel with 32-bit offsets: what a kernel on raw-buffer instructions is limited to."""

    name = "guarded_moe"
    wide = False

    def supports(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> Support:
        """Weights and activations below 2 GiB each."""
        weights, rows = problem.E * problem.N * problem.K, problem.M * problem.K
        if weights >= SMALL:
            return Support.no(
                f"32-bit offsets: E N K = {weights} bytes of weights are not below {SMALL}; take grouped_moe"
            )
        if rows >= SMALL:
            return Support.no(f"32-bit offsets: M K = {rows} bytes of activations are not below {SMALL}")
        return super().supports(problem, scheme, device)


class GemvMoe(Fused):
    """Products on the vector units, for few rows per expert."""

    name = "gemv_moe"
    kernel = gemv_moe_kernel

    def supports(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> Support:
        """Up to 64 routed rows."""
        if problem.rows > GEMV_MAX_ROWS:
            return Support.no(
                f"{problem.rows} routed rows: a GEMV reads the weights again for every {GEMV_ROWS} rows of an expert, "
                f"and is offered up to {GEMV_MAX_ROWS}"
            )
        return super().supports(problem, scheme, device)

    def tiles(self, problem: Problem, device: Device) -> Sequence[Tile]:
        """Configurations worth trying, the default first."""
        return gemv_configs(problem, device)

    def math_dtype(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> str:
        """fp32 on the vector units."""
        return "fp32"


class GroupedWithAlign(Grouped):
    """moe_align_block_size (two launches, no host synchronization), then `grouped_moe`; all of it is timed."""

    name = "grouped_with_align_moe"

    def calls(self, inputs: MoeInputs, outputs: tuple[torch.Tensor, ...], config: Config) -> Sequence[KernelCall]:
        """The two kernels of the layout, and the product."""
        aligned = _aligned(inputs, config)
        product = moe_call(self.kernel, inputs, aligned, outputs[0], config, self.wide)
        return [*align_calls(inputs.topk_ids, aligned, inputs.problem.E), product]

    def moved_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """As `grouped_moe`, with topk_ids read twice and all of the layout written."""
        length = problem.rows + problem.E * (config["BLOCK_M"] - 1)
        blocks = -(-length // config["BLOCK_M"])
        layout = ID_BYTES * (2 * problem.rows + length + blocks + 8 * problem.E)
        return super().moved_bytes(problem, scheme, config) + int(layout)


def _aligned(inputs: MoeInputs, config: Config) -> Aligned:
    ids, block, experts = inputs.topk_ids, config["BLOCK_M"], inputs.problem.E
    return empty_aligned(ids.numel(), block, experts, ids.device) if ids.is_meta else align(ids, block, experts)


def moe_call(
    kernel: Any,
    inputs: MoeInputs,
    aligned: Aligned,
    output: torch.Tensor,
    config: Config,
    wide: bool,
    chosen: Traits | None = None,
) -> KernelCall:
    """Call one of the MoE kernels; its grid is (blocks of rows * tiles of columns, parts of K).

    aligned  the routing, in blocks of config["BLOCK_M"] rows; it is read at every call
    output   bf16 [M * top_k, N], on the device of the operands. Scratch of a divided K is allocated here.
    wide     64-bit offsets; chosen  what the kernel may use, where it is not what the device wants
    Kernels take those of the arguments and constants that they have.
    """
    problem, scheme, device = inputs.problem, inputs.scheme, inputs.x.device
    rows, columns, depth = (config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    split = config.get("SPLIT_K", 1)
    chosen = chosen or traits(inputs.device.arch)
    n_tiles, k_tiles = -(-problem.N // columns), -(-problem.K // depth)
    tiles = aligned.max_blocks * n_tiles
    words = chosen.words and "WORDS" in kernel.arg_names and problem.K % WORD_ELEMENTS == depth % WORD_ELEMENTS == 0
    arguments = {
        "x": inputs.x.view(torch.uint8),
        "x_scale": inputs.x_scale.view(torch.int32) if words else inputs.x_scale,
        "w": inputs.w.view(torch.uint8),
        "w_scale": inputs.w_scale.view(torch.int32) if words else inputs.w_scale,
        "sorted_ids": aligned.sorted_ids,
        "expert_ids": aligned.expert_ids,
        "padded": aligned.padded,
        "weights": inputs.topk_weights,
        "y": output,
        "partial": torch.empty((split, *output.shape), dtype=torch.float32, device=device) if split > 1 else None,
        "counter": torch.zeros(tiles, dtype=torch.int32, device=device) if split > 1 else None,
        "numel": problem.rows,
        "length": aligned.sorted_ids.numel(),
        "N": problem.N,
        "K": problem.K,
        "blocks": aligned.max_blocks,
        "a_div": problem.top_k,
        "split_tiles": -(-k_tiles // split),
    }
    constants = {
        "BM": rows,
        "BN": columns,
        "BK": depth,
        "SPLIT": split,
        "STAGES": config["num_stages"],
        "MATH": chosen.math,
        "DECODE": chosen.decode,
        "DIRECT": chosen.direct,
        "WORDS": words,
        "MASKED": problem.K % depth != 0,
        "WEIGHTED": scheme.weighted,
        "WIDE": wide,
        "ISA": chosen.isa,
    }
    tiling = None
    if not aligned.padded.is_meta:  # blocks in use: waits for the device
        used = -(-int(aligned.padded) // rows) * n_tiles
        vector = kernel is gemv_moe_kernel
        tiling = Tiling(
            tile_M=rows,
            tile_N=columns,
            contracted=used * padded(problem.K, depth),
            step=depth,
            matrix=not vector,
            decodes=vector or chosen.math != "scaled",
            workgroups=used * split,
            loop_rank=max(0, 3 - _median_rows(aligned)) if vector else 0,  # it has loops for 4, 2 and 1 rows
        )
    taken, fixed = (
        {name: every[name] for name in kernel.arg_names if name in every} for every in (arguments, constants)
    )
    return KernelCall(kernel, (tiles, split, 1), taken, fixed, compiler_options(config), tiling, columns * depth)


def _median_rows(aligned: Aligned) -> int:
    """Rows that the median of the blocks in use has."""
    blocks = aligned.sorted_ids[: int(aligned.padded)].view(-1, aligned.block)
    return int((blocks < aligned.numel).sum(1).median())


GROUPED = Grouped()
GUARDED = Guarded()
GEMV = GemvMoe()
GROUPED_WITH_ALIGN = GroupedWithAlign()
