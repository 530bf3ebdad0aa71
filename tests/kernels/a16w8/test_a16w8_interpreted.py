"""The A16W8 kernels against an fp64 product, in Triton's interpreter (its FP8 casts are repaired)."""

from dataclasses import replace

import torch
from rooflens.kernels.a16w8.quantize import LEAST_AMAX, dequantize
from rooflens.kernels.a16w8.triton.dequantize import dequantize_call
from rooflens.kernels.a16w8.triton_configs import TileConfig
from rooflens.kernels.a16w8.triton_providers import KERNEL, STOCK_TRITON, TUNED, WRAPPER
from rooflens.kernels.jit.call import compile_calls
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Problem

from ..checks import check_launch
from ..devices import cpu
from ..interpreter import interpreted
from ..synthetic import operands

PARTS, WEIGHTS = "parts", "weights"


def inputs_of(sizes, scheme, arch="sm90", dtype="bf16", seed=1):
    return operands(Problem(*sizes), f"a16w8-128x128{scheme}", dtype, device=cpu(arch), seed=seed)


def prequantized_product(inputs):
    """Y in fp64 of what the kernel multiplies: X rounded to FP8 per row and 128 columns."""
    depth = inputs.problem.K
    groups = torch.nn.functional.pad(inputs.x.float(), (0, -depth % 128)).unflatten(-1, (-1, 128))
    amax = groups.abs().amax(dim=-1, keepdim=True).clamp_(min=LEAST_AMAX)
    largest = torch.finfo(inputs.q.dtype).max
    inverse = torch.full_like(amax, largest) / amax  # `largest / amax` would be a reciprocal times `largest`
    q = (groups * inverse).clamp_(-largest, largest).to(inputs.q.dtype)
    x = (q.double() * (amax / largest).double()).flatten(-2)[..., :depth]
    product = torch.bmm(x, dequantize(inputs.q, inputs.scale, torch.float64).transpose(1, 2))
    return product if inputs.bias is None else product + inputs.bias.double().unsqueeze(1)


def check(provider, sizes, scheme, tile, batch_inner=True, **given):
    """`sizes`: M, N, K, B; `tile`: BLOCK_M, BLOCK_N, BLOCK_K, swap, scaling."""
    inputs = inputs_of(sizes, scheme, **given)
    config = replace(TileConfig(*tile[:3], 4, 1, *tile[3:]), batch_inner=batch_inner).as_json()
    launch = check_launch(provider, inputs, config, times=1, again=False)
    assert launch.kernels[-1] == "a16w8_kernel"
    if inputs.scheme.prequant:
        # Rounding of the output alone: bf16 55 dB, fp16 73 dB; an element of X rounded the other way costs little.
        assert measure(launch.output, prequantized_product(inputs)).snr_db > 48, (sizes, scheme, tile)


@interpreted
def test_native_layout():
    """Several batch entries; M, N, K tails; two groups of rows in a tile; a step of half a group."""
    check(TUNED, (1, 64, 128, 3), "", (16, 32, 128, True, PARTS))
    check(TUNED, (5, 150, 200, 2), "-bias", (16, 32, 128, True, PARTS), dtype="fp16", batch_inner=False)
    check(TUNED, (18, 272, 300, 2), "", (16, 256, 64, True, WEIGHTS), dtype="fp16")
    check(TUNED, (18, 272, 300, 2), "-bias", (16, 256, 64, False, WEIGHTS))
    check(TUNED, (18, 272, 300, 1), "", (16, 256, 128, False, PARTS))
    check(TUNED, (3, 140, 260, 2), "-bias", (16, 32, 64, True, WEIGHTS))
    check(TUNED, (3, 140, 260, 2), "", (16, 32, 64, True, WEIGHTS), dtype="fp16")
    check(TUNED, (17, 300, 132, 1), "", (16, 256, 32, False, WEIGHTS))
    check(TUNED, (17, 160, 300, 2), "", (16, 32, 128, False, PARTS), arch="gfx942", dtype="fp16")


@interpreted
def test_prequantized():
    check(TUNED, (1, 64, 128, 2), "-prequant", (16, 32, 128, True, PARTS))
    check(TUNED, (5, 150, 200, 2), "-prequant-bias", (16, 64, 128, False, PARTS), dtype="fp16")
    check(TUNED, (18, 272, 300, 1), "-prequant", (16, 256, 128, True, PARTS))
    check(TUNED, (7, 140, 300, 2), "-prequant-bias", (16, 64, 128, True, PARTS), arch="gfx942")


@interpreted
def test_transposed_layout():
    check(KERNEL, (1, 64, 128, 3), "", (16, 32, 128, False, PARTS))
    check(KERNEL, (18, 272, 300, 2), "-bias", (16, 256, 64, False, WEIGHTS), dtype="fp16")
    check(WRAPPER, (5, 150, 200, 2), "", (16, 32, 64, True, WEIGHTS))
    check(KERNEL, (5, 300, 200, 2), "", (16, 256, 128, False, WEIGHTS))
    check(WRAPPER, (7, 140, 300, 2), "-prequant-bias", (16, 64, 128, False, PARTS), arch="gfx942")
    check(STOCK_TRITON, (66, 300, 140, 2), "-bias", (64, 256, 128, False, PARTS))
    check(STOCK_TRITON, (66, 300, 140, 1), "-prequant", (64, 256, 128, False, PARTS), dtype="fp16")


@interpreted
def test_dequantize_is_exact():
    """Payload * scale in fp32, rounded once: to the bit."""
    for sizes, arch, dtype in (
        ((1, 32, 128, 1), "sm90", "bf16"),
        ((1, 150, 300, 2), "gfx942", "fp16"),
        ((1, 33, 7, 3), "sm90", "fp16"),
    ):
        inputs = inputs_of(sizes, "", arch, dtype, seed=3)
        out = torch.full(inputs.q.shape, torch.nan, dtype=inputs.dtype)
        compile_calls([dequantize_call(inputs, out)]).run()
        assert torch.equal(out, inputs.dequantized()), sizes
