"""Operands of the MX-FP8 family and their reference, and the bytes of its schemes."""

import pytest
import torch
from rooflens.kernels.inputs import make_inputs, make_weight
from rooflens.kernels.mxfp8.quantize import dequantize_mx, quantize_mx
from rooflens.kernels.reference import measure
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8 import MxFp8, MxFp8Quant

from ..devices import CPU

GEMM = MxFp8("rceil", DType.BF16)
QUANT = MxFp8Quant("even", DType.BF16)


def test_names():
    for rule in ("floor", "ceil", "even", "rceil"):
        assert MxFp8.read(f"mxfp8-{rule}", DType.BF16) == MxFp8(rule, DType.BF16)
        assert MxFp8Quant.read(f"mxfp8-quant-{rule}", DType.BF16).name == f"mxfp8-quant-{rule}"
    assert MxFp8.read("mxfp8-round", DType.BF16) is None
    assert MxFp8.read("mxfp8-quant-rceil", DType.BF16) is None
    assert MxFp8Quant.read("mxfp8-rceil", DType.BF16) is None


@pytest.mark.parametrize("kind", [MxFp8, MxFp8Quant])
def test_only_bf16_and_whole_blocks(kind):
    with pytest.raises(UsageError, match="bf16, not fp16"):
        kind("rceil", DType.FP16)
    with pytest.raises(UsageError, match="unknown scale rule 'nearest'"):
        kind("nearest", DType.BF16)
    op = kind.ops[0]
    kind("rceil", DType.BF16).check(Problem(3, 1, 96, op=op))
    with pytest.raises(UsageError, match="K=100 is not a multiple of its block of 32"):
        kind("rceil", DType.BF16).check(Problem(3, 1, 100, op=op))


def test_compulsory_bytes():
    """qkv of the decode suite at M = 4: (M + N) K (1 + 1/32) + 2 M N."""
    problem = Problem(4, 2304, 6144)
    assert GEMM.weight_bytes(problem) == 14_155_776
    assert GEMM.scale_bytes(problem) == 443_136
    assert GEMM.compulsory_bytes(problem) == (4 + 2304) * 6144 * 33 // 32 + 2 * 4 * 2304
    quantize = Problem(16, 1, 2048, op=Op.QUANTIZE)
    assert QUANT.compulsory_bytes(quantize) == 2 * 32768 + 32768 + 1024


def test_reference_is_the_product_of_the_stored_bits():
    inputs = make_inputs(Problem(3, 7, 64), GEMM, CPU, 5)
    x = dequantize_mx(inputs.x, inputs.x_scale, torch.float64)
    w = dequantize_mx(inputs.w, inputs.w_scale, torch.float64)
    (truth,) = inputs.reference()
    assert torch.allclose(truth, torch.einsum("mk,nk->mn", x, w), rtol=1e-12)
    normal = w.abs() >= torch.finfo(torch.bfloat16).tiny
    assert torch.equal(inputs.dequantized().double()[normal], w[normal]), "exact in bf16"
    assert torch.equal(inputs.dequantized(), w.bfloat16())
    (output,) = inputs.empty_outputs()
    assert output.isnan().all()
    assert output.dtype == torch.bfloat16


def test_negation_and_refreshing_are_in_place_and_exact():
    inputs = make_inputs(Problem(5, 6, 96), GEMM, CPU, 5)
    (before,) = inputs.reference()
    pointers = [tensor.data_ptr() for tensor in inputs.activations]
    copied = inputs.copy()
    inputs.negate()
    inputs.negate_reference((before,))
    assert torch.equal(inputs.reference()[0], before)
    inputs.refresh_activations(9)
    assert [tensor.data_ptr() for tensor in inputs.activations] == pointers
    assert not torch.equal(inputs.x.view(torch.uint8), copied.x.view(torch.uint8))
    assert copied.w.data_ptr() != inputs.w.data_ptr()


def test_weights_are_shared_between_sizes_of_m():
    weight = make_weight(Problem(1, 8, 64), GEMM, CPU, 3)
    inputs = make_inputs(Problem(2, 8, 64), GEMM, CPU, 3, weight)
    assert inputs.weights == weight
    alone = make_inputs(Problem(2, 8, 64), GEMM, CPU, 3)
    assert torch.equal(alone.w.view(torch.uint8), weight[0].view(torch.uint8))
    assert (inputs.w.float() < 0).any(), "signed"


def test_quantizer_results_are_compared_bit_for_bit():
    inputs = make_inputs(Problem(9, 1, 96, op=Op.QUANTIZE), QUANT, CPU, 4)
    q, scales = quantize_mx(inputs.x, "even")
    payload, truth = inputs.reference(), q.view(torch.uint8).clone()
    assert torch.equal(payload[0], truth.double())
    assert torch.equal(payload[1], scales.double())
    assert measure(truth, payload[0]).passes(QUANT)
    truth[3, 7] ^= 1
    assert not measure(truth, payload[0]).passes(QUANT), "one step of one element"
    assert len(set(scales.flatten().tolist())) > 3, "blocks of different magnitude"
    inputs.negate()
    inputs.negate_reference(payload)
    for mine, expected in zip(inputs.reference(), payload, strict=True):
        assert torch.equal(mine, expected)
    assert all((output == 255).all() for output in inputs.empty_outputs())


def test_one_wrong_bit_among_a_million_bytes_fails():
    exact = torch.randint(0, 255, (512, 2048), generator=torch.manual_seed(1)).double()
    wrong = exact.to(torch.uint8)
    wrong[100, 1000] ^= 1
    assert "1 elements differ in their bits, the first at [m=100, n=1000]" in measure(wrong, exact).failure(QUANT)
