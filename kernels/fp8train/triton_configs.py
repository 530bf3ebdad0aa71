"""Configurations of the Triton kernels, as data: per GPU family and layout, the default first.

Rows were chosen from what the compiler emits (registers, spills, shared memory). Sizes are elements; BLOCK_K is 128,
the block that scales belong to. CHUNK tiles go to each chiplet in turn (0: one run of neighbouring tiles to each).
"""

from collections.abc import Sequence
from itertools import product as combinations
from typing import Any

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Pass, Problem
from ...shapes.schemes.fp8train import BLOCK, COMPUTES

Tile = dict[str, int]


def _tile(block_m: int, block_n: int, warps: int, stages: int, group_m: int = 8, **options: int) -> Tile:
    return {
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": BLOCK,
        "GROUP_M": group_m,
        "num_warps": warps,
        "num_stages": stages,
        **options,
    }


_CUDA_NT = (
    _tile(128, 128, 8, 4),
    _tile(128, 128, 8, 3),
    _tile(128, 128, 8, 4, 16),
    _tile(128, 64, 8, 4),
    _tile(64, 128, 4, 3),
)
_GFX942 = (
    _tile(128, 128, 4, 2),
    _tile(128, 128, 4, 2, 4),
    _tile(128, 128, 4, 2, matrix_instr_nonkdim=16),
)


def _gfx950(block_n: tuple[int, ...], stages: tuple[int, ...]) -> tuple[Tile, ...]:
    """The search space of Primus-Turbo on gfx950 (pull request 339, sections 3.2 and 3.3).

    Triton sets kpack to 1 there: its two values give one binary.
    """
    return tuple(
        _tile(rows, columns, rows // 32, depth, group_m, CHUNK=chunk, kpack=kpack)
        for rows, columns, depth, group_m, chunk, kpack in combinations(
            (256, 128), block_n, stages, (8, 4), (64, 32), (1, 2)
        )
    )


_GFX950 = _gfx950((128, 64), (2, 1, 3))
_GFX950_NN = (*_GFX950, *(tile | {"matrix_instr_nonkdim": 16} for tile in _GFX950 if tile["BLOCK_M"] == 256))
"""16 x 16 instructions need fewer accumulation registers, which tiles of 256 rows run out of."""

_RDNA = (_tile(128, 64, 8, 2), _tile(64, 64, 4, 2))

SPECIALISED: dict[str, dict[str, tuple[Tile, ...]]] = {
    "cuda": {"nt": _CUDA_NT},
    "gfx942": dict.fromkeys(("nt", "nn", "tn"), _GFX942),
    "gfx950": {"nt": _GFX950, "nn": _GFX950_NN, "tn": _GFX950},
    "rdna": dict.fromkeys(("nt", "nn", "tn"), _RDNA),
}
"""Family -> layout -> tiles. NVIDIA's FP8 matrix instructions read both operands along the contracted dimension, so
that there is one layout, and operands of the others are transposed first (`K_MAJOR`)."""

SHARED: dict[str, tuple[Tile, ...]] = {
    "cuda": (_tile(128, 128, 8, 3), _tile(128, 128, 8, 2), _tile(64, 128, 4, 3)),
    "gfx942": (_tile(128, 128, 4, 2), _tile(128, 128, 4, 2, 4)),
    "gfx950": _gfx950((128,), (2, 1)),
    "rdna": _RDNA,
}

STOCK: dict[str, dict[str, int]] = {
    "cuda": _tile(128, 128, 8, 3) | {"BLOCK_K": 64},
    "cdna": _tile(128, 128, 8, 2) | {"BLOCK_K": 64},
    "rdna": _tile(64, 128, 4, 2) | {"BLOCK_K": 32},
}
"""The plain bf16 GEMM."""

QUANT = {
    "row": ({"ROWS": 32, "COLUMNS": 128, "num_warps": 4}, {"ROWS": 64, "COLUMNS": 128, "num_warps": 8}),
    "col": ({"ROWS": 128, "COLUMNS": 64, "num_warps": 4}, {"ROWS": 128, "COLUMNS": 128, "num_warps": 8}),
    "rowcol": ({"ROWS": 128, "COLUMNS": 128, "num_warps": 8}, {"ROWS": 128, "COLUMNS": 128, "num_warps": 16}),
    "weight": ({"num_warps": 8}, {"num_warps": 4}, {"num_warps": 16}),
}
"""Quantizers, by what they write, for matrices with partial tiles and for AMD."""

QUANT_WHOLE_CUDA = {
    "row": (
        {"ROWS": 32, "COLUMNS": 128, "VECTOR": 8, "NEWTON": 1, "num_warps": 4},
        {"ROWS": 16, "COLUMNS": 128, "VECTOR": 8, "NEWTON": 1, "num_warps": 4},
    ),
    "col": (
        {"ROWS": 128, "COLUMNS": 64, "VECTOR": 8, "NEWTON": 1, "num_warps": 4},
        {"ROWS": 128, "COLUMNS": 64, "VECTOR": 4, "NEWTON": 1, "num_warps": 4},
        {"ROWS": 128, "COLUMNS": 64, "VECTOR": 8, "NEWTON": 1, "num_warps": 2},
    ),
    "rowcol": (
        {"ROWS": 128, "COLUMNS": 128, "VECTOR": 8, "NEWTON": 1, "num_warps": 4},
        {"ROWS": 128, "COLUMNS": 128, "VECTOR": 16, "NEWTON": 1, "num_warps": 8},
    ),
    "weight": (
        {"VECTOR": 16, "NEWTON": 1, "num_warps": 4},
        {"VECTOR": 16, "NEWTON": 1, "num_warps": 8},
    ),
}
"""The same for NVIDIA GPUs and matrices of whole blocks, with VECTOR and NEWTON (`jit.quantizing`), by timings on an
H200: four warps that hold a tile in up to 168 registers do better than eight, which wait for one another."""

TRANSPOSE = {"ROWS": 128, "COLUMNS": 128, "num_warps": 8}


def quant_configs(kind: str, device: Device, rows: int, columns: int) -> Sequence[dict[str, int]]:
    """Configurations of the quantizer `kind` of a matrix [rows, columns], the default first."""
    whole = rows % BLOCK == 0 and columns % BLOCK == 0
    table = QUANT_WHOLE_CUDA if whole and architecture(device.arch).family == "cuda" else QUANT
    return table[kind]


def layout_of(product: Pass, k_major: bool) -> str:
    """Layout of the kernel that computes a product."""
    if k_major:
        return "nt"
    return {Pass.FWD: "nt", Pass.DGRAD: "nn", Pass.WGRAD: "tn"}[product]


def gemm_configs(problem: Problem, device: Device, *, specialised: bool) -> list[dict[str, Any]]:
    """Configurations of a GEMM provider: K_MAJOR, and a tile for each product of the pass.

    The default tile of every product first; then each other tile of each product, beside the defaults of the others, so
    that a search tunes every product on its own.
    """
    arch = architecture(device.arch)
    k_major = arch.family == "cuda"
    default: dict[str, Any] = {"K_MAJOR": k_major}
    others = []
    for product in COMPUTES[problem.pass_]:
        tiles = arch.of(SPECIALISED)[layout_of(product, k_major)] if specialised else arch.of(SHARED)
        first, *rest = (dict(tile) for tile in tiles)
        default[product.value] = first
        others += [(product.value, tile) for tile in rest]
    return [default, *(default | {name: tile} for name, tile in others)]
