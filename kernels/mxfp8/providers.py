"""gemv_mx and mma_mx: which problems they take, what they move, and how operands and a tile become a kernel call."""

import math
from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import MxFp8
from ..geometry import Tiling, padded
from ..jit.call import KernelCall
from ..jit.launch import INTERPRETED
from ..jit.provider import TritonProvider
from ..jit.tiles import compiler_options
from ..needs import NOT_ON_CPU
from ..provider import Config, Launch, Support
from .inputs import MxFp8Inputs
from .quantize import BLOCK
from .triton.gemv import diagonal_mx_kernel, gemv_mx_kernel
from .triton.mma import mma_mx_kernel, scaled_mx_kernel
from .triton_configs import largest_m, tiles

MAX_K = 1 << 24
"""Offsets inside the rows of one program are 32-bit: up to 128 rows of this many bytes."""

KERNELS = {
    "diagonal": (diagonal_mx_kernel, torch.float8_e4m3fn),
    "vector": (gemv_mx_kernel, torch.int32),
    "bf16": (mma_mx_kernel, torch.int32),
    "scaled": (scaled_mx_kernel, torch.uint8),
}
"""Kernels, and the type as which they take the payloads."""

LARGEST_SCALE = {"bf16": 134, "vector": 194}
"""Largest scale byte that the decode of a kernel can represent (`triton.parts`); the others take any."""

_DECODING = ("vector", "bf16")
_K_UNIT = 512


class TiledMx(TritonProvider[MxFp8, MxFp8Inputs]):
    """A kernel of `KERNELS` per range of M and architecture."""

    family = "mxfp8"
    op = Op.GEMM

    def supports(self, problem: Problem, scheme: MxFp8, device: Device) -> Support:
        """Any N, K in whole blocks, M up to what the table of tiles has, on a GPU. Offsets are 64-bit."""
        if not device.is_gpu:
            return Support.no(NOT_ON_CPU)
        if largest_m(self.name) < problem.M:
            return Support.no(f"M={problem.M}: made for up to {largest_m(self.name)} rows")
        if problem.K > MAX_K:
            return Support.no(f"K is limited to {MAX_K} (32-bit offsets inside a tile)")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: MxFp8, device: Device) -> Sequence[Config]:
        """Rows of the per-architecture table for this M, with K divided so that the grid fills the device."""
        return [tile.as_json(device.arch) for tile in tiles(self.name, problem, device)]

    def prepare(self, inputs: MxFp8Inputs, config: Config | None = None) -> Launch:
        """Allocate output and split-K scratch, compile and warm up.

        Raises RooflensError when a scale is larger than the kernel's decode can represent.
        """
        config = config or self.default_config(inputs)
        check_scales(inputs, config["kernel"])
        return super().prepare(inputs, config)

    def calls(self, inputs: MxFp8Inputs, outputs: tuple[torch.Tensor, ...], config: Config) -> Sequence[KernelCall]:
        """The one kernel."""
        return [tile_call(inputs, outputs[0], config)]

    def moved_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """Weights with their scales once per block of M, X and Y once; parts of K written and read."""
        blocks = -(-problem.M // int(config["BLOCK_M"]))
        weights = scheme.weight_bytes(problem) + problem.N * problem.K // 32
        once = scheme.compulsory_bytes(problem) - weights
        return blocks * weights + once + 2 * scratch_bytes(problem, config)

    def working_set_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """Operands and Y, and the parts of a divided K."""
        return scheme.compulsory_bytes(problem) + scratch_bytes(problem, config)

    def math_dtype(self, problem: Problem, scheme: MxFp8, device: Device) -> str:
        """The type that the default kernel multiplies in; bf16 where scaled blocks are emulated."""
        default = tiles(self.name, problem, device)[0]
        scaled = "bf16" if default.as_json(device.arch).get("emulated") else "mxfp8"
        return {"diagonal": "fp8", "scaled": scaled, "bf16": "bf16", "vector": "fp32"}[default.kernel]


class GemvMx(TiledMx):
    """M up to 16: tiles of 1, 2, 4, 8 and 16 rows; the weights are read once per tile of M."""

    name = "gemv_mx"


class MmaMx(TiledMx):
    """M up to 64 on matrix units, K divided among programs; smaller M is padded."""

    name = "mma_mx"


def check_scales(inputs: MxFp8Inputs, kernel: str) -> None:
    """Raise RooflensError when a scale is larger than the decode of a kernel can represent."""
    largest = LARGEST_SCALE.get(kernel, 255)
    for name, scale in (("weights", inputs.w_scale), ("activations", inputs.x_scale)):
        if largest < 255 and int(scale.max()) > largest:
            raise RooflensError(
                f"kernel {kernel!r} of MX-FP8 takes scales up to 2^{largest - 127}; the {name} have larger ones"
            )


def _output_tiles(problem: Problem, config: Config) -> int:
    return -(-problem.M // int(config["BLOCK_M"])) * -(-problem.N // int(config["BLOCK_N"]))


def scratch_bytes(problem: Problem, config: Config) -> int:
    """Bytes of the fp32 parts of a divided K: whole tiles, also where they hang over the edge."""
    split = int(config["SPLIT_K"])
    tile = int(config["BLOCK_M"]) * int(config["BLOCK_N"])
    return 4 * _output_tiles(problem, config) * split * tile if split > 1 else 0


def tile_call(inputs: MxFp8Inputs, output: torch.Tensor, config: Config) -> KernelCall:
    """Call a kernel of `KERNELS`: its grid is (tiles of the output, parts of K). Scratch is allocated here."""
    problem, device, name = inputs.problem, inputs.x.device, config["kernel"]
    rows, columns, depth, split = (config[size] for size in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "SPLIT_K"))
    (kernel, view), programs = KERNELS[name], _output_tiles(problem, config)
    k_tiles, unit = -(-problem.K // depth), math.gcd(problem.K, _K_UNIT)
    arguments = {
        "x": inputs.x.view(view),
        "x_scale": inputs.x_scale,
        "w": inputs.w.view(view),
        "w_scale": inputs.w_scale,
        "y": output,
        "partial": torch.empty(scratch_bytes(problem, config) // 4, device=device) if split > 1 else None,
        "counter": torch.zeros(programs, dtype=torch.int32, device=device) if split > 1 else None,
        "M": problem.M,
        "N": problem.N,
        "k_units": problem.K // unit,
        "split_tiles": -(-k_tiles // split),
    }
    constants = {
        "K_UNIT": unit,
        "BM": rows,
        "BN": columns,
        "BK": depth,
        "MASKED": problem.K % depth != 0,
        "SPLIT": split,
        "STAGES": config["num_stages"],
        "ISA": _target_isa(inputs.device),
    }
    tiling = Tiling(
        tile_M=rows,
        tile_N=columns,
        contracted=programs * padded(problem.K, depth),
        step=depth,
        matrix=name != "vector",
        repeated=depth // BLOCK if name == "diagonal" else 1,  # zeros are multiplied for each further block
        decodes=name in _DECODING,
    )
    return KernelCall(kernel, (programs, split, 1), arguments, constants, compiler_options(config), tiling)


def _target_isa(device: Device) -> str:
    """Which instructions the kernels may use, as `triton.parts` names them."""
    family = architecture(device.arch).family
    return "interpreter" if INTERPRETED else "ptx" if family == "cuda" else family


GEMV = GemvMx()
MMA = MmaMx()
