"""grouped_moe, guarded_moe and gemv_moe: the fused MoE kernels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8_moe import MxFp8Moe
from ..arch import NOT_ON_CPU
from ..provider import Config, Launch, Provider, Support
from .inputs import MoeInputs
from .launch import moe_geometry, moe_launch, moe_request
from .routing import align
from .traffic import fused_bytes, part_bytes
from .triton_arguments import SMALL
from .triton_configs import GEMV_ROWS, TileConfig, gemv_configs, grouped_configs, traits
from .triton_gemv import gemv_moe_kernel
from .triton_grouped import grouped_moe_kernel

if TYPE_CHECKING:
    from ..aot import Request

MAX_K = 1 << 24
"""Offsets inside the rows of one program are 32-bit: up to 128 rows of this many elements."""

GEMV_MAX_ROWS = 64
"""Routed rows up to which gemv_moe is offered."""


def gpu_support(problem: Problem, device: Device) -> Support:
    """What all Triton kernels of the family need."""
    if not device.is_gpu:
        return Support.no(NOT_ON_CPU)
    if problem.K > MAX_K:
        return Support.no(f"K is limited to {MAX_K} (32-bit offsets inside a tile)")
    return Support.yes()


class Fused(Provider[MxFp8Moe, MoeInputs]):
    """A kernel over the sorted slots. The routing is laid out in `prepare`: the launch is the GEMM alone."""

    family = "mxfp8_moe"
    kernel: ClassVar[Any]
    wide: ClassVar[bool] = True

    def supports(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> Support:
        """Any problem of the family, on a GPU."""
        return gpu_support(problem, device)

    def tiles(self, problem: Problem, device: Device) -> Sequence[TileConfig]:
        """Configurations worth trying, the default first."""
        return grouped_configs(problem, device)

    def candidates(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> Sequence[Config]:
        """Rows of the per-architecture table for this mean of rows per expert; K divided so that the grid fills."""
        return [tile.as_json() for tile in self.tiles(problem, device)]

    def prepare(self, inputs: MoeInputs, config: Config | None = None) -> Launch:
        """Sort and pad the slots, allocate output and scratch, compile and warm up."""
        problem = inputs.problem
        config = config or self.candidates(problem, inputs.scheme, inputs.device)[0]
        aligned = align(inputs.topk_ids, config["BLOCK_M"], problem.E)
        output = inputs.empty_output()
        chosen = traits(inputs.device.arch)
        launch = moe_launch(self.kernel, inputs, aligned, output, config, chosen, self.wide)
        geometry = moe_geometry(launch, self.kernel, problem, aligned, config, chosen)
        return Launch(launch.run, output, dict(config), (launch.kernel,), artifact=launch.artifact, geometry=geometry)

    def moved_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """Weights of hit experts once per block of their rows, whose number is the expected one."""
        return fused_bytes(problem, scheme, config)

    def working_set_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """Operands, routing and Y, and the parts of a divided K."""
        return scheme.compulsory_bytes(problem) + part_bytes(problem, config)

    def builds(
        self, problem: Problem, scheme: MxFp8Moe, device: Device, config: Config
    ) -> "Sequence[Request]":  # fmt: skip
        """The kernel."""
        return (moe_request(self.kernel, problem, scheme, config, traits(device.arch), self.wide),)


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


class Gemv(Fused):
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

    def tiles(self, problem: Problem, device: Device) -> Sequence[TileConfig]:
        """Configurations worth trying, the default first."""
        return gemv_configs(problem, device)

    def math_dtype(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> str:
        """fp32 on the vector units."""
        return "fp32"


GROUPED = Grouped()
GUARDED = Guarded()
GEMV = Gemv()
