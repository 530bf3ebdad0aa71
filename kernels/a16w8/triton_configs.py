"""Tile configurations of the Triton kernel, as data: one row per provider, GPU family, product and range of M.

Rows were chosen from what the compiler emits (registers, spills, operands of the matrix instructions that need not go
through shared memory); those of the native layout above M = 512 on NVIDIA GPUs from 56 configurations timed on an H200
at B = 8, M = N = K = 8192. Sizes are elements.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Problem
from ...shapes.schemes.a16w8 import A16W8
from ..jit.tiles import fitting_stages, rows_for


@dataclass(frozen=True, slots=True)
class TileConfig:
    """One way to run the kernel; the fields are constants of `triton.gemm.a16w8_kernel` and options of the compiler.

    `more`: options of one backend. `batch_inner`: programs of the same tile of all batch entries follow one another.
    """

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int
    swap: bool
    scaling: str
    batch_inner: bool = True
    more: tuple[tuple[str, int], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the plain mapping that is stored with a measurement."""
        return {
            "BLOCK_M": self.block_m,
            "BLOCK_N": self.block_n,
            "BLOCK_K": self.block_k,
            "GROUP_M": 8,
            "swap": self.swap,
            "scaling": self.scaling,
            "batch_inner": self.batch_inner,
            "num_warps": self.warps,
            "num_stages": self.stages,
            **dict(self.more),
        }


UPSTREAM = TileConfig(64, 256, 128, 8, 2, swap=False, scaling="parts")
"""The one configuration of the upstream kernel (aiter, `any`), for every M."""

_UPSTREAM_ON_AMD = (("waves_per_eu", 2), ("matrix_instr_nonkdim", 16))

P, W = "parts", "weights"
_Tile = tuple[int, int, int, int, int, int, bool, str]

# (largest M or 0, BLOCK_M, BLOCK_N, BLOCK_K, warps, stages, swap, scaling); the first row that fits is the default.
# Native layout, product in 16 bits. On NVIDIA GPUs the converted weights stay in registers when they are the first
# operand (swap), which wgmma wants 64 rows of. "weights" takes half the registers of "parts" for its sums.
_NATIVE: dict[str, tuple[_Tile, ...]] = {
    "cuda": (
        (16, 16, 64, 128, 4, 4, True, P), (16, 16, 32, 128, 4, 4, True, P), (16, 16, 128, 128, 4, 4, True, P),
        (16, 16, 64, 64, 4, 4, True, P),
        (32, 32, 64, 128, 4, 4, True, P), (32, 32, 128, 128, 4, 3, True, P), (32, 32, 64, 64, 4, 4, True, P),
        (64, 64, 64, 128, 4, 3, True, W), (64, 64, 128, 128, 8, 3, True, W), (64, 32, 64, 128, 4, 3, True, P),
        (128, 64, 64, 128, 4, 3, True, W), (128, 128, 64, 128, 4, 3, True, W), (128, 128, 128, 64, 8, 4, True, W),
        (128, 64, 64, 128, 4, 3, True, P), (128, 64, 64, 64, 4, 4, True, P),
        (512, 128, 128, 64, 8, 4, True, W), (512, 256, 128, 64, 8, 4, True, W), (512, 128, 128, 128, 8, 3, True, W),
        (0, 256, 128, 64, 8, 4, True, W), (0, 128, 128, 64, 8, 4, True, W), (0, 128, 128, 128, 8, 3, True, W),
    ),
    "cdna": (
        (16, 16, 64, 128, 4, 2, False, P), (16, 16, 32, 128, 4, 2, False, P), (16, 16, 64, 128, 4, 2, True, P),
        (32, 32, 64, 128, 4, 2, False, P), (32, 32, 32, 128, 4, 2, False, P),
        (128, 64, 64, 128, 4, 2, False, P), (128, 64, 64, 64, 4, 2, False, W), (128, 128, 64, 64, 4, 2, False, W),
        (0, 256, 128, 64, 8, 2, False, W), (0, 128, 128, 64, 8, 2, False, W), (0, 128, 128, 64, 4, 2, False, W),
    ),
    "rdna": (
        (16, 16, 64, 64, 4, 2, False, P), (16, 16, 64, 128, 4, 2, False, P),
        (32, 32, 64, 64, 4, 2, False, P),
        (0, 64, 64, 64, 4, 2, False, W), (0, 128, 128, 64, 8, 2, False, W),
    ),
}  # fmt: skip

