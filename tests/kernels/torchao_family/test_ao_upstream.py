"""The adapter of torchao, against a stand-in package with the signatures of torchao 0.18."""

import importlib.machinery
import sys
import types
from itertools import pairwise
from typing import ClassVar

import pytest
import torch
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.provider import Role, support
from rooflens.kernels.quantized import Quantized
from rooflens.kernels.torchao.quantize import quantized_layout
from rooflens.kernels.torchao.upstream import TORCHAO
from rooflens.shapes.errors import RooflensError
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.torchao import QUANTIZERS, AoGemm, AoGrouped, AoGroupedLinear, AoLinear, AoQuant

from ..checks import check_launch
from ..devices import CPU, H200

BF16, G, STEP = DType.BF16, Op.GROUPED_GEMM, Pass.STEP
TRAINING = "torchao.prototype.blockwise_fp8_training"
GROUPED = "torchao.prototype.moe_training.blockwise_fp8"


def dense(data, scale, rows, columns):
    return Quantized(data, scale, rows, columns).dequantize(torch.empty(data.shape))


def stub_kernels():
    module = types.ModuleType(f"{TRAINING}.kernels")

    def quantizer(kind):
        def quantize(x, block_size=128, dtype=torch.float8_e4m3fn):
            assert x.is_contiguous()
            assert block_size == 128
            return quantized_layout(x, kind, dtype)

        return quantize

    for kind in QUANTIZERS:
        first, _, rest = kind.partition("-")
        setattr(module, f"triton_fp8_blockwise_{first}_quant_{rest.replace('-', '_')}", quantizer(kind))

    def gemm(columns, b_scale_strides):
        def multiply(a, b, a_s, b_s, block_size=128, out_dtype=torch.float32):
            assert a.stride(-1) == b.stride(-2) == a_s.stride(-2) == 1
            assert b_s.stride() == b_scale_strides(b_s), "b_s is in the other order"
            return (dense(a, a_s, 1, 128) @ dense(b, b_s, 128, columns)).to(out_dtype)

        return multiply

    module.triton_fp8_gemm_1x128_128x128 = gemm(128, lambda b_s: (1, b_s.shape[0]))
    module.triton_fp8_gemm_1x128_128x1 = gemm(1, lambda b_s: (b_s.shape[1], 1))
    return module


def fake(x, kind):
    """What a cast leaves, as fp32 in the shape of x."""
    rows, columns, _ = QUANTIZERS[kind]
    data, scale = quantized_layout(x.contiguous(), kind, torch.float8_e4m3fn)
    return dense(data.t(), scale.t(), rows, columns) if "transposed" in kind else dense(data, scale, rows, columns)


class BlockwiseLinear(torch.autograd.Function):
    calls: ClassVar[list] = []

    @staticmethod
    def forward(ctx, x, weight, block_size, out_dtype=torch.bfloat16, use_triton=False):
        ctx.save_for_backward(x, weight)
        BlockwiseLinear.calls.append(use_triton)
        return (fake(x, "act-lhs") @ fake(weight, "weight-transposed-rhs").t()).to(out_dtype)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dx = fake(dy, "act-lhs") @ fake(weight, "weight-rhs")
        dw = fake(dy, "act-transposed-lhs").t() @ fake(x, "act-rhs")
        return dx.to(dy.dtype), dw.to(dy.dtype), None, None, None


def grouped_mm(A, B_t, offs=None, out_dtype=torch.bfloat16, float8_dtype=torch.float8_e4m3fn, block_size=128,
               pad_token_groups_for_grouped_mm=True, kernel_preference="auto"):  # fmt: skip
    assert offs.dtype == torch.int32
    assert B_t.stride(-2) == 1
    assert not pad_token_groups_for_grouped_mm
    rows = [
        BlockwiseLinear.apply(A[first:last], weight.t(), 128, out_dtype)
        for weight, (first, last) in zip(B_t, pairwise([0, *offs.tolist()]), strict=True)
    ]
    return torch.cat(rows)


