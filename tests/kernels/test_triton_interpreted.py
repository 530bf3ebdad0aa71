"""Every Triton kernel of the family against an fp64 product, in Triton's interpreter."""

import numpy as np
import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels.fourbit import triton_providers
from rooflens.kernels.fourbit.triton.dequantize import dequantize_call
from rooflens.kernels.jit.call import compile_calls
from rooflens.kernels.jit.tiles import Tile
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType

from . import emulate_isa, triton_probes
from .checks import check_launch
from .interpreter import interpreted
from .synthetic import operands

ISAS = ("ptx_emulated", "gcn_emulated")
FUSED = ("simt_4bit", "gemv_4bit", "gemv_4bit_opt", "mma_4bit")
PROVIDERS = {
    "simt_4bit": triton_providers.SIMT,
    "gemv_4bit": triton_providers.GEMV,
    "gemv_4bit_opt": triton_providers.GEMV_OPT,
    "mma_4bit": triton_providers.MMA,
}


def check_fused(kernel, sizes, scheme, dtype, isa, split=1, again=False):
    rows = 1 if "gemv" in kernel else 16 if kernel == "mma_4bit" else 2
    config = Tile(rows, 4, 128, 4, 2, 1 if kernel == "gemv_4bit" else split).as_json()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_providers, "target_isa", lambda device: isa)
        launch = check_launch(PROVIDERS[kernel], operands(Problem(*sizes), scheme, dtype), config, times=1, again=again)
    assert launch.kernels == (f"{kernel}_kernel",)


# What each line adds: whole blocks; M and N tails, two launches of a divided K; K not a multiple of the tile; blocks
# that straddle rows, nested; one block for many rows; odd K (rows begin inside a byte); K not a multiple of 8;
# second-level scales that change within a tile.
LINES = (
    ((2, 8, 256), "nf4-g64", "bf16", 1),
    ((3, 3, 256), "nf4-g32-bias", "fp16", 2),
    ((1, 5, 160), "fp4-g32", "bf16", 2),
    ((2, 3, 192), "nf4-g128-nested-bias", "fp32", 1),
    ((1, 5, 288), "fp4-g4096-nested", "fp32", 4),
    ((2, 3, 133), "nf4-g32-nested", "fp16", 1),
    ((1, 3, 132), "fp4-g64-bias", "bf16", 2),
    ((1, 7, 1376), "nf4-g32-nested", "bf16", 1),
)


@pytest.mark.parametrize(
    "kernel", [pytest.param(name, marks=() if name == "mma_4bit" else pytest.mark.slow) for name in FUSED]
)
@interpreted
def test_kernel_computes_the_product_of_the_same_bits(kernel):
    for number, (sizes, scheme, dtype, split) in enumerate(LINES):
        check_fused(kernel, sizes, scheme, dtype, ISAS[number % 2], split, again=number == 1)


@interpreted
def test_stock_kernel_on_dense_weights():
    for sizes, scheme, dtype in (
        ((5, 20, 100), "nf4-g64-bias", "bf16"),
        ((33, 17, 64), "fp4-g64", "fp16"),
        ((1, 40, 33), "nf4-g32", "fp32"),
    ):
        config = Tile(16, 16, 32, 4, 2).as_json()
        launch = check_launch(
            triton_providers.STOCK_TRITON, operands(Problem(*sizes), scheme, dtype), config, times=1, again=False
        )
        assert launch.kernels == ("tiled_gemm_kernel",)


def dequantize(sizes, scheme, dtype, isa):
    """W by the kernel and by torch."""
    inputs = operands(Problem(1, *sizes), scheme, dtype)
    out = torch.full(sizes, torch.nan, dtype=inputs.dtype)
    compile_calls([dequantize_call(inputs, out, isa)]).run()
    return out, inputs.dequantized()


@interpreted
def test_dequantize_is_exact():
    """Code * absmax in fp32, rounded once: to the bit."""
    for sizes, scheme, dtype in (
        ((5, 64), "nf4-g64", "bf16"),
        ((3, 2824), "fp4-g4096", "fp16"),
        ((7, 333), "nf4-g32", "fp32"),
        ((2, 2050), "fp4-g128", "fp32"),
        *(((5, 640), name, "bf16") for name in ("int4-g128", "int4-g128-zp", "mxfp4", "nvfp4")),
    ):
        for isa in ISAS:
            assert torch.equal(*dequantize(sizes, scheme, dtype, isa)), (sizes, scheme, isa)


@interpreted
def test_dequantize_nested():
    for scheme in ("nf4-g32-nested", "fp4-g64-nested"):
        out, truth = dequantize((9, 1000), scheme, "fp32", "gcn_emulated")
        assert measure(out, truth.double()).snr_db > 130, scheme


@interpreted
def test_emulated_permute_is_the_documented_instruction():
    draw = np.random.default_rng(3)
    for isa, model, bits in (("ptx_emulated", emulate_isa.PTX["prmt.b32"], 4), ("gcn_emulated", flipped_v_perm, 8)):
        a, b = draw.integers(0, 1 << 32, (2, 128), dtype=np.uint32)
        selector = (draw.integers(0, 8, (128, 4)) << (bits * np.arange(4))).sum(1).astype(np.uint32)
        words = [torch.from_numpy(values.view(np.int32)) for values in (a, b, selector)]
        out = torch.empty_like(words[0])
        triton_probes.permute_kernel[(1,)](*words, out, BLOCK=128, ISA=isa)
        assert (out.numpy().view(np.uint32) == model(a, b, selector)).all(), isa


def flipped_v_perm(a, b, selector):
    return emulate_isa.GCN["v_perm_b32"](b, a, selector)  # S0 = b, S1 = a


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DType)
def test_dequantize_on_the_gpu(dtype):
    for n, k, name in ((512, 1024, "nf4-g64"), (7, 333, "fp4-g32"), (64, 4096, "nf4-g4096")):
        inputs = operands(Problem(1, n, k), name, dtype, device=find_device("cuda"), seed=5)
        out = torch.full((n, k), torch.nan, dtype=inputs.dtype, device=inputs.x.device)
        compile_calls([dequantize_call(inputs, out)]).run()
        assert torch.equal(out, inputs.dequantized()), "code * absmax in fp32, rounded once: to the bit"
