"""INT4, MXFP4 and NVFP4 weights: bits against what the formats publish, and kernels against fp64, interpreted."""

import numpy as np
import pytest
import torch
from rooflens.kernels.fourbit import groups
from rooflens.shapes.problem import Problem

from .interpreter import interpreted
from .synthetic import operands, scheme_of
from .test_triton_interpreted import ISAS, check_fused

E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
"""Magnitudes of the codes 0 .. 7; OCP Microscaling Formats 1.0, table 5."""

NAMES = ("int4-g32", "int4-g64-zp", "int4-g128-zp", "mxfp4", "nvfp4")


SMALL = Problem(2, 24, 256)


def unpacked(octets, rows):
    return np.stack([octets >> 4, octets & 15], axis=1).reshape(rows, -1)


def zeros_of(inputs):
    if inputs.groups.zero is None:
        return np.full((inputs.problem.N, inputs.problem.K // inputs.scheme.group), 8)
    return unpacked(inputs.groups.zero.numpy(), inputs.problem.N)


def weight_of(inputs):
    """W[N,K] in fp64 by the definition of each format, with torch's own types for the scales."""
    group, scale = inputs.scheme.group, inputs.groups.scale.double().numpy().reshape(inputs.problem.N, -1)
    codes = unpacked(inputs.packed.numpy(), inputs.problem.N)
    if inputs.scheme.weight == "int4":
        values = codes.astype(np.float64) - zeros_of(inputs).repeat(group, axis=1)
    else:
        values = np.array([*E2M1, *(-one for one in E2M1)])[codes]
    total = 1.0 if inputs.groups.total is None else float(inputs.groups.total)
    return values * scale.repeat(group, axis=1) * total


# schemes


@pytest.mark.parametrize(
    ("name", "bits_per_weight", "more"),
    [("int4-g128", 4 + 16 / 128, 0), ("int4-g32-zp", 4 + 20 / 32, 0), ("mxfp4", 4.25, 0), ("nvfp4", 4.5, 4)],
)
def test_bytes_are_those_of_weights_scales_and_zero_points(name, bits_per_weight, more):
    scheme, problem = scheme_of(name), Problem(3, 512, 1024)
    assert scheme.name == name
    stored = scheme.weight_bytes(problem) + scheme.scale_bytes(problem)
    assert stored == 512 * 1024 * bits_per_weight / 8 + more
    assert scheme.compulsory_bytes(problem) == stored + 2 * 3 * (512 + 1024)
    inputs = operands(problem, name, seed=5)
    tensors = (inputs.packed, inputs.groups.scale, inputs.groups.zero, inputs.groups.total)
    assert sum(one.nbytes for one in tensors if one is not None) == stored


# formats


@pytest.mark.parametrize("name", NAMES)
def test_parts_do_not_show(monkeypatch, name):
    whole = operands(SMALL, name, seed=5)
    monkeypatch.setattr(groups, "_CHUNK", 384)
    for one, other in zip(whole.weights, operands(SMALL, name, seed=5).weights, strict=True):
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def test_e2m1_rounds_to_the_nearest_published_value_and_ties_to_the_even_code():
    x = torch.cat((torch.arange(-8, 8, 1 / 64), torch.tensor([-0.0, 1e-30, 100.0])))
    found = groups.e2m1(x)
    table = torch.tensor(E2M1)
    for value, code in zip(x.tolist(), found.tolist(), strict=True):
        distance = (table - abs(value)).abs()
        nearest = [i for i in range(8) if distance[i] == distance.min()]
        expected = nearest[0] if len(nearest) == 1 else next(i for i in nearest if i % 2 == 0)
        assert code & 7 == expected, value
        assert code >> 3 == int(np.signbit(value)), value


def test_mxfp4_scales_are_floor_log2_amax_less_2_and_torch_reads_them():
    """OCP Microscaling Formats 1.0, section 6.3; emax of e2m1 is 2."""
    x = torch.randn(64, 32, generator=torch.Generator().manual_seed(1)) * 2.0 ** torch.arange(-32, 32)[:, None]
    x[3] = 0
    packed, scales = groups.quantize_mxfp4(x.view(-1))
    expected = torch.exp2(torch.floor(torch.log2(x.double().abs().amax(1))) - 2)
    assert scales.scale.dtype == torch.float8_e8m0fnu
    assert (scales.scale.double() == expected)[torch.arange(64) != 3].all()
    assert not groups.unpack(packed, 2048).view(64, 32)[3].bitwise_and(7).any()


def test_nvfp4_uses_all_of_e4m3_and_torch_reads_it():
    x = torch.randn(4096, generator=torch.Generator().manual_seed(2))
    packed, scales = groups.quantize_nvfp4(x)
    amax = x.view(-1, 16).abs().amax(1)
    assert scales.total.item() == pytest.approx(x.abs().max().item() / (6 * 448), rel=1e-6)
    assert scales.scale.float().max() == 448
    assert torch.equal(scales.scale, (amax / 6 / scales.total).to(torch.float8_e4m3fn))
    sizes = torch.tensor(E2M1)[groups.unpack(packed, 4096).long() & 7].view(-1, 16)
    assert (sizes.amax(1) >= 4).all(), "the largest of a group is next to the largest code"


@pytest.mark.parametrize("zero_point", [False, True])
def test_int4_errs_by_half_a_step(zero_point):
    x = torch.randn(100, 64, generator=torch.Generator().manual_seed(3)) + torch.randn(
        100, 1, generator=torch.Generator().manual_seed(4)
    )
    packed, scales = groups.quantize_int4(x.view(-1), 64, zero_point, torch.float16)
    scale, zero = scales.rebuild()
    zero = torch.zeros(100) if zero is None else zero
    values = (groups.unpack(packed, 6400).view(100, 64).float() - 8 - zero[:, None]) * scale[:, None]
    # of half a step, zero points are off by as much once more; symmetric codes end at 7 and not at 8
    assert ((values - x).abs() <= scale[:, None] * 1.01).all()
    spread = x.amax(1).clamp(min=0) - x.amin(1).clamp(max=0) if zero_point else 2 * x.abs().amax(1)
    assert torch.equal(scales.scale, (spread / 15).half())
    assert not zero_point or zero.unique().numel() > 5


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_decoded_by_definition(name):
    inputs = operands(SMALL, name, seed=5)
    expected = weight_of(inputs)
    # the product of both scales of NVFP4 is rounded to fp32, all else is exact
    assert np.allclose(inputs.dequantized(torch.float32).numpy(), expected, rtol=2e-7 * (name == "nvfp4"), atol=0)
    assert np.allclose(inputs.reference()[0].numpy(), inputs.x.double().numpy() @ expected.T, rtol=1e-6, atol=1e-6)


# checkpoints


def nibbles(words):
    """Eight codes of each int32, lowest bits first, in a new last dimension."""
    return (words.numpy().view(np.uint32)[..., None] >> (4 * np.arange(8, dtype=np.uint32))) & 15


@pytest.mark.parametrize("name", ["int4-g64-zp", "int4-g64"])
def test_gptq_checkpoints_read_as_autogptq_reads_them(name):
    """AutoGPTQ, QuantLinear of qlinear_cuda_old.py: words along K (qweight) and N (qzeros); zero + 1 in format v1."""
    inputs = operands(SMALL, name, seed=5)
    n, k = inputs.problem.N, inputs.problem.K
    qweight, qzeros, scales = groups.to_gptq(inputs.packed, inputs.groups, (n, k))
    assert (qweight.shape, qzeros.shape, scales.shape) == ((k // 8, n), (k // 64, n // 8), (k // 64, n))
    q = nibbles(qweight).transpose(0, 2, 1).reshape(k, n).astype(np.float64)
    zero = (nibbles(qzeros).reshape(k // 64, n) + 1) & 15
    w = (q - zero.repeat(64, axis=0)) * scales.double().numpy().repeat(64, axis=0)
    assert (weight_of(inputs) == w.T).all()


def test_awq_checkpoints_read_as_autoawq_reads_them():
    """AutoAWQ, awq/utils/packing_utils.py: words along N, whose nibbles are columns 0 4 1 5 2 6 3 7 when reordered."""
    inputs = operands(SMALL, "int4-g128-zp", seed=5)
    n, k = inputs.problem.N, inputs.problem.K
    qweight, qzeros, scales = groups.to_awq(inputs.packed, inputs.groups, (n, k))
    assert (qweight.shape, qzeros.shape, scales.shape) == ((k, n // 8), (k // 128, n // 8), (k // 128, n))
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    q, zero = (nibbles(words)[..., order].reshape(-1, n).astype(np.float64) for words in (qweight, qzeros))
    w = (q - zero.repeat(128, axis=0)) * scales.double().numpy().repeat(128, axis=0)
    assert (weight_of(inputs) == w.T).all()


# kernels


@interpreted
def test_kernels_compute_the_product_of_the_same_bits():
    """Whole tiles; M and N tails with a divided K; K not a multiple of the tile, and an odd number of groups."""
    lines = (("simt_4bit", (2, 8, 256), 1), ("mma_4bit", (3, 3, 256), 2), ("simt_4bit", (1, 5, 160), 1))
    schemes = (("int4-g32", "fp16"), ("int4-g32-zp", "bf16"), ("mxfp4", "bf16"), ("nvfp4", "fp16"))
    for i, (name, dtype) in enumerate(schemes):
        for j, (kernel, sizes, split) in enumerate(lines):
            check_fused(kernel, sizes, name, dtype, ISAS[(i + j) % 2], split, again=split > 1)
    check_fused("mma_4bit", (2, 3, 256), "int4-g128-zp", "fp16", "ptx_emulated")
