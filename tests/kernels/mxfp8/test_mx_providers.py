"""Providers of the MX-FP8 family: what they take, what they move, and what those that run on a CPU compute."""

import pytest
import torch
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.mxfp8 import scaled_mm
from rooflens.kernels.mxfp8.providers import GEMV, MMA, check_scales
from rooflens.kernels.mxfp8.scaled_mm import TORCH_SCALED_MM
from rooflens.kernels.mxfp8.stock import SMALL_TILE, STOCK_TRITON
from rooflens.kernels.mxfp8.triton_configs import emulated, parts
from rooflens.kernels.reference import measure_all
from rooflens.shapes.errors import RooflensError
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8 import MxFp8

from ..devices import CPU, gpu

GEMM = MxFp8("rceil", DType.BF16)
QKV = Problem(4, 2304, 6144)


def test_no_part_of_k_is_empty():
    assert parts(Problem(1, 768, 6144), 256, 16) == 12, "24 tiles of K: two each"
    assert parts(Problem(1, 768, 96), 256, 16) == 1


@pytest.mark.parametrize("arch", ["sm80", "sm90", "sm100", "sm103", "sm120", "sm121", "gfx942", "gfx950", "gfx1100"])
def test_what_is_emulated_multiplies_bf16(arch):
    assert emulated("sm100", 64, 128), "the tensor cores of sm100 want 128 rows"
    assert not emulated("sm100", 128, 16)
    for provider in (GEMV, MMA, STOCK_TRITON, SMALL_TILE):
        config = provider.candidates(QKV, GEMM, gpu(arch))[0]
        assert not (config.get("emulated") and provider in (GEMV, MMA))
        if "emulated" in config:
            expected = "bf16" if config["emulated"] else "mxfp8"
            assert provider.math_dtype(QKV, GEMM, gpu(arch)) == expected, provider.name


@pytest.mark.parametrize("arch", ["sm80", "sm90", "sm100", "gfx942", "gfx950", "gfx1100"])
@pytest.mark.parametrize(("provider", "largest"), [(GEMV, 16), (MMA, 64)])
def test_sizes_beyond_the_table_have_its_last_rows(provider, largest, arch):
    beyond = Problem(largest + 1, QKV.N, QKV.K)
    last, found = (
        provider.candidates(Problem(m, QKV.N, QKV.K), GEMM, gpu(arch))[0]["BLOCK_M"] for m in (largest, largest + 1)
    )
    assert found == last
    assert provider.math_dtype(beyond, GEMM, gpu(arch)) == provider.math_dtype(
        Problem(largest, QKV.N, QKV.K), GEMM, gpu(arch)
    )


def test_small_tiles_divide_k():
    for k in (6144, 2048, 1536, 768, 640):
        for arch in ("sm90", "gfx950"):
            for config in SMALL_TILE.candidates(Problem(64, 512, k), GEMM, gpu(arch)):
                assert config["BLOCK_M"] == 16
                assert k % config["BLOCK_K"] == 0


@pytest.mark.parametrize(("kernel", "byte"), [("bf16", 135), ("vector", 195)])
def test_scales_beyond_what_a_decode_can_represent_are_refused(kernel, byte):
    inputs = make_inputs(Problem(2, 16, 128), GEMM, CPU, 1)
    inputs.w_scale[3, 1] = byte
    with pytest.raises(RooflensError, match="takes scales up to 2\\^"):
        check_scales(inputs, kernel)


class FakeScaledMm:
    """Stands for `torch._scaled_mm`: multiplies what the operands mean; their scales are in their documented place."""

    def __init__(self, inputs):
        self.inputs, self.calls = inputs, 0

    def __call__(self, x, w, scale_x, scale_w, out_dtype):
        self.calls += 1
        assert scale_x.dtype == scale_w.dtype == torch.float8_e8m0fnu
        assert w.stride() == (1, w.shape[0]), "column-major"
        for swizzled, scales in ((scale_x, self.inputs.x_scale), (scale_w, self.inputs.w_scale)):
            flat, (rows, blocks) = swizzled.view(torch.uint8).flatten(), scales.shape
            tiles = -(-blocks // 4)  # of 128 rows x 4 blocks
            row, block = torch.meshgrid(torch.arange(rows), torch.arange(blocks), indexing="ij")
            place = (row // 128 * tiles + block // 4) * 512 + row % 32 * 16 + row // 32 % 4 * 4 + block % 4
            assert torch.equal(flat[place], scales)
            assert flat.numel() == -(-rows // 128) * tiles * 512
            assert int(flat.sum()) == int(scales.sum()), "the padding is zero"
        (truth,) = self.inputs.reference()
        return truth.to(out_dtype)


def test_scaled_mm_gets_its_scales_anew_at_every_call(monkeypatch):
    inputs = make_inputs(Problem(200, 144, 192), GEMM, CPU, 1)
    fake = FakeScaledMm(inputs)
    monkeypatch.setattr(torch, "_scaled_mm", fake)
    launch = TORCH_SCALED_MM.prepare(inputs)
    for seed in (1, 2):
        inputs.refresh_activations(seed)
        launch()
        (accuracy,) = measure_all(launch.outputs, inputs.reference())
        assert accuracy.passes(GEMM)
    assert fake.calls == 3


def test_scaled_mm_that_torch_lacks_or_refuses(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("Invalid scaling configuration\nmore lines")

    inputs = make_inputs(Problem(5, 32, 192), GEMM, CPU, 1)
    monkeypatch.setattr(torch, "_scaled_mm", refuse)
    with pytest.raises(RooflensError, match=r"refuses MX scales here: Invalid scaling configuration$"):
        TORCH_SCALED_MM.prepare(inputs)
    monkeypatch.setattr(scaled_mm, "missing_in_torch", lambda: "torch.float8_e8m0fnu")
    assert "has no torch.float8_e8m0fnu" in TORCH_SCALED_MM.supports(QKV, GEMM, gpu("sm100")).reason
