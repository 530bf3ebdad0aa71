"""The Triton providers: their configurations; on a GPU, their results."""

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels.fourbit.triton_configs import FILL, tile_configs
from rooflens.kernels.jit.tiles import MAX_SPLIT
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.fourbit import FourBit

from .devices import gpu
from .synthetic import operands

NF4 = FourBit("nf4", 64, DType.BF16)


def test_k_is_divided_until_the_grid_fills_the_device():
    def split(n, k, units):
        return tile_configs("simt_4bit", Problem(1, n, k), NF4, gpu(compute_units=units))[0].split_k

    assert split(512, 4096, 1) == 1, "64 programs are more than enough for one unit"
    assert split(512, 4096, 132) == 2, "64 programs for 132 units, four tiles of K: two each"
    assert FILL * 132 > 64 * 2, "so it would have been divided further if K were longer"
    assert split(512, 65536, 132) == MAX_SPLIT
    assert split(28672, 8192, 132) == 1


def test_undivided_kernel_is_always_a_candidate():
    tiles = tile_configs("simt_4bit", Problem(1, 512, 65536), NF4, gpu())
    assert {tile.split_k for tile in tiles} >= {1, MAX_SPLIT}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DType)
def test_dequantize_on_the_gpu(dtype):
    from rooflens.kernels.fourbit.triton.dequantize import dequantize_call
    from rooflens.kernels.jit.call import compile_calls

    for n, k, name in ((512, 1024, "nf4-g64"), (7, 333, "fp4-g32"), (64, 4096, "nf4-g4096")):
        inputs = operands(Problem(1, n, k), name, dtype, device=find_device("cuda"), seed=5)
        out = torch.full((n, k), torch.nan, dtype=inputs.dtype, device=inputs.x.device)
        compile_calls([dequantize_call(inputs, out)]).run()
        assert torch.equal(out, inputs.dequantized()), "code * absmax in fp32, rounded once: to the bit"


def test_each_m_has_the_tile_of_its_own_range() -> None:
    def rows(kernel: str, m: int) -> int:
        return tile_configs(kernel, Problem(m, 4096, 4096), NF4, gpu())[0].block_m

    assert [rows("mma_4bit", m) for m in range(1, 70)] == [16] * 16 + [32] * 16 + [64] * 37
    assert [rows("simt_4bit", m) for m in range(1, 10)] == [1, 2, 4, 4, 8, 8, 8, 8, 8]