# Native layout, product in FP8: every step of K is 128, the activations are converted. Those are the first operand
# where there are 64 rows of them, else the weights, which need no conversion.
_NATIVE_FP8: dict[str, tuple[_Tile, ...]] = {
    "cuda": (
        (16, 16, 64, 128, 4, 4, True, P), (16, 16, 32, 128, 4, 4, True, P), (16, 16, 128, 128, 4, 4, True, P),
        (32, 32, 64, 128, 4, 4, True, P), (32, 32, 128, 128, 4, 4, True, P),
        (128, 64, 64, 128, 4, 3, False, P), (128, 64, 128, 128, 4, 3, False, P), (128, 64, 64, 128, 4, 3, True, P),
        (0, 128, 128, 128, 8, 3, False, P), (0, 128, 128, 128, 8, 3, True, P), (0, 64, 128, 128, 4, 3, False, P),
    ),
    "cdna": (
        (16, 16, 64, 128, 4, 2, False, P), (16, 16, 32, 128, 4, 2, False, P),
        (32, 32, 64, 128, 4, 2, False, P), (128, 64, 64, 128, 4, 2, False, P), (128, 64, 128, 128, 8, 2, False, P),
        (0, 128, 128, 128, 8, 2, False, P), (0, 64, 128, 128, 4, 2, False, P),
    ),
    "rdna": (
        (16, 16, 64, 128, 4, 2, False, P), (32, 32, 64, 128, 4, 2, False, P), (0, 64, 64, 128, 8, 2, False, P),
    ),
}  # fmt: skip

# Transposed layout [B,K,N], either product; the upstream configuration comes last.
_TRANSPOSED: dict[str, tuple[_Tile, ...]] = {
    "cuda": (
        (16, 16, 64, 128, 4, 4, False, P), (16, 16, 128, 128, 4, 4, False, P),
        (32, 32, 64, 128, 4, 4, False, P), (32, 32, 128, 128, 8, 3, False, P),
        (128, 64, 64, 128, 4, 3, False, P), (128, 64, 128, 128, 4, 3, False, P),
        (0, 128, 128, 128, 8, 2, False, P),
    ),
    "cdna": (
        (16, 16, 64, 128, 4, 2, False, P), (16, 16, 128, 128, 4, 2, False, P),
        (32, 32, 64, 128, 4, 2, False, P), (128, 64, 64, 128, 4, 2, False, P),
        (0, 128, 128, 128, 8, 2, False, P),
    ),
    "rdna": (
        (16, 16, 64, 128, 4, 2, False, P), (32, 32, 64, 128, 4, 2, False, P), (0, 64, 64, 128, 8, 2, False, P),
    ),
}  # fmt: skip


def upstream_config(device: Device) -> TileConfig:
    """Return the upstream configuration with the options that its backend knows."""
    return UPSTREAM if architecture(device.arch).family == "cuda" else replace(UPSTREAM, more=_UPSTREAM_ON_AMD)


def native_configs(problem: Problem, scheme: A16W8, device: Device) -> Sequence[TileConfig]:
    """Return the configurations worth trying on weights [B,N,K], the default first.

    The XCDs of CDNA GPUs take programs in turn: with `batch_inner` one XCD, with its own L2, sees few batch entries.
    """
    table = _NATIVE_FP8 if scheme.prequant else _NATIVE
    inner = architecture(device.arch).family == "cdna"
    return [replace(tile, batch_inner=inner) for tile in _rows(table, problem, device)]


def transposed_configs(problem: Problem, scheme: A16W8, device: Device) -> Sequence[TileConfig]:
    """Return the configurations worth trying on weights [B,K,N], the default first, in upstream's order of programs.

    Upstream's own is the last of them, except where its tile does not fit (`small_shared`) or spills registers (RDNA).
    """
    tiles = _rows(_TRANSPOSED, problem, device)
    arch = architecture(device.arch)
    if arch.small_shared or arch.family == "rdna":
        return tiles
    return [*tiles, upstream_config(device)]


def _rows(table: Mapping[str, tuple[_Tile, ...]], problem: Problem, device: Device) -> list[TileConfig]:
    rows = rows_for(architecture(device.arch).of(table), problem.M)
    tiles = [TileConfig(*row[1:]) for row in rows]
    return list(dict.fromkeys(replace(tile, stages=fitting_stages(tile.stages, device.arch)) for tile in tiles))
