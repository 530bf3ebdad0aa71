"""cuda_fp8: products with weights in FP8, in CUDA C++ for sm90 (`matmul.cu`)."""

import math
from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Pass, Problem
from ...shapes.schemes.fp8train import BLOCK, COMPUTES, FACTORS, Fp8Train
from ..aot import Request
from ..cuda.provider import SHARED_BYTES, CudaProvider, LaunchPlan
from ..geometry import Geometry, combined
from ..inputs import Tensors, placeholders
from ..jit.call import combined_hash, compile_calls, requests
from ..libraries.nvrtc import Argument, Boxes
from ..needs import WRITTEN_FOR_SM90
from ..provider import Config, Launch, Support
from .inputs import TrainInputs
from .plans import SPECIALISED_QUANT, Forms, Plan, prepare_saved
from .providers import SPECIALISED
from .triton_calls import ScaledOperand, specialised_call
from .triton_configs import gemm_configs

_ROWS, _COLUMNS, _BOX = 128, 256, 64
"""Of a tile of Y, and of what is stored of it at once."""

_Y_BYTES = 2 * _ROWS * _COLUMNS
_STAGE_BYTES = (_ROWS + _COLUMNS) * BLOCK + 16
"""With two barriers."""

_WGRAD = Pass.WGRAD.value

_Product = tuple[ScaledOperand, ScaledOperand, torch.Tensor]


