"""cuda_a16w8 without a GPU: its very source on emulated threads, its machine code, and what it refuses.

On a GPU, the tests of all providers run it, with the larger problems of contract_cases.py.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rooflens.kernels.a16w8.cuda_provider import CUDA_A16W8
from rooflens.kernels.a16w8.inputs import A16W8Inputs
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType

from .cuda_emulation import emulate, machine_code, needs_compiler, needs_nvrtc
from .devices import CPU, H200
from .synthetic import operands, scheme_of

PLAIN, BIAS = "a16w8-128x128", "a16w8-128x128-bias"

# B, M, N, K; rows of X in a tile, stages, blocks of threads; exponents of what scales of each matrix are multiplied by
CASES = (
    (PLAIN, DType.BF16, (1, 256, 128, 128), (256, 2, 1), (-30,)),
    (BIAS, DType.FP16, (2, 300, 136, 208), (256, 3, 3), (0, 0)),  # M, N and K end within a tile and a stage
    (BIAS, DType.BF16, (1, 260, 200, 400), (128, 3, 1), (0,)),  # a block takes several tiles
    (PLAIN, DType.BF16, (3, 130, 264, 144), (128, 2, 4), (20, 0, -30)),
    (PLAIN, DType.FP16, (2, 130, 136, 144), (128, 2, 2), (3, -12)),
    (PLAIN, DType.BF16, (1, 300, 264, 128), (128, 8, 1), (0,)),  # stages of the next tile do not wait for this one's
    (PLAIN, DType.BF16, (1, 1300, 264, 16), (128, 2, 5), (0,)),  # more rows of tiles than a group has
)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("scheme", "dtype", "sizes", "launch", "exponents"), CASES)
def test_emulated(scheme, dtype, sizes, launch, exponents, tmp_path):
    kind, (b, m, n, k) = scheme_of(scheme, dtype), sizes
    drawn = make_inputs(Problem(m, n, k, B=b), kind, CPU, seed=5)
    inputs = replace(drawn, scale=drawn.scale * 2.0 ** torch.tensor(exponents)[:, None, None])
    for own, exact in zip(emulated(inputs, launch, tmp_path), inputs.reference()[0], strict=True):
        found = measure(own, exact)
        assert not found.failure(kind), found
        assert found.snr_db > (64 if dtype is DType.FP16 else 46)  # a rounded scale alone may leave 66 and 48


@needs_compiler
@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP16])
def test_every_payload(dtype, tmp_path):
    """All bytes but NaN, at both places of a pair, against 1: exact, where scales of a tile are far apart, too."""
    drawn = operands(Problem(65, 256, 256), PLAIN, dtype, seed=5)
    payloads = torch.tensor([byte if byte & 0x7F != 0x7F else 0 for byte in range(256)], dtype=torch.uint8)
    q, x = torch.zeros(256, 256, dtype=torch.uint8), torch.zeros_like(drawn.x)
    q[:, 136], q[:, 137], x[0, 0, 136], x[0, 1, 137] = payloads, payloads.flip(0), 1, 1
    scale = torch.tensor([[1, 0.75 * 2.0**-14], [0, 0.75]])
    inputs = replace(drawn, q=q.view(torch.float8_e4m3fn)[None], x=x, scale=scale[None])
    output = emulated(inputs, (128, 2, 2), tmp_path)
    expected = inputs.q[0, :, 136:138].double() * scale[:, 1].repeat_interleave(128)[:, None].double()
    assert output[0, :2].equal(expected.T.to(x.dtype))


def emulated(inputs: A16W8Inputs, launch: tuple[int, int, int], folder: Path) -> torch.Tensor:
    """Return what emulated threads compute, with these rows of X in a tile, stages and blocks."""
    (output,) = inputs.empty_outputs()
    output.fill_(torch.nan)
    plan = CUDA_A16W8.plan(inputs, output, dict(zip(("COLUMNS", "STAGES", "BLOCKS"), launch, strict=True)))
    emulate(CUDA_A16W8, plan, folder)
    return output


@needs_nvrtc
@pytest.mark.parametrize("fp16", [0, 1])
@pytest.mark.parametrize("columns", [128, 256])
def test_machine_code(columns, fp16):
    """Products run one after another without waits between, and no registers are spilled."""
    offered = CUDA_A16W8.candidates(Problem(8192, 8192, 8192), scheme_of("a16w8-128x128"), H200)
    (config,) = (one for one in offered if one["COLUMNS"] == columns)
    constants = {"COLUMNS": columns, "STAGES": config["STAGES"], "FP16": fp16}
    assert machine_code(CUDA_A16W8, constants)[1:] == (168, 0)
