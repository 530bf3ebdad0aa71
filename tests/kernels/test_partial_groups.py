"""K that is no multiple of a scaling group: what each format says of it, with the decoded operand written out here."""

from math import ceil

import pytest
import torch
from rooflens.kernels import registry
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.needs import TORCHAO
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

from .devices import CPU, H200

BF16 = DType.BF16


def repeated(scale: torch.Tensor, rows: int, columns: int, shape: tuple[int, int]) -> torch.Tensor:
    """Scale of every element, fp64; what stands out beyond the last, partial group is cut off."""
    return scale.double().repeat_interleave(rows, 0).repeat_interleave(columns, 1)[: shape[0], : shape[1]]


def agrees(inputs, x: torch.Tensor, w: torch.Tensor) -> None:
    torch.testing.assert_close(inputs.reference()[0], x @ w.T, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("columns", (1, 7))
def test_blocks_of_4_bit_weights_run_over_the_flat_tensor(columns):
    """bitsandbytes quantizes W as one row of elements: with K % 64 a block goes on in the next row of W."""
    shape = (columns, 129)
    inputs = make_inputs(Problem(3, *shape), parse_scheme("nf4-g64", BF16), CPU, seed=1)
    elements = columns * 129
    assert inputs.absmax.numel() == ceil(elements / 64)
    nibbles = torch.stack((inputs.packed >> 4, inputs.packed & 15), dim=-1).view(-1)[:elements]
    flat = (inputs.code[nibbles.long()] * inputs.absmax[torch.arange(elements) // 64]).double()  # fp32, by definition
    agrees(inputs, inputs.x.double(), flat.view(shape))


def test_a_partial_block_of_a16w8_has_a_scale_of_its_own():
    """aiter: w_scale is [B, cd(N,128), cd(K,128)]."""
    inputs = make_inputs(Problem(3, 200, 300), parse_scheme("a16w8-128x128", BF16), CPU, seed=1)
    assert inputs.scale.shape[-2:] == (2, 3)
    w = inputs.q[0].double() * repeated(inputs.scale[0], 128, 128, (200, 300))
    torch.testing.assert_close(inputs.reference()[0].view(3, 200), inputs.x[0].double() @ w.T, rtol=1e-10, atol=1e-10)


def test_aiter_finds_groups_of_128_from_the_number_of_scales():
    """Its kernel takes next_pow2(cd(K, scales)) elements for a group: the format's 128, whatever is left over."""
    for depth in range(129, 20_000):
        size = ceil(depth / ceil(depth / 128))
        assert 1 << (size - 1).bit_length() == 128


def test_edge_tiles_of_fp8_training_have_scales_of_their_own():
    """Primus-Turbo: scales are [M, cd(K,128)] and [cd(N,128), cd(K,128)]; edge tiles read zeros beyond the matrix."""
    inputs = make_inputs(Problem(5, 200, 300), parse_scheme("fp8-blockwise-prequantized", BF16), CPU, seed=1)
    x, w = inputs.given["x_row"], inputs.given["w"]
    assert (x.scale.shape, w.scale.shape) == ((5, 3), (2, 3))
    agrees(
        inputs,
        x.data.double() * repeated(x.scale, 1, 128, (5, 300)),
        w.data.double() * repeated(w.scale, 128, 128, (200, 300)),
    )


@pytest.mark.parametrize("name", ("mxfp8-rceil", "mxfp8-quant-rceil", "mxfp8-moe-rceil"))
def test_a_row_of_mx_fp8_is_whole_blocks(name):
    """OCP microscaling knows no partial block."""
    scheme = parse_scheme(name, BF16)
    sizes = {"op": scheme.ops[0]} | ({"E": 4, "top_k": 2} if "moe" in name else {})
    columns = 1 if scheme.ops[0] is Op.QUANTIZE else 64
    scheme.check(Problem(4, columns, 96, **sizes))
    with pytest.raises(UsageError, match="K=100 is not a multiple of its block of 32"):
        scheme.check(Problem(4, columns, 100, **sizes))


def test_quantizers_of_torchao_take_whole_groups_and_so_do_its_products(monkeypatch):
    with pytest.raises(UsageError, match="K=300 must be a multiple of 128"):
        parse_scheme("ao-act-lhs", BF16).check(Problem(256, 1, 300, op=Op.QUANTIZE))
    monkeypatch.setattr(type(TORCHAO), "missing", lambda self: "")
    upstream = registry.load(["torchao_ao"])["torchao_ao"]
    scheme = parse_scheme("ao-1x128-128x128", BF16)
    assert upstream.supports(Problem(16, 256, 384), scheme, H200).ok
    assert upstream.supports(Problem(16, 256, 300), scheme, H200).reason == "torchao needs K to be a multiple of 128"
