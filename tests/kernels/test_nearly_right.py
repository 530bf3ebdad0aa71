"""What kernels with plausible bugs return must fail, on the operands as they are drawn, and what is right must pass."""

import math
from dataclasses import replace

import pytest
import torch
from rooflens.kernels.mxfp8.providers import LARGEST_SCALE
from rooflens.kernels.reference import measure_all
from rooflens.shapes.problem import Op, Pass, Problem

from .devices import CPU, cpu
from .synthetic import operands

LONG = 16384
"""A row so long that one of its blocks hardly counts, as in the largest layers."""


def failures(outputs, truth, scheme):
    return [accuracy.failure(scheme) for accuracy in measure_all(outputs, truth)]


def product(inputs, x, w, bias=None):
    """X W^T of exact operands, rounded to the type of the output."""
    result = x.double() @ w.double().t()
    return (result if bias is None else result + bias.double()).to(inputs.empty_outputs()[0].dtype)


# Quantizers: every bit counts.

FP8_QUANTIZERS = {
    "fp8-quant-row": (1, 128, 1e-4),
    "fp8-quant-col": (128, 1, 1e-4),
    "fp8-quant-weight": (128, 128, 1e-4),
    "ao-act-lhs": (1, 128, 1e-12),
    "ao-act-rhs": (128, 1, 1e-12),
    "ao-weight-rhs": (128, 128, 1e-12),
}
"""Quantizers to FP8 whose data lie as X does: rows and columns of a group, and its least amax."""

QUANTIZED = Problem(1280, 1, 512, op=Op.QUANTIZE)


@pytest.fixture(params=FP8_QUANTIZERS)
def quantizer(request):
    return request.param


def widened(tensor):
    return tensor.contiguous().double()


def right_outputs(inputs):
    """The reference in the types of the outputs, which hold it exactly."""
    return [truth.to(out.dtype) for truth, out in zip(inputs.reference(), inputs.empty_outputs(), strict=True)]


@pytest.mark.parametrize("device", [CPU, cpu("gfx942")], ids=["e4m3fn", "e4m3fnuz"])
@pytest.mark.parametrize(
    "name", [*FP8_QUANTIZERS, "fp8-quant-rowcol", "ao-act-transposed-lhs", "ao-weight-transposed-rhs"]
)
def test_a_right_quantizer_passes_also_when_negated(name, device):
    inputs = operands(QUANTIZED, name, device=device)
    truth = inputs.reference()
    assert not any(failures(right_outputs(inputs), truth, inputs.scheme))
    inputs.negate()
    inputs.negate_reference(truth)
    assert not any(failures(right_outputs(inputs), truth, inputs.scheme))


def largest_of_groups(inputs, rows, columns):
    x = inputs.x.float()
    return x.unflatten(1, (-1, columns)).unflatten(0, (-1, rows)).abs().amax(dim=(1, 3))


def wrong_data(data):
    """By what is wrong: all off by one step, one element, subnormals flushed, signs of zeros lost."""
    codes = data.contiguous().view(torch.uint8)
    size, one = codes & 0x7F, codes.clone()
    one[639, 300] ^= 1 if size[639, 300] < 0x7E else 2
    found = {
        "step": torch.where((size > 0) & (size < 0x7E), codes ^ 1, codes),
        "element": one,
        "subnormals": torch.where(codes & 0x78 == 0, codes & 0x80, codes),
        "zeros": torch.where(codes == 0x80, 0, codes),
    }
    return {name: wrong.view(data.dtype) for name, wrong in found.items()}


def test_data_of_nearly_right_quantizers_fail(quantizer):
    inputs = operands(QUANTIZED, quantizer)
    data, scale = right_outputs(inputs)
    wrong = wrong_data(data)
    found = {name: failures([one, scale], inputs.reference(), inputs.scheme)[0] for name, one in wrong.items()}
    assert all("differ in their bits" in failure for failure in found.values())
    assert "1 elements differ in their bits, the first at [m=639, n=300]" in found["element"]
    assert torch.equal(widened(wrong["zeros"]), widened(data)), "as numbers they are equal"


