"""stock_triton_fp8: the plain tiled bf16 GEMM that every Triton user starts from, on operands decoded beforehand."""

# Triton types its kernels itself.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Pass, Problem
from ...shapes.schemes.fp8train import COMPUTES, FACTORS, Fp8Train, cd
from ..aot import BuildRequest
from ..geometry import Tiling, padded
from ..inputs import placeholders
from ..jit.call import KernelCall, launch_calls, requests
from ..needs import NOT_ON_CPU
from ..provider import Config, Launch, Support
from ..saved import Saved
from .blas import BlasBf16, empty_operands
from .inputs import TrainInputs
from .triton.tiles import store_tile, tile_origin
from .triton_configs import STOCK

_MOST_LINE = 1 << 22


@triton.jit
def stock_gemm_kernel(
    a, b, c, R, C, D, a_r, a_d, b_c, b_d, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr
):
    """C[R,C] = A[R,D] B[D,C] in bf16 with fp32 accumulation; A and B by strides, C row-major.

    a  element [r,d] at r a_r + d a_d; b  element [d,c] at c b_c + d b_d. One program computes a BM x BN tile in steps
    of BK. Grid (cd(R,BM) * cd(C,BN)). Traffic: A cd(C,BN) times and B cd(R,BM) times, mostly from L2; C once.
    """
    r0, c0 = tile_origin(R, C, BM, BN, GROUP_M, 1, 0)
    r = (r0 + tl.arange(0, BM)) % R
    n = (c0 + tl.arange(0, BN)) % C
    d = tl.arange(0, BK)
    a_tile = a + r[:, None].to(tl.int64) * a_r + d[None, :] * a_d
    b_tile = b + n[None, :].to(tl.int64) * b_c + d[:, None] * b_d
    acc = tl.zeros([BM, BN], tl.float32)
    for i in range(tl.cdiv(D, BK)):
        x = tl.load(a_tile, mask=d[None, :] < D - i * BK, other=0.0)
        y = tl.load(b_tile, mask=d[:, None] < D - i * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        a_tile += BK * a_d
        b_tile += BK * b_d
    store_tile(c, acc, r0, c0, R, C, BM, BN, False)


class StockTritonFp8(BlasBf16):
    """The plain tiled GEMM in bf16 beside the library's, on the same decoded operands."""

    name = "stock_triton_fp8"

    def supports(self, problem: Problem, scheme: Fp8Train, device: Device) -> Support:
        """Any sizes on a GPU."""
        if not device.is_gpu:
            return Support.no(NOT_ON_CPU)
        if max(problem.M, problem.N, problem.K) > _MOST_LINE:
            return Support.no(f"M, N and K are limited to {_MOST_LINE} (32-bit offsets inside a tile)")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: Fp8Train, device: Device) -> Sequence[Config]:
        """One configuration: the provider stands for the untuned default."""
        return [architecture(device.arch).of(STOCK)]

    def prepare(self, inputs: TrainInputs, config: Config | None = None) -> Launch:
        """Decode the operands, allocate the outputs, compile and warm up."""
        chosen = dict(config or self.default_config(inputs))
        outputs = inputs.empty_outputs()
        decoded = self.decode(inputs, chosen)
        assert decoded.fill
        refresh = Saved(decoded.sources, decoded.fill).refresh
        return launch_calls(stock_calls(inputs.problem, decoded.operands, outputs, chosen), outputs, chosen, refresh)

    def builds(self, problem: Problem, scheme: Fp8Train, device: Device, config: Config) -> Sequence[BuildRequest]:
        """One kernel per product."""
        inputs: TrainInputs = placeholders(problem, scheme, device)
        operands = empty_operands(inputs)
        return requests(stock_calls(problem, operands, inputs.empty_outputs(), dict(config)))


def stock_calls(
    problem: Problem, operands: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...], config: dict[str, int]
) -> list[KernelCall]:
    """Calls for the products of a pass on decoded operands, row-major as their FP8 forms."""
    m, n, k = problem.M, problem.N, problem.K
    options = dict(config)
    constants = {
        "BM": options.pop("BLOCK_M"),
        "BN": options.pop("BLOCK_N"),
        "BK": options.pop("BLOCK_K"),
        "GROUP_M": options.pop("GROUP_M"),
    }
    layouts = {
        Pass.FWD: (m, n, k, k, 1, k, 1),
        Pass.DGRAD: (m, k, n, n, 1, 1, k),
        Pass.WGRAD: (n, k, m, 1, n, 1, k),
    }
    calls = []
    for product, out in zip(COMPUTES[problem.pass_], outputs, strict=True):
        first, second = FACTORS[product]
        if product is Pass.WGRAD:
            first, second = second, first
        names = ("R", "C", "D", "a_r", "a_d", "b_c", "b_d")
        sizes = dict(zip(names, layouts[product], strict=True))
        arguments = {"a": operands[first], "b": operands[second], "c": out, **sizes}
        programs = cd(sizes["R"], constants["BM"]) * cd(sizes["C"], constants["BN"])
        rows, columns, depth = constants["BM"], constants["BN"], constants["BK"]
        tiling = Tiling(rows, columns, programs * padded(sizes["D"], depth), depth)
        calls.append(KernelCall(stock_gemm_kernel, (programs, 1, 1), arguments, constants, options, tiling))
    return calls


STOCK_TRITON = StockTritonFp8()
