"""Arguments of the MoE kernels: types and sizes for a compiler, constants, options and grids."""

from typing import Any

from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8_moe import MxFp8Moe
from ..provider import Config
from .triton_configs import Traits

WORD_GROUPS = 4
"""Scales of 32 elements that a word holds."""

SMALL = 1 << 31
"""Offsets below this fit a signed 32-bit number; payloads have one byte per element, so it counts bytes too."""


def max_blocks(problem: Problem, block: int) -> int:
    """Blocks that can be in use: as `routing.Aligned.max_blocks`."""
    numel = problem.rows
    return min(numel, -(-(numel + problem.E * (block - 1)) // block))


def uses_words(kernel: Any, problem: Problem, config: Config, chosen: Traits) -> bool:
    """Whether scales are passed as words: kernel and architecture want it, rows and tiles of them are whole words."""
    whole = 32 * WORD_GROUPS
    wanted = chosen.words and "WORDS" in kernel.arg_names
    return wanted and problem.K % whole == 0 and config["BLOCK_K"] % whole == 0


def grouped_grid(problem: Problem, config: Config) -> tuple[int, int, int]:
    """Return (blocks of rows * tiles of columns, parts of K, 1)."""
    tiles = max_blocks(problem, config["BLOCK_M"]) * -(-problem.N // config["BLOCK_N"])
    return tiles, config.get("SPLIT_K", 1), 1


def sizes(problem: Problem, config: Config) -> dict[str, int]:
    """Integer arguments of all kernels; each takes those that it has."""
    k_tiles = -(-problem.K // config["BLOCK_K"])
    return {
        "numel": problem.rows,
        "length": problem.rows + problem.E * (config["BLOCK_M"] - 1),
        "N": problem.N,
        "K": problem.K,
        "blocks": max_blocks(problem, config["BLOCK_M"]),
        "a_div": problem.top_k,
        "split_tiles": -(-k_tiles // config.get("SPLIT_K", 1)),
    }


def constants(
    kernel: Any, problem: Problem, scheme: MxFp8Moe, config: Config, chosen: Traits, wide: bool
) -> dict[str, Any]:
    """Constexpr arguments of all kernels; each takes those that it has. `wide`: 64-bit offsets."""
    return {
        "BM": config["BLOCK_M"],
        "BN": config["BLOCK_N"],
        "BK": config["BLOCK_K"],
        "SPLIT": config.get("SPLIT_K", 1),
        "STAGES": config["num_stages"],
        "MATH": chosen.math,
        "DECODE": chosen.decode,
        "DIRECT": chosen.direct,
        "WORDS": uses_words(kernel, problem, config, chosen),
        "MASKED": problem.K % config["BLOCK_K"] != 0,
        "WEIGHTED": scheme.weighted,
        "WIDE": wide,
        "ISA": chosen.isa,
    }


def options(config: Config) -> dict[str, int]:
    """Compiler options."""
    return {"num_warps": config["num_warps"], "num_stages": config["num_stages"]}


def types(kernel: Any, problem: Problem, scheme: MxFp8Moe, config: Config, chosen: Traits) -> dict[str, str | None]:
    """Type of every pointer argument, None for one that is absent: what a tensor would tell."""
    scale = "*i32" if uses_words(kernel, problem, config, chosen) else "*u8"
    split = config.get("SPLIT_K", 1) > 1
    return {
        "x": "*u8",
        "x_scale": scale,
        "w": "*u8",
        "w_scale": scale,
        "sorted_ids": "*i32",
        "expert_ids": "*i32",
        "padded": "*i32",
        "weights": "*fp32" if scheme.weighted else None,
        "y": "*bf16",
        "partial": "*fp32" if split else None,
        "counter": "*i32" if split else None,
    }


def taken(kernel: Any, everything: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of `everything` that are parameters of a Triton kernel."""
    return {name: everything[name] for name in kernel.arg_names if name in everything}