def test_scales_of_nearly_right_quantizers_fail(quantizer):
    """Off by one ulp; by another formula; without the clamp, for groups of zeros and groups below the least amax."""
    rows, columns, least = FP8_QUANTIZERS[quantizer]
    inputs = operands(QUANTIZED, quantizer)
    data, scale = right_outputs(inputs)
    amax, up, one = largest_of_groups(inputs, rows, columns), scale.nextafter(torch.tensor(math.inf)), scale.clone()
    one[-1, -1] = up[-1, -1]
    formula = amax.clamp(min=least) / torch.full_like(amax, 448.0)  # 1 / (448 / amax) to one ulp, and not always
    assert torch.allclose(formula, scale.contiguous(), rtol=2.5e-7, atol=0.0)
    assert (amax == 0).any()
    assert ((amax > 0) & (amax < least)).any()
    assert (amax > 1e4).any()
    assert ((amax > 0.25) & (amax < 16)).float().mean() > 0.75, "most of the data are usual"
    unclamped = torch.where(amax == 0, scale.contiguous(), (1.0 / (448.0 / amax.double())).float())
    for wrong in (up, one, formula, unclamped):
        assert "differ in their bits" in failures([data, wrong], inputs.reference(), inputs.scheme)[1]
    assert failures([data, 1.0 / (448.0 / amax)], inputs.reference(), inputs.scheme)[1]


@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "rceil"])
def test_nearly_right_mx_quantizers_fail(rule):
    inputs = operands(Problem(64, 1, 1024, op=Op.QUANTIZE), f"mxfp8-quant-{rule}")
    payload, scales = right_outputs(inputs)
    truth = inputs.reference()
    assert not any(failures([payload, scales], truth, inputs.scheme))
    assert (payload[:, :32] & 0x7F != 0).any()
    blocks = payload.view(64, 32, 32)
    assert ((scales == 0) & (blocks & 0x7F != 0).any(-1)).any(), "too small for the least scale"
    assert ((scales == 0) & (blocks & 0x7F == 0).all(-1)).any(), "zeros"
    assert ((scales > 111) & (scales < 130)).float().mean() > 0.8, "most of the data are usual"
    for wrong in (scales.clamp(min=1), scales.clamp(max=127), scales ^ (scales == scales.max()).byte()):
        assert "differ in their bits" in failures([payload, wrong], truth, inputs.scheme)[1]
    flushed = torch.where(payload & 0x78 == 0, payload & 0x80, payload)
    assert "differ in their bits" in failures([flushed, scales], truth, inputs.scheme)[0]


# MX-FP8 products: bytes on both sides of 127, and 0.


def mx_values(payload, scales, exponent=lambda byte: byte.double() - 127):
    return (payload.double().unflatten(-1, (-1, 32)) * torch.exp2(exponent(scales))[..., None]).flatten(-2)


def signed(byte):
    return byte.view(torch.int8).double() - 127


def with_wrong_byte_0(byte):
    return torch.where(byte == 0, 127, byte).double() - 127


@pytest.mark.parametrize("wrong", [signed, with_wrong_byte_0], ids=lambda function: function.__name__)
@pytest.mark.parametrize("rule", ["floor", "rceil"])
def test_misread_scales_of_mx_products_fail(rule, wrong):
    inputs = operands(Problem(16, 256, 2048), f"mxfp8-{rule}")
    truth = inputs.reference()
    x, w = mx_values(inputs.x, inputs.x_scale), mx_values(inputs.w, inputs.w_scale)
    assert not any(failures([product(inputs, x, w)], truth, inputs.scheme))
    assert any(failures([product(inputs, mx_values(inputs.x, inputs.x_scale, wrong), w)], truth, inputs.scheme))
    assert any(failures([product(inputs, x, mx_values(inputs.w, inputs.w_scale, wrong))], truth, inputs.scheme))


