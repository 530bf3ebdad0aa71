"""Every Triton kernel of the family against the torch specification, in Triton's interpreter."""

import pytest
import torch
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.jit.call import compile_calls
from rooflens.kernels.reference import measure_all
from rooflens.kernels.torchao.blas import dense_weight
from rooflens.kernels.torchao.quantize import quantized_layout
from rooflens.kernels.torchao.triton_dequantize import dequantize_calls
from rooflens.kernels.torchao.triton_providers import GEMM, GROUPED, LOOP, QUANTIZE, STOCK_TRITON
from rooflens.shapes.problem import Op, Pass, Problem

from ..checks import check_launch, octets, results
from ..devices import cpu
from ..interpreter import interpreted
from ..synthetic import scheme_of

TILE = {"BLOCK_M": 64, "BLOCK_N": 64, "GROUP_M": 2, "num_warps": 4, "num_stages": 2}
WIDE = TILE | {"BLOCK_M": 128, "BLOCK_N": 128}
STOCK = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2}


def inputs_of(scheme, sizes, pass_="fwd", *, dtype="bf16", arch="x86-64", seed=1):
    """`sizes`: M, K of a quantizer; M, N, K of a product; M, N, K, E of a grouped one. FP8 is that of the `arch`."""
    m, n, k, experts = (*sizes, 1)[:4] if len(sizes) > 2 else (sizes[0], 1, sizes[1], 1)
    op = (Op.QUANTIZE, Op.GEMM, Op.GROUPED_GEMM)[len(sizes) - 2]
    problem = Problem(m, n, k, op=op, pass_=Pass(pass_), E=experts)
    scheme = scheme_of(f"ao-{scheme}", dtype)
    scheme.check(problem)
    return make_inputs(problem, scheme, cpu(arch), seed)


def check_quantizer(kind, sizes, block=32, scale=None, **given):
    """Every bit, of fresh activations too; `scale` makes groups of zeros or of tiny values."""
    inputs = inputs_of(kind, sizes, **given)
    launch = QUANTIZE.prepare(inputs, {"BLOCK": block, "num_warps": 4})
    for seed in (1, 2):
        inputs.refresh_activations(seed)
        if scale is not None:
            inputs.x[: sizes[0] // 2].mul_(scale)
        found = results(launch)
        failures = [one.failure(inputs.scheme) for one in measure_all(found, inputs.reference())]
        assert not any(failures), (kind, sizes, failures)
        expected = quantized_layout(inputs.x, kind, inputs.fp8)
        assert all(torch.equal(octets(a), octets(b)) for a, b in zip(found, expected, strict=True)), (kind, sizes)


def check(provider, scheme, sizes, config=TILE, pass_="fwd", **given):
    """Return the names of the kernels."""
    launch = check_launch(provider, inputs_of(scheme, sizes, pass_, **given), config, again=False)
    return list(launch.kernels)


SIZES = {
    # whole tiles in both directions, then a tail where the layout allows one
    "act-lhs": ((64, 256), (1, 128), (70, 384)),
    "act-rhs": ((256, 128), (1, 128), (200, 256)),
    "act-transposed-lhs": ((128, 128), (128, 1), (256, 90)),
    "weight-rhs": ((256, 128), (128, 384)),
    "weight-transposed-rhs": ((256, 128), (128, 384)),
}


@pytest.mark.parametrize("arch", ["x86-64", "gfx942"])
@interpreted
def test_quantizers_to_the_bit(arch):
    for kind, sizes in SIZES.items():
        for size in sizes:
            check_quantizer(kind, size, arch=arch)


@interpreted
def test_quantizers_of_zeros_of_tiny_values_and_of_other_types():
    check_quantizer("act-lhs", (70, 256), scale=0.0)
    check_quantizer("act-rhs", (200, 128), scale=0.0)
    check_quantizer("weight-rhs", (256, 128), scale=0.0)
    check_quantizer("act-lhs", (70, 256), scale=1e-16, dtype="fp32")
    check_quantizer("act-transposed-lhs", (256, 50), block=64, scale=1e-13, dtype="fp32")
    check_quantizer("weight-transposed-rhs", (128, 128), dtype="fp16")


@interpreted
def test_gemms():
    """Whole tiles; one row; tails in every direction; a last group of K that is partial; M, N of one tile and more."""
    check(GEMM, "1x128-128x128", (128, 256, 256), WIDE)
    check(GEMM, "1x128-128x128", (1, 5, 300))
    check(GEMM, "1x128-128x128", (70, 200, 256), WIDE, arch="gfx942")
    check(GEMM, "1x128-128x128", (200, 130, 100), dtype="fp16")
    check(GEMM, "1x128-128x1", (128, 64, 128))
    check(GEMM, "1x128-128x1", (70, 200, 333), dtype="fp32")
    check(GEMM, "1x128-128x1", (1, 130, 384), WIDE)


@pytest.mark.slow
@interpreted
def test_linear_casts_and_multiplies():
    check(GEMM, "linear", (33, 100, 300))
    check(GEMM, "linear", (256, 128, 130), WIDE, "step", arch="gfx942")
    check(GEMM, "linear", (128, 90, 200), TILE, "step")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grouped_ao", "loop_ao"])
@interpreted
def test_grouped_products(name):
    provider = {"grouped_ao": GROUPED, "loop_ao": LOOP}[name]
    check(provider, "grouped", (160, 100, 130, 5))
    check(provider, "grouped", (16, 64, 128, 1))
    check(provider, "grouped", (48, 70, 256, 8), WIDE)  # five of eight experts have no rows
    check(provider, "grouped-balanced", (192, 64, 200, 3), dtype="fp32")
    check(provider, "grouped-linear", (384, 100, 130, 5), TILE, "step")
    check(provider, "grouped-linear", (256, 130, 70, 1), WIDE, "step", arch="gfx942")


@interpreted
def test_stock_kernel():
    check(STOCK_TRITON, "linear", (38, 100, 130), STOCK)
    check(STOCK_TRITON, "1x128-128x1", (17, 33, 128), STOCK, dtype="fp32")


@interpreted
def test_dequantized_operands_to_the_bit():
    for scheme, sizes, given in (
        ("1x128-128x128", (64, 128, 256), {}),
        ("1x128-128x1", (38, 100, 130), {"dtype": "fp16"}),
        ("grouped", (48, 200, 130, 2), {"arch": "gfx942"}),
        ("grouped-linear", (256, 100, 130, 2), {"pass_": "step"}),
    ):
        inputs = inputs_of(scheme, sizes, **given)
        calls, activations, weight = dequantize_calls(inputs)
        compile_calls(calls).run()
        expected = inputs.dense if hasattr(inputs, "dense") else (inputs.a_dense,)
        assert all(map(torch.equal, activations, expected)), scheme
        assert torch.equal(weight, dense_weight(inputs)), scheme
