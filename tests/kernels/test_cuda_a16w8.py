"""cuda_a16w8 without a GPU: its very source on emulated threads, its machine code, and what it refuses.

On a GPU, the tests of all providers run it.
"""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from rooflens.kernels.a16w8.cuda_provider import CUDA_A16W8
from rooflens.kernels.fourbit import cpu_build
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.libraries import nvrtc
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

from .cuda_emulation import emulate
from .devices import CPU, H200, gpu

CASES = (  # B, M, N, K; rows of X in a tile, stages, blocks of threads
    ("a16w8-128x128", DType.BF16, (1, 256, 128, 128), (256, 2, 1)),
    ("a16w8-128x128-bias", DType.FP16, (2, 300, 136, 208), (256, 3, 3)),  # M, N and K end within a tile and a stage
    ("a16w8-128x128-bias", DType.BF16, (1, 260, 200, 400), (128, 3, 1)),  # a block takes several tiles
    ("a16w8-128x128", DType.BF16, (3, 130, 264, 144), (128, 2, 4)),
)


@pytest.mark.compile
@pytest.mark.skipif(cpu_build.compiler_command() is None, reason=cpu_build.NO_COMPILER)
@pytest.mark.parametrize(("scheme", "dtype", "sizes", "launch"), CASES)
def test_emulated(
    scheme: str, dtype: DType, sizes: tuple[int, int, int, int], launch: tuple[int, int, int], tmp_path: Path
) -> None:
    kind, (b, m, n, k) = parse_scheme(scheme, dtype), sizes
    drawn = make_inputs(Problem(m, n, k, B=b), kind, CPU, seed=5)
    # Scales of one matrix a million times as large as those of the next: the kernel multiplies them in 16 bits.
    far = 2.0 ** torch.tensor([20.0, 0.0, -3.0])[:b, None, None]
    inputs = replace(drawn, scale=(drawn.scale * far).contiguous()) if dtype is DType.BF16 else drawn
    (output,) = inputs.empty_outputs()
    output.fill_(torch.nan)
    plan = CUDA_A16W8.plan(inputs, output, dict(zip(("COLUMNS", "STAGES", "BLOCKS"), launch, strict=True)))
    emulate(CUDA_A16W8, plan, tmp_path)
    for own, exact in zip(output, inputs.reference()[0], strict=True):
        found = measure(own, exact)
        assert not found.failure(kind), found
        assert found.snr_db > (69 if dtype is DType.FP16 else 48)  # scales are rounded to the type of X


@pytest.mark.compile
@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC")
@pytest.mark.parametrize("fp16", [0, 1])
@pytest.mark.parametrize("columns", [128, 256])
def test_machine_code(columns: int, fp16: int) -> None:
    """Products run one after another without waits between, and no registers are spilled."""
    offered = CUDA_A16W8.candidates(Problem(8192, 8192, 8192), parse_scheme("a16w8-128x128", DType.BF16), H200)
    (config,) = (one for one in offered if one["COLUMNS"] == columns)
    constants = (f"-DCOLUMNS={columns}", f"-DSTAGES={config['STAGES']}", f"-DFP16={fp16}")
    options = (*constants, "--gpu-architecture=sm_90a", "--std=c++17")
    _, log = nvrtc.compile_cubin(CUDA_A16W8.source(), [*options, "--ptxas-options=-v"])
    assert re.findall(r"Used (\d+) registers", log) == ["168"]
    assert re.findall(r"(\d+) bytes spill stores", log) == ["0"]
    assert "serialized" not in log
    assert "setmaxnreg" not in log


def test_the_default_tile_is_the_faster_in_a_sweep() -> None:
    """Times of cold launches on an H200, of both sizes of tiles."""
    sweep = Path(__file__).parents[2] / "docs/results/h200-a16w8-large/tiles.csv"
    timed = pd.read_csv(sweep).pivot_table(index=["B", "M", "N", "K"], columns="COLUMNS", values="us")
    scheme = parse_scheme("a16w8-128x128", DType.BF16)
    for (b, m, n, k), us in timed.iterrows():
        default, *_ = CUDA_A16W8.candidates(Problem(m, n, k, B=b), scheme, H200)
        assert us[default["COLUMNS"]] == us.min(), (b, m, n, k)


@pytest.mark.parametrize(
    ("scheme", "sizes", "arch", "why"),
    [
        ("a16w8-128x128", (256, 128, 128), "sm100", "sm90"),
        ("a16w8-128x128-prequant", (256, 128, 128), "sm90", "16 bits"),
        ("a16w8-128x128", (64, 128, 128), "sm90", "65 rows"),
        ("a16w8-128x128", (256, 130, 128), "sm90", "multiple of 8"),
        ("a16w8-128x128", (256, 128, 136), "sm90", "of 16"),
    ],
)
def test_refusals(scheme: str, sizes: tuple[int, int, int], arch: str, why: str) -> None:
    answer = CUDA_A16W8.supports(Problem(*sizes), parse_scheme(scheme, DType.BF16), gpu(arch))
    assert not answer.ok
    assert why in answer.reason
