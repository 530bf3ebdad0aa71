"""How many copies of its operands a cell rotates among: as many bytes as every launch surely reads must pass."""

import dataclasses

import pytest
from rooflens.harness.machine.device import find_device
from rooflens.harness.plan.plan import Cell
from rooflens.harness.worker.bench import Bench
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.shapeset import Shape
from rooflens.shapes.suite import Cache

LLC = 60 << 20
DEVICE = dataclasses.replace(find_device("cpu"), llc_bytes=LLC, memory_bytes=1 << 40)

MOE = Problem(4, 1536, 6144, op=Op.MOE_GEMM, E=32, top_k=4)


def cell(problem, scheme, cache=Cache.COLD):
    shape = Shape("model", "layer", problem.N, problem.K)
    return Cell("suite", shape, problem, parse_scheme(scheme, DType.BF16), "provider", cache)


@pytest.mark.parametrize(
    ("problem", "scheme", "bytes_each"),
    [
        (Problem(1, 4096, 4096), "mxfp8-rceil", 4096 * 4096 + 4097 * 128),
        (Problem(256, 1, 4096, op=Op.QUANTIZE), "mxfp8-quant-rceil", 2 * 256 * 4096),
        # X by columns in FP8, and dY in bf16: there is no weight to read, and scales are the least of it
        (Problem(8192, 4096, 4096, pass_=Pass.WGRAD), "fp8-blockwise", 3 * 8192 * 4096),
        (Problem(8192, 4096, 4096, pass_=Pass.WGRAD), "fp8-blockwise-prequantized", 2 * 8192 * 4096),
        (Problem(8192, 4096, 4096, pass_=Pass.DGRAD), "fp8-blockwise", 4096 * 4096 + 4 * 32 * 32),
        # 13 of 32 experts, whatever the seed; scales of theirs and of X
        (MOE, "mxfp8-moe-rceil", 13 * 1536 * 6144 * 33 // 32 + 4 * 6144 // 32),
    ],
)
def test_rotation_counts_what_every_launch_reads(problem, scheme, bytes_each):
    bench = Bench(DEVICE, Protocol(cold_by="rotation"))
    assert bench.copies(cell(problem, scheme)) == 1 + -(-2 * LLC // bytes_each)
    assert bench.copies(cell(problem, scheme, Cache.WARM)) == 1


def test_the_gradient_of_a_weight_takes_few_copies():
    """Of 100 MB each, not of the 1 MiB that its scales are."""
    wgrad = cell(Problem(8192, 4096, 4096, pass_=Pass.WGRAD), "fp8-blockwise")
    assert Bench(DEVICE, Protocol(cold_by="rotation")).copies(wgrad) == 3