class CudaFp8(CudaProvider[Fp8Train, TrainInputs]):
    """While one partial sum is scaled and added, the next product runs.

    Quantizers, transpositions and wgrad, of whose operands both have a scale per row, are those of `specialised_fp8`.
    """

    name = "cuda_fp8"
    family = "fp8train"
    op = Op.GEMM
    sources = ("matmul.cu",)
    headers = ("sm90.cuh", "turns.cuh", "wgmma.cuh")
    kernel = "matmul_fp8"

    def supports(self, problem: Problem, scheme: Fp8Train, device: Device) -> Support:
        """On sm90, all passes but wgrad alone, e4m3 only, N and K in multiples of 16."""
        if device.arch != "sm90":
            return Support.no(WRITTEN_FOR_SM90)
        if problem.pass_ is Pass.WGRAD:
            return Support.no("multiplies by weights: wgrad has none")
        if scheme.hybrid and problem.pass_ is not Pass.FWD:
            return Support.no("multiplies e4m3 only; a hybrid scheme has gradients in e5m2")
        if problem.N % 16 or problem.K % 16:
            return Support.no(f"N={problem.N} and K={problem.K} must be multiples of 16")
        return SPECIALISED.fits(problem)

    def candidates(self, problem: Problem, scheme: Fp8Train, device: Device) -> Sequence[Config]:
        """One block per SM, with as many stages as fit; every tile of wgrad where the pass has one."""
        own = {"STAGES": (SHARED_BYTES - _Y_BYTES) // _STAGE_BYTES, "BLOCKS": device.compute_units}
        if Pass.WGRAD not in COMPUTES[problem.pass_]:
            return [own]
        tiles = [config[_WGRAD] for config in gemm_configs(problem, device, specialised=True)]
        return [{**own, _WGRAD: tile} for number, tile in enumerate(tiles) if tile not in tiles[:number]]

    def prepare(self, inputs: TrainInputs, config: Config | None = None) -> Launch:
        """Allocate outputs, FP8 forms and scales, compile, fill what the forward pass saves, and launch once."""
        config, outputs = config or self.default_config(inputs), inputs.empty_outputs()
        plan, products = _planned(inputs, outputs, config)
        refresh, calls = prepare_saved(plan), compile_calls(plan.timed)
        launches = [launch_plan(*product, config) for product in products]
        compiled = [self.compiled(launch, outputs[0].device) for launch in launches]

        def run() -> None:
            refresh()
            calls.run()
            for call, _ in compiled:
                call()

        run()
        described = list(zip(plan.timed, calls.described, strict=True))
        multiplying = [_geometry(launch, product) for launch, product in zip(launches, products, strict=True)]
        return Launch(
            run,
            outputs if len(outputs) > 1 else outputs[0],
            config,
            (*calls.kernels, *(self.kernel for _ in launches)),
            artifact=combined_hash([calls.artifact] * bool(plan.timed) + [code for _, code in compiled]),
            geometry=combined(
                [*multiplying, *(geometry for call, geometry in described if call.tiling)],
                [geometry for call, geometry in described if not call.tiling],
            ),
            refresh=refresh,
        )

    def moved_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Those of `specialised_fp8`, which reads and writes the same."""
        return SPECIALISED.moved_bytes(problem, scheme, _as_specialised(problem))

    def working_set_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Those of `specialised_fp8`."""
        return SPECIALISED.working_set_bytes(problem, scheme, _as_specialised(problem))

    def builds(self, problem: Problem, scheme: Fp8Train, device: Device, config: Config) -> Sequence[Request]:
        """What Triton compiles: all but the products in CUDA C++."""
        inputs: TrainInputs = placeholders(problem, scheme, device)
        plan, _ = _planned(inputs, inputs.empty_outputs(), config)
        return requests((*plan.timed, *plan.saved))


def _as_specialised(problem: Problem) -> Config:
    return gemm_configs(problem, Device("cuda", 0, "", "", "sm90", 1, 1, 1, 1), specialised=True)[0]


def _planned(inputs: TrainInputs, outputs: Tensors, config: Config) -> tuple[Plan, list[_Product]]:
    """The Triton kernels of a launch, and the products that follow them."""
    plan, products, pass_ = Plan(), [], inputs.problem.pass_
    forms = Forms(inputs, plan, k_major=True, scales_first=True)
    forms.quantize(SPECIALISED_QUANT[pass_])
    for product, out in zip(COMPUTES[pass_], outputs, strict=True):
        a, b = (forms.side(name, product) for name in FACTORS[product])
        if product is Pass.WGRAD:
            plan.timed.append(specialised_call(product, b, a, out, config[_WGRAD], inputs.device, k_major=True))
        else:
            products.append((a, b, out))
    return plan, products


def launch_plan(a: ScaledOperand, b: ScaledOperand, out: torch.Tensor, config: Config) -> LaunchPlan:
    """Return the launch that computes out[R,C] = a[R,D] b[C,D]^T."""
    (rows, depth), columns = a.data.shape, out.shape[1]
    arguments: list[Argument] = [
        Boxes(a.data.view(torch.uint8), (depth, rows), (depth,), (BLOCK, _ROWS)),
        Boxes(b.data.view(torch.uint8), (depth, columns), (depth,), (BLOCK, _COLUMNS)),
        Boxes(out, (columns, rows), (2 * columns,), (_BOX, _BOX)),
        *(a.scale, b.scale, a.scale_line, a.scale_depth, b.scale_line, b.scale_depth),
        *(rows, columns, depth),
    ]
    stages = config["STAGES"]
    grid = min(math.ceil(rows / _ROWS) * math.ceil(columns / _COLUMNS), config["BLOCKS"])
    return LaunchPlan({"STAGES": stages, "TILES": 8}, grid, 384, stages * _STAGE_BYTES + _Y_BYTES, arguments)


def _geometry(launch: LaunchPlan, product: _Product) -> Geometry:
    """Whole tiles, which blocks take in turns."""
    a, _, out = product
    rows, columns = (math.ceil(size / tile) * tile for size, tile in zip(out.shape, (_ROWS, _COLUMNS), strict=True))
    flops = 2 * rows * columns * math.ceil(a.data.shape[1] / BLOCK) * BLOCK
    return Geometry(tile_M=_ROWS, tile_N=_COLUMNS, workgroups=launch.grid, resident=launch.resident, issued_flops=flops)


CUDA_FP8 = CudaFp8()
