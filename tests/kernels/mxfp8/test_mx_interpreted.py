"""Every MX-FP8 kernel against an fp64 product of the same bits, in Triton's interpreter."""

import pytest
import torch
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.mxfp8 import providers, stock
from rooflens.kernels.mxfp8.quantize import LARGEST_MANTISSA, dequantize_mx, quantize_mx
from rooflens.kernels.mxfp8.triton.quantize import dequantize_mx_kernel, quantize_mx_kernel
from rooflens.kernels.mxfp8.triton_configs import MxTile
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8 import MxFp8

from ..checks import check_launch
from ..devices import CPU
from ..interpreter import interpreted

NAMES = {
    "diagonal": "diagonal_mx_kernel",
    "vector": "gemv_mx_kernel",
    "bf16": "mma_mx_kernel",
    "scaled": "scaled_mx_kernel",
    "": "scaled_gemm_kernel",
}
KERNELS = tuple(NAMES)[:-1]


def check(kernel, sizes, tile, split=1, seed=1):
    inputs = make_inputs(Problem(*sizes), MxFp8("rceil", DType.BF16), CPU, seed)
    provider = providers.MMA if kernel else stock.STOCK_TRITON
    config = MxTile(*tile, 4, 2, split, kernel).as_json("gfx950")
    launch = check_launch(provider, inputs, config, times=1, least_db=50, again=split > 1)
    assert launch.kernels == (NAMES[kernel],)
    (reference,) = inputs.reference()
    rounding = reference.abs() * 2.0**-8 + 1e-6 * reference.square().mean().sqrt()
    assert ((launch.output.double() - reference).abs() <= rounding).all(), (kernel, sizes, tile)


@pytest.mark.parametrize("kernel", KERNELS)
@interpreted
def test_kernels_compute_the_product_of_the_same_bits(kernel):
    tile_m = 2 if kernel in ("diagonal", "vector") else 16
    check(kernel, (1, 16, 256), (tile_m, 16, 128))  # M=1, whole tiles
    check(kernel, (3, 21, 256), (tile_m, 16, 128), split=2)  # tails in M and N, K divided
    check(kernel, (2, 7, 224), (tile_m, 16, 128))  # K is not whole tiles
    check(kernel, (17, 33, 416), (16, 32, 64), split=4)  # several tiles, an odd K tail
    check(kernel, (2, 5, 32), (tile_m, 16, 64))  # one block


@interpreted
def test_stock_kernel():
    check("", (5, 20, 256), (16, 16, 128))
    check("", (33, 40, 128), (32, 16, 128))


@interpreted
def test_quantizer_and_its_inverse_are_exact():
    """Native narrowing is the interpreter's conversion, which `interpreter_repairs` replaces by torch's."""
    cases = [
        (rule, native, seed, 40, 96)
        for seed, rule in enumerate(("floor", "ceil", "even", "rceil"))
        for native in (True, False)
    ]
    for rule, native, seed, rows, columns in (*cases, ("rceil", False, 3, 16, 512)):  # the last: whole tiles
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(rows, columns, generator=generator)
        x *= torch.exp2(torch.randint(-120, 100, (rows, 1), generator=generator).float())
        x[0, :32] = 0
        x[-1, -1] = torch.inf
        x = x.bfloat16()
        payload = torch.full(x.shape, 255, dtype=torch.uint8)
        scales = torch.full((rows, columns // 32), 255, dtype=torch.uint8)
        blocks, each = scales.numel(), 16
        grid, constants = (-(-blocks // each),), {"MASKED": blocks % each != 0, "BLOCKS": each}
        quantize_mx_kernel[grid](
            x, payload, scales, blocks, LARGEST_MANTISSA=LARGEST_MANTISSA[rule], NATIVE=native, **constants
        )
        q, expected = quantize_mx(x, rule)
        assert torch.equal(payload, q.view(torch.uint8)), (rule, native)
        assert torch.equal(scales, expected), (rule, native)
        assert (scales == 255).sum() == 1
        out = torch.full(x.shape, torch.nan, dtype=torch.bfloat16)
        dequantize_mx_kernel[grid](payload, scales, out, blocks, **constants)
        finite = (scales != 255).repeat_interleave(32, -1)
        assert torch.equal(out.double()[finite], dequantize_mx(q, scales, torch.float64)[finite]), (rule, native)
