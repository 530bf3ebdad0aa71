"""The A16W8 providers: what they support and why not, and their results."""

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels.a16w8 import blas, dequantize
from rooflens.kernels.a16w8.triton_configs import native_configs, transposed_configs
from rooflens.kernels.a16w8.triton_providers import STOCK_TRITON, TUNED
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Problem

from ..devices import CPU, gpu
from ..synthetic import scheme_of

SCHEMES = tuple(f"a16w8-128x128{more}" for more in ("", "-bias", "-prequant", "-prequant-bias"))
SMALL = Problem(32, 512, 128, B=16)
PLAIN = scheme_of("a16w8-128x128")
GPUS = ("sm89", "sm90", "sm100", "sm120", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201")


@pytest.mark.parametrize("arch", GPUS)
@pytest.mark.parametrize("name", SCHEMES)
def test_configurations(arch, name):
    for m in (1, 2, 15, 16, 17, 32, 33, 64, 65, 128, 129, 8192):
        problem = Problem(m, 512, 128, B=16)
        for configs in (native_configs, transposed_configs):
            tiles = configs(problem, scheme_of(name), gpu(arch))
            assert tiles
            assert tiles[0].block_m == 16 or m > 16, "the default of a few rows is the smallest tile"
            assert tiles[0].block_m < 2 * max(m, 16), "the default tile is mostly full"
            for tile in tiles:
                assert 128 % tile.block_k == 0
                assert (tile.block_k, tile.scaling) == (128, "parts") or "prequant" not in name


def test_the_stock_configuration_is_the_upstream_one():
    published = {
        "BLOCK_M": 64, "BLOCK_N": 256, "BLOCK_K": 128, "GROUP_M": 8, "num_warps": 8, "num_stages": 2,
    }  # fmt: skip
    for m in (1, 8192):
        (nvidia,) = STOCK_TRITON.candidates(Problem(m, 512, 128), PLAIN, gpu())
        (amd,) = STOCK_TRITON.candidates(Problem(m, 512, 128), PLAIN, gpu("gfx950"))
        assert published.items() <= nvidia.items()
        assert (published | {"waves_per_eu": 2, "matrix_instr_nonkdim": 16}).items() <= amd.items()
        assert "waves_per_eu" not in nvidia, "the NVIDIA backend knows no such option"


def test_where_triton_has_no_fp8_torch_dequantizes():
    names = {arch: blas.DEQUANT_BMM.candidates(SMALL, PLAIN, gpu(arch))[0]["dequantize"] for arch in ("sm80", "sm90")}
    assert names == {"sm80": "torch", "sm90": "triton"}
    assert blas.DEQUANT_BMM.builds(SMALL, PLAIN, gpu("sm80"), {"dequantize": "torch"}) == ()


@pytest.mark.gpu
def test_dequantization_is_exact_on_the_gpu():
    device = find_device("cuda")
    inputs = make_inputs(Problem(1, 150, 300, B=2), PLAIN, device, seed=1)
    if blas.DEQUANT_BMM.candidates(inputs.problem, inputs.scheme, device)[0]["dequantize"] != "triton":
        pytest.skip(f"Triton has no FP8 on {device.arch}")
    from rooflens.kernels.a16w8.triton.dequantize import dequantize_call
    from rooflens.kernels.jit.call import compile_calls

    out = torch.full(inputs.q.shape, torch.nan, dtype=inputs.dtype, device=inputs.q.device)
    compile_calls([dequantize_call(inputs, out)]).run()
    assert torch.equal(out, inputs.dequantized())


@pytest.mark.gpu
def test_offsets_beyond_32_bits_on_the_gpu():
    """Y has more than 2^31 elements: its last batch entry lies beyond every 32-bit offset."""
    device = find_device("cuda")
    problem = Problem(8192, 8192, 128, B=33)
    if device.memory_bytes < 64 << 30:
        pytest.skip("needs 64 GiB of device memory")
    inputs = make_inputs(problem, PLAIN, device, seed=1)
    launch = TUNED.prepare(inputs)
    launch()
    weight = inputs.q[-1].double() * inputs.scale[-1].double().repeat_interleave(128, 0).repeat_interleave(128, 1)
    assert not measure(launch.output[-1], inputs.x[-1].double() @ weight.t()).failure(inputs.scheme)


@pytest.mark.parametrize("form", ("torch", "bits"))
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16, torch.float32))
def test_every_dequantizer_is_exact(form, dtype):
    """All 254 finite values, both zeros included, under scales that differ from block to block; padded blocks too."""
    inputs = make_inputs(Problem(1, 150, 300, B=5), PLAIN, CPU, seed=1)
    octets = torch.arange(256, dtype=torch.uint8)
    octets = octets[(octets & 0x7F) != 0x7F]
    inputs.q.view(torch.uint8).copy_(octets.repeat(5 * 150 * 300 // 254 + 1)[: 5 * 150 * 300].view(5, 150, 300))
    made = dequantize.prepare(form, inputs, dtype)
    made.operands.fill_(torch.nan)
    made.fill()
    made.fill()
    wide = inputs.scale.repeat_interleave(128, 1)[:, :150].repeat_interleave(128, 2)[:, :, :300]
    assert torch.equal(made.operands, (inputs.q.float() * wide).to(dtype))