@pytest.fixture
def torchao(monkeypatch):
    """A package `torchao` without its real contents."""
    linear = types.ModuleType(f"{TRAINING}.linear")
    linear.fp8_blockwise_mm = BlockwiseLinear
    grouped = types.ModuleType(f"{GROUPED}.grouped_mm")
    grouped._to_fp8_blockwise_then_scaled_grouped_mm = grouped_mm
    backend = types.ModuleType(f"{GROUPED}.grouped_mm_backend")
    backend.can_use_deepgemm_grouped_training = lambda a, out_dtype, block_size: False
    root = types.ModuleType("torchao")
    root.__version__ = "0.18.0"
    root.__spec__ = importlib.machinery.ModuleSpec("torchao", None)
    for name in ("torchao.prototype", TRAINING, "torchao.prototype.moe_training", GROUPED):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for module in (root, stub_kernels(), linear, grouped, backend):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    BlockwiseLinear.calls.clear()
    return root


@pytest.mark.parametrize(
    ("problem", "scheme", "dispatched"),
    [
        *(
            (Problem(256, 1, 384, op=Op.QUANTIZE), AoQuant(kind, BF16), f"triton_fp8_blockwise_{name}")
            for kind, name in zip(
                QUANTIZERS,
                ("act_quant_lhs", "act_quant_rhs", "act_quant_transposed_lhs", "weight_quant_rhs",
                 "weight_quant_transposed_rhs"),
                strict=True,
            )
        ),
        (Problem(64, 256, 384), AoGemm("128x128", BF16), "triton_fp8_gemm_1x128_128x128"),
        (Problem(64, 256, 384), AoGemm("128x1", DType.FP32), "triton_fp8_gemm_1x128_128x1"),
        (Problem(64, 256, 384), AoLinear(BF16), "scaled_mm"),
        (Problem(128, 256, 384, pass_=STEP), AoLinear(BF16), "scaled_mm"),
        (Problem(512, 256, 128, E=3, op=G), AoGroupedLinear(BF16), "emulated"),
        (Problem(512, 256, 128, E=3, op=G, pass_=STEP), AoGroupedLinear(BF16), "emulated"),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)  # fmt: skip
def test_arguments_and_results(torchao, problem, scheme, dispatched):
    assert support(TORCHAO, problem, scheme, H200).ok
    inputs = make_inputs(problem, scheme, CPU, 1)
    launch = check_launch(TORCHAO, inputs, None)
    assert (launch.dispatched, launch.config["torchao"]) == (dispatched, "0.18.0")
    assert [one.shape for one in launch.outputs] == [one.shape for one in inputs.empty_outputs()]
    assert not any(one.requires_grad for one in launch.outputs)


def test_its_own_gemms_can_be_asked_for(torchao):
    problem, scheme = Problem(64, 256, 384), AoLinear(BF16)
    assert list(TORCHAO.candidates(problem, scheme, H200)) == [{"use_triton": False}, {"use_triton": True}]
    launch = TORCHAO.prepare(make_inputs(problem, scheme, CPU, 1), {"use_triton": True})
    assert launch.dispatched == "triton_fp8_gemm"
    assert BlockwiseLinear.calls == [True]
    assert TORCHAO.role is Role.UPSTREAM


@pytest.mark.parametrize(
    ("problem", "scheme", "reason"),
    [
        (Problem(64, 256, 384), AoLinear(DType.FP16), "takes bf16"),
        (Problem(64, 200, 384), AoLinear(BF16), "N to be a multiple of 128"),
        (Problem(64, 200, 300), AoGemm("128x128", BF16), "K to be a multiple of 128"),
        (Problem(64, 256, 384, E=2, op=G), AoGrouped(BF16), "ask for ao-grouped-linear"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_it_declines(torchao, problem, scheme, reason):
    assert reason in support(TORCHAO, problem, scheme, H200).reason
    assert "need a GPU" in support(TORCHAO, Problem(64, 256, 384), AoLinear(BF16), CPU).reason


def test_absent_or_another_version(torchao, monkeypatch):
    inputs = make_inputs(Problem(64, 256, 384), AoLinear(BF16), CPU, 1)
    monkeypatch.delattr(sys.modules[f"{TRAINING}.linear"], "fp8_blockwise_mm")
    with pytest.raises(RooflensError, match="has no fp8_blockwise_mm"):
        TORCHAO.prepare(inputs)
    monkeypatch.setitem(sys.modules, f"{TRAINING}.linear", None)
    with pytest.raises(RooflensError, match="cannot be imported"):
        TORCHAO.prepare(inputs)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install torchao" in support(TORCHAO, inputs.problem, inputs.scheme, H200).reason
