"""cuda_fp8 without a GPU: its very source on emulated threads, and what it refuses.

On a GPU, the tests of all providers run it; that of e4m3 is tested with `cuda_ao`, which has the same machine code.
"""

import re

import pytest
import torch
from rooflens.kernels.fp8train.cuda_provider import CUDA_FP8, CudaFp8
from rooflens.kernels.fp8train.providers import SPECIALISED
from rooflens.kernels.inputs import make_inputs
from rooflens.plugins.isa.compiled.binary import disassembly
from rooflens.shapes.problem import Pass, Problem

from ..checks import check_launch
from ..cuda_emulation import machine_code, moved_by, needs_compiler, needs_nvrtc, on_this_cpu, recorded
from ..devices import cpu, gpu
from ..interpreter import interpreted
from ..synthetic import operands, scheme_of

FP8, GIVEN = "fp8-blockwise", "fp8-blockwise-prequantized"
HYBRID, GIVEN_HYBRID = f"{FP8}-hybrid", f"{GIVEN}-hybrid"
FLOOR_DB = 54
"""Rounding the output to bf16 leaves 55 dB."""


@pytest.fixture(autouse=True)
def plans(monkeypatch):
    return recorded(monkeypatch, CudaFp8)


# M, N, K; stages, blocks of threads
CASES = (
    ((128, 256, 128), (2, 1)),
    ((200, 272, 400), (3, 1)),  # all sizes end within a tile; the block takes several
    ((300, 528, 272), (2, 2)),
    ((1, 16, 16), (3, 132)),
    ((1200, 256, 144), (2, 3)),  # more rows of tiles than a group has
    ((1024, 16, 16), (2, 3)),  # no group comes after the last tile
    ((130, 144, 1040), (2, 1)),  # stages are used several times
    ((256, 272, 1024), (3, 1)),  # scales of four steps at a time, several times
    ((5, 16, 528), (2, 1)),  # and where the last row of scales begins at 16 bytes, but has one more
)


@needs_compiler
@pytest.mark.parametrize(("sizes", "launch"), CASES)
def test_products(sizes, launch, plans):
    problem, scheme = Problem(*sizes, pass_=Pass.FWD), scheme_of(GIVEN)
    config = dict(zip(("STAGES", "BLOCKS"), launch, strict=True))
    inputs = make_inputs(problem, scheme, cpu("sm90"), 5)
    check_launch(CUDA_FP8, inputs, config, times=1, least_db=FLOOR_DB, again=False)
    (plan,) = plans
    traffic = CUDA_FP8.moved_bytes(problem, scheme, config), CUDA_FP8.working_set_bytes(problem, scheme, config)
    assert traffic == (moved_by(plan), moved_by(plan))


@needs_compiler
def test_tiles_are_apart():
    """What is not finite in a row of X is not in another tile of the same block."""
    problem = Problem(200, 256, 256, pass_=Pass.FWD)
    inputs = operands(problem, GIVEN, device=cpu("sm90"), seed=5)
    inputs.given["x_row"].data.view(torch.uint8)[:128] = 0x7F
    launch = CUDA_FP8.prepare(inputs, {"STAGES": 2, "BLOCKS": 1})
    (output,) = launch.outputs
    assert output[:128].isnan().all()
    assert output[128:].isfinite().all()


@needs_compiler
@pytest.mark.parametrize(
    ("pass_", "scheme", "kernels"),
    [
        ("fwd", HYBRID, ["quantize_kernel", "quantize_weight_kernel", "matmul_fp8"]),
        ("dgrad", GIVEN_HYBRID, ["transpose_kernel", "matmul_fp8"]),
        ("wgrad", GIVEN, ["transpose_kernel", "transpose_kernel", "matmul_fp8"]),
        ("wgrad", GIVEN_HYBRID, ["transpose_kernel", "transpose_kernel", "matmul_fp8"]),
        ("bwd", FP8, ["quantize_kernel", "matmul_fp8", "matmul_fp8"]),
        pytest.param(
            *("step", HYBRID, ["quantize_kernel", "quantize_weight_kernel", "quantize_kernel", *["matmul_fp8"] * 3]),
            marks=pytest.mark.slow,
        ),
    ],
)
@interpreted
def test_passes(pass_, scheme, kernels):
    """Operands of the quantizers, in the order in which these write scales, and of the forward pass."""
    CudaFp8.compiled = on_this_cpu
    inputs = operands(Problem(144, 272, 400, pass_=Pass(pass_)), scheme, device=cpu("sm90"), seed=5)
    launch = check_launch(CUDA_FP8, inputs, None, times=1, least_db=FLOOR_DB, again=False)
    assert list(launch.kernels) == kernels


@needs_nvrtc
@pytest.mark.parametrize(
    ("constants", "types"),
    [(("BY_ROW=0", "A_E5M2=1"), "E5M2.E4M3"), (("BY_ROW=1", "A_E5M2=1", "B_E5M2=1"), "E5M2.E5M2")],
)
def test_machine_code_of_gradients_in_e5m2(constants, types):
    """Of dgrad, and of wgrad: the operands have their types, of which the emulator does not see the instructions."""
    given = dict(one.split("=") for one in (*constants, "TILES=8", "GROUPED=0", "STAGES=3"))
    cubin, _, spilled = machine_code(CUDA_FP8, given)
    assert spilled == 0
    code = disassembly(cubin)
    assert len(re.findall(rf"QGMMA\S*\.{types}", code)) == len(re.findall("QGMMA", code)) > 0


@pytest.mark.parametrize("scheme", [FP8, GIVEN])
@pytest.mark.parametrize("pass_", Pass)
def test_traffic_is_that_of_the_same_operands_in_triton(pass_, scheme):
    problem, parsed, sm90 = Problem(144, 272, 400, pass_=pass_), scheme_of(scheme), gpu("sm90")
    (config, *_), own = SPECIALISED.candidates(problem, parsed, sm90), {}
    assert CUDA_FP8.moved_bytes(problem, parsed, own) == SPECIALISED.moved_bytes(problem, parsed, config)
    assert CUDA_FP8.working_set_bytes(problem, parsed, own) == SPECIALISED.working_set_bytes(problem, parsed, config)
