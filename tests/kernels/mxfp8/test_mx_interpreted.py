"""Every MX-FP8 kernel against an fp64 product of the same bits, in Triton's interpreter (child processes)."""

import random
from pathlib import Path

import pytest
from rooflens.kernels.mxfp8.triton_configs import parts
from rooflens.shapes.problem import Problem

from .. import interpreter

HERE = Path(__file__).parent


def interpret(cases):
    return interpreter.interpret(HERE / "mx_interpret_child.py", cases)


NAMES = {
    "diagonal": "diagonal_mx_kernel",
    "vector": "gemv_mx_kernel",
    "bf16": "mma_mx_kernel",
    "scaled": "scaled_mx_kernel",
    None: "scaled_gemm_kernel",
}


def gemm(kernel, sizes, tile, split=1, **more):
    config = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
    config |= {"SPLIT_K": split, "num_warps": 4, "num_stages": 2}
    config |= {"kernel": kernel} if kernel else {}
    return {"step": "gemm", "config": config, **dict(zip("MNK", sizes, strict=True)), **more}


def kernel_cases(kernel):
    tile_m = 2 if kernel in ("diagonal", "vector") else 16
    return [
        gemm(kernel, (1, 16, 256), (tile_m, 16, 128)),  # M=1, whole tiles
        gemm(kernel, (3, 21, 256), (tile_m, 16, 128), split=2, launches=2),  # tails in M and N, K divided
        gemm(kernel, (2, 7, 224), (tile_m, 16, 128)),  # K is not whole tiles
        gemm(kernel, (17, 33, 416), (16, 32, 64), split=4, launches=2),  # several tiles, an odd K tail
        gemm(kernel, (2, 5, 32), (tile_m, 16, 64)),  # one block
    ]


def random_cases():
    draw = random.Random(21)
    cases = []
    for _ in range(10):
        kernel = draw.choice(KERNELS)
        block_k = draw.choice((64, 128, 256))
        problem = Problem(draw.randint(1, 12), draw.randint(1, 40), 32 * draw.randint(1, 20))
        block_m = draw.choice((1, 2, 4, 8)) if kernel in ("diagonal", "vector") else 16
        split = parts(problem, block_k, draw.choice((1, 2, 3, 4)))
        sizes = (problem.M, problem.N, problem.K)
        cases.append(gemm(kernel, sizes, (block_m, 16, block_k), split=split, seed=draw.randint(0, 1000)))
    return cases


KERNELS = ("diagonal", "vector", "bf16", "scaled")
CASES = {
    **{kernel: kernel_cases(kernel) for kernel in KERNELS},
    "stock": [gemm(None, (5, 20, 256), (16, 16, 128)), gemm(None, (33, 40, 128), (32, 16, 128))],
    "random": random_cases(),
}


@pytest.mark.parametrize("name", [*KERNELS, "stock", pytest.param("random", marks=pytest.mark.slow)])
def test_kernels_compute_the_product_of_the_same_bits(name):
    for case, result in zip(CASES[name], interpret(CASES[name]), strict=True):
        assert result["beyond_rounding"] == 0, (case, result)
        assert result["snr_db"] > 50, (case, result)
        assert result["kernels"] == [NAMES[case["config"].get("kernel")]]


def test_quantizer_and_its_inverse_are_exact():
    """Native narrowing is the interpreter's conversion, which `interpreter_repairs` replaces by torch's."""
    cases = [
        {"step": "quantize", "rows": 40, "K": 96, "rule": rule, "native": native, "seed": seed}
        for seed, rule in enumerate(("floor", "ceil", "even", "rceil"))
        for native in (True, False)
    ]
    cases.append(cases[-1] | {"rows": 16, "K": 512})  # whole tiles
    for case, result in zip(cases, interpret(cases), strict=True):
        assert result == {"payload": 0, "scales": 0, "not_a_number": 1, "decoded": 0}, (case, result)