def test_misread_scales_of_experts_fail():
    inputs = operands(Problem(16, 64, 1024, op=Op.MOE_GEMM, E=4, top_k=2), "mxfp8-moe-rceil")
    truth = inputs.reference()

    def output(x_exponent, w_exponent):
        x, w = mx_values(inputs.x, inputs.x_scale, x_exponent), mx_values(inputs.w, inputs.w_scale, w_exponent)
        rows = [w[expert] @ x[slot // 2] for slot, expert in enumerate(inputs.topk_ids.flatten().tolist())]
        return [torch.stack(rows).bfloat16()]

    def plain(byte):
        return byte.double() - 127

    assert not any(failures(output(plain, plain), truth, inputs.scheme))
    assert any(failures(output(signed, plain), truth, inputs.scheme))
    assert any(failures(output(plain, signed), truth, inputs.scheme))


@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "rceil"])
@pytest.mark.parametrize("moe", [False, True], ids=["dense", "moe"])
def test_scales_of_all_draws_are_within_reach_of_every_kernel(rule, moe):
    problem = Problem(64, 256, 1024, op=Op.MOE_GEMM, E=4, top_k=2) if moe else Problem(64, 256, 1024)
    inputs = operands(problem, f"mxfp8-{'moe-' * moe}{rule}")
    for seed in range(5):
        inputs.refresh_activations(seed)
        for payload, scales in ((inputs.x, inputs.x_scale), (inputs.w, inputs.w_scale)):
            assert 128 <= scales.max() <= min(LARGEST_SCALE.values())
            assert scales[scales > 0].min() < 127
            assert 0.2 < (scales >= 128).float().mean() < 0.8
            blocks = payload.view(torch.uint8).unflatten(-1, (-1, 32))
            assert ((scales == 0) & (blocks == 0).all(-1)).any()
            assert ((scales == 0) & (blocks != 0).any(-1)).any()


# Products of scaled blocks: the scale of one block of many counts.


def training_scales(inputs):
    """With the dimension that is contracted."""
    pass_ = inputs.problem.pass_
    return [
        (operand.scale, 0 if pass_ is Pass.WGRAD or (pass_ is Pass.DGRAD and name == "w") else 1)
        for name, operand in inputs.given.items()
    ]


def product_scales(inputs):
    return [(inputs.a_scale, 0), (inputs.b_scale, 1 if inputs.by_column else 2)]


GROUPS = {"op": Op.GROUPED_GEMM, "E": 2}


@pytest.mark.parametrize(
    ("scheme", "problem", "scales"),
    [
        *(
            ("fp8-blockwise-prequantized", Problem(*sizes, pass_=one), training_scales)
            for one, sizes in (
                (Pass.FWD, (16, 1024, LONG)), (Pass.DGRAD, (16, LONG, 1024)), (Pass.WGRAD, (LONG, 64, 256)),
            )
        ),
        *(
            (f"ao-{scheme}", Problem(32, 1024, LONG, **more), product_scales)
            for scheme, more in (("1x128-128x128", {}), ("1x128-128x1", {}), ("grouped", GROUPS))
        ),
        *(
            (f"a16w8-128x128{more}", Problem(2, 1024, 7168), lambda inputs: [(inputs.scale, -1)])
            for more in ("", "-prequant")
        ),
        *((f"nf4-g{group}", Problem(4, 64, LONG), lambda inputs: [(inputs.absmax.view(64, -1), 1)])
          for group in (64, 4096)),
    ],
)  # fmt: skip
def test_a_wrong_scale_at_the_end_of_what_is_contracted_fails(scheme, problem, scales):
    inputs = operands(problem, scheme)
    truth = inputs.reference()
    assert not any(failures([truth[0].bfloat16()], truth, inputs.scheme))
    for scale, contracted in scales(inputs):
        kept = scale.clone()
        scale.select(contracted, -1).copy_(kept.select(contracted, -2))
        assert failures([inputs.reference()[0].bfloat16()], truth, inputs.scheme)[0]
        scale.copy_(kept)


# A bias counts as much as the product.


@pytest.mark.parametrize("scheme", ["nf4-g64-bias", "a16w8-128x128-bias", "a16w8-128x128-prequant-bias"])
def test_a_lost_or_permuted_bias_fails(scheme):
    inputs = operands(Problem(8, 256, 8192), scheme)
    (truth,) = inputs.reference()
    (without,) = replace(inputs, bias=None).reference()
    assert inputs.bias.float().std() / without.std() == pytest.approx(1.0, abs=0.25)
    assert not failures([truth.bfloat16()], [truth], inputs.scheme)[0]
    for bias in (torch.zeros_like(inputs.bias), inputs.bias.roll(1, -1), inputs.bias.roll(16, -1)):
        (wrong,) = replace(inputs, bias=bias).reference()
        assert failures([wrong.bfloat16()], [truth], inputs.scheme)[0]
