"""The Triton providers: which problems they take, and how operands and a configuration become kernel calls."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Problem
from ...shapes.schemes.fourbit import FourBit
from ...shapes.schemes.w4a16 import W4A16
from ..geometry import Tiling, padded
from ..jit.call import KernelCall
from ..jit.launch import INTERPRETED
from ..jit.provider import TritonProvider
from ..jit.tiled_gemm import tiled_gemm_call
from ..jit.tiles import compiler_options
from ..needs import NOT_ON_CPU
from ..provider import Config, Role, Support
from .inputs import FourBitInputs
from .triton.gemv import gemv_4bit_kernel, gemv_4bit_opt_kernel
from .triton.mma import mma_4bit_kernel
from .triton.simt import simt_4bit_kernel
from .triton_codes import gemm_planes
from .triton_configs import tile_configs

_MAX_K = 1 << 24
"""Offsets inside the rows of one program are 32-bit: up to 128 rows of this many elements."""

_STORED_SCALES = {"int4": "16 bits", "zero point": "zero point", "mxfp4": "e8m0", "nvfp4": "e4m3"}

_ISA = {"cuda": "ptx", "cdna": "cdna", "gfx950": "cdna_bf16", "rdna": "rdna"}
"""Instructions that the kernels may use, as `triton.decode.byte_permute` names them."""


class _Tiled(TritonProvider[FourBit, FourBitInputs]):
    """A GEMM with tiles from `triton_configs`."""

    family = "fourbit"

    def supports(self, problem: Problem, scheme: FourBit, device: Device) -> Support:
        """Any N, block size, format and dtype on a GPU; unbatched."""
        if not device.is_gpu:
            return Support.no(NOT_ON_CPU)
        if problem.B != 1:
            return Support.no("no batched kernel: B must be 1")
        if problem.K > _MAX_K:
            return Support.no(f"K is limited to {_MAX_K} (32-bit offsets inside a tile)")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: FourBit, device: Device) -> Sequence[Config]:
        """Rows of the per-architecture table for this M, with K divided so that the grid fills the device."""
        return [tile.as_json() for tile in tile_configs(self.name, problem, scheme, device)]


class _Fused(_Tiled):
    """A kernel that reads the packed weights; the four of them share their parameters."""

    kernel: ClassVar[Any]

    def calls(self, inputs: FourBitInputs, outputs: tuple[torch.Tensor, ...], config: Config) -> Sequence[KernelCall]:
        """The kernel alone."""
        return [fused_call(self.kernel, inputs, outputs[0], config, target_isa(inputs.device))]

    def moved_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int:
        """Weights and scales once per block of M; activations and output once; split-K parts written and read."""
        m_blocks = -(-problem.M // int(config["BLOCK_M"]))
        weights = m_blocks * (scheme.weight_bytes(problem) + scheme.scale_bytes(problem))
        dense = scheme.activation_bytes(problem) + scheme.bias_bytes(problem) + scheme.output_bytes(problem)
        return weights + dense + 2 * _part_bytes(problem, config)

    def working_set_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int:
        """Operands and output, and the parts of a divided K."""
        return scheme.compulsory_bytes(problem) + _part_bytes(problem, config)


def _part_bytes(problem: Problem, config: Config) -> int:
    """Bytes of the fp32 copies of Y, one per part of a divided K."""
    parts = int(config["SPLIT_K"])
    return 4 * parts * problem.M * problem.N if parts > 1 else 0


def target_isa(device: Device) -> str:
    """Which instructions the kernels may use on this device; see `triton.decode.byte_permute`."""
    return "ptx_emulated" if INTERPRETED else architecture(device.arch).of(_ISA)


def packed_view(packed: torch.Tensor, words: bool) -> tuple[torch.Tensor, bool]:
    """Packed weights as int32 when they consist of whole, aligned words (and `words` is wanted), else as bytes."""
    words = words and packed.numel() % 4 == 0 and (packed.is_meta or packed.data_ptr() % 4 == 0)
    return (packed.view(torch.int32) if words else packed), words


def scales(scheme: FourBit) -> str:
    """How the scales are stored, as `triton.tiles.load_scale` names it."""
    if isinstance(scheme, W4A16):
        return _STORED_SCALES["zero point" if scheme.zero_point else scheme.weight]
    return "nested" if scheme.nested else "fp32"


def scale_operands(inputs: FourBitInputs) -> dict[str, torch.Tensor | None]:
    """Arguments from which `triton.tiles.load_scale` reads the scales, as they are stored."""
    if groups := inputs.groups:
        stored = groups.scale.view(torch.uint8) if groups.scale.itemsize == 1 else groups.scale
        return {"absmax": stored, "q": groups.zero, "nested_code": None, "nested_offset": groups.total}
    if nested := inputs.nested:
        return {"absmax": nested.scale, "q": nested.q, "nested_code": nested.code, "nested_offset": nested.offset}
    return {"absmax": inputs.absmax, "q": None, "nested_code": None, "nested_offset": None}


def fused_call(kernel: Any, inputs: FourBitInputs, output: torch.Tensor, config: Config, isa: str) -> KernelCall:
    """Call one of the four fused kernels; its grid is (tiles of the output, parts of K).

    `isa` as in `triton.decode.byte_permute`. Scratch of a divided K is allocated here: fp32 [SPLIT_K, M, N] and one
    counter per tile.
    """
    problem, scheme, device = inputs.problem, inputs.scheme, inputs.x.device
    rows, columns, depth, split = (config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "SPLIT_K"))
    tiles, k_tiles = -(-problem.M // rows) * -(-problem.N // columns), -(-problem.K // depth)
    packed, words = packed_view(inputs.packed, problem.K % 8 == 0)
    unit = math.gcd(problem.K, 128 if words else 4)
    arguments = {
        "x": inputs.x,
        "packed": packed,
        **scale_operands(inputs),
        "bias": inputs.bias,
        "y": output,
        "partial": torch.empty(split * problem.M * problem.N, device=device) if split > 1 else None,
        "counter": torch.zeros(tiles, dtype=torch.int32, device=device) if split > 1 else None,
        "M": problem.M,
        "N": problem.N,
        "k_units": problem.K // unit,
        "split_tiles": -(-k_tiles // split),
    }
    constants = {
        **gemm_planes(scheme.weight, scheme.dtype).constants(),
        "K_UNIT": unit,
        "GROUP": scheme.group,
        "WHOLE": problem.K % scheme.group == 0,
        "MASKED": problem.K % depth != 0 or not words,
        "SCALES": scales(scheme),
        "BIAS": scheme.bias,
        "BM": rows,
        "BN": columns,
        "BW": depth // 8,
        "SPLIT": split,
        "STAGES": config["num_stages"],
        "ISA": isa,
    }
    tiling = Tiling(
        tile_M=rows,
        tile_N=columns,
        contracted=tiles * padded(problem.K, depth),
        step=depth,
        matrix=kernel is mma_4bit_kernel,
        decodes=True,
    )
    return KernelCall(kernel, (tiles, split, 1), arguments, constants, compiler_options(config), tiling)


class _Simt(_Fused):
    name = "simt_4bit"
    kernel = simt_4bit_kernel


class _Gemv(_Fused):
    name = "gemv_4bit"
    kernel = gemv_4bit_kernel


class _GemvOpt(_Fused):
    name = "gemv_4bit_opt"
    kernel = gemv_4bit_opt_kernel


class _Mma(_Fused):
    name = "mma_4bit"
    kernel = mma_4bit_kernel


class _StockTriton(_Tiled):
    """The plain tiled Triton GEMM on weights that were dequantized beforehand; its one tile stands for the default."""

    name = "stock_triton"
    role = Role.REFERENCE

    def calls(self, inputs: FourBitInputs, outputs: tuple[torch.Tensor, ...], config: Config) -> Sequence[KernelCall]:
        """The kernel, on weights that are dequantized here."""
        return [tiled_gemm_call(inputs.x, inputs.dequantized(), inputs.bias, outputs[0], config)]

    def moved_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int:
        """Dense weights, activations and output, each once: re-reads of tiles are served by the caches."""
        dense = problem.B * problem.N * problem.K * scheme.dtype.bytes
        rest = scheme.activation_bytes(problem) + scheme.bias_bytes(problem) + scheme.output_bytes(problem)
        return dense + rest

    def working_set_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int:
        """Dense weights, activations and output."""
        return self.moved_bytes(problem, scheme, config)


SIMT = _Simt()
GEMV = _Gemv()
GEMV_OPT = _GemvOpt()
MMA = _Mma()
STOCK_TRITON = _StockTriton()
