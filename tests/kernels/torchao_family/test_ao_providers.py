"""Providers of the torchao family: the tiles that they begin with."""

from rooflens.kernels.torchao import triton_providers
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.torchao import AoGemm

from ..devices import H200

SCHEME = AoGemm("128x128", DType.BF16)


def test_default_tiles_fill_the_device():
    def default(m, n):
        config = triton_providers.GEMM.candidates(Problem(m, n, 512), SCHEME, H200)[0]
        return config["BLOCK_M"], config["BLOCK_N"]

    assert default(16640, 5120) == (128, 128)
    assert default(1024, 1792) == (64, 128), "112 tiles of 128 x 128 on 132 compute units"
    assert default(16, 64) == (64, 64)
    (unaligned,) = triton_providers.GEMM.candidates(Problem(16640, 5120, 520), SCHEME, H200)
    assert (unaligned["BLOCK_M"], unaligned["BLOCK_N"]) == (64, 32)
