"""cuda_ao and cuda_grouped_ao without a GPU: their very source on emulated threads, its machine code, what they refuse.

On a GPU, the tests of all providers run them.
"""

import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rooflens.kernels.cuda import matmul_fp8
from rooflens.kernels.cuda.provider import SHARED_BYTES, LaunchPlan
from rooflens.kernels.fourbit import cpu_build
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.libraries import nvrtc
from rooflens.kernels.torchao.cuda_provider import CUDA, CUDA_GROUPED, CudaAo
from rooflens.kernels.torchao.groups import offsets
from rooflens.kernels.torchao.product_inputs import ProductInputs
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

from ..checks import check_launch
from ..cuda_emulation import emulate
from ..devices import H200, cpu, gpu

DENSE, BY_COLUMN, GROUPED = "ao-1x128-128x128", "ao-1x128-128x1", "ao-grouped"
FLOOR_DB = {DType.BF16: 54, DType.FP16: 72}
"""Rounding the output leaves 55 and 73 dB."""

needs_compiler = pytest.mark.skipif(cpu_build.compiler_command() is None, reason=cpu_build.NO_COMPILER)


@pytest.fixture(autouse=True)
def plans(monkeypatch: pytest.MonkeyPatch) -> list[LaunchPlan]:
    """Return the launches that are compiled, which run on this CPU."""
    found: list[LaunchPlan] = []

    def compiled(self: CudaAo, plan: LaunchPlan, device: torch.device) -> tuple[object, str]:
        def run() -> None:
            with tempfile.TemporaryDirectory() as folder:
                emulate(self, plan, Path(folder))

        found.append(plan)
        return run, ""

    monkeypatch.setattr(CudaAo, "compiled", compiled)
    return found


def operands(sizes: tuple[int, int, int], dtype: DType, ends: tuple[int, ...] = ()) -> ProductInputs:
    """Of a dense product, or of groups that end at `ends`."""
    if not ends:
        return make_inputs(Problem(*sizes), parse_scheme(DENSE, dtype), cpu("sm90"), 5)
    problem = Problem(*sizes, E=len(ends), op=Op.GROUPED_GEMM)
    inputs = make_inputs(problem, parse_scheme(GROUPED, dtype), cpu("sm90"), 5)
    return replace(inputs, ends=ends, offs=offsets(ends, inputs.offs.device))


@pytest.mark.compile
@needs_compiler
@pytest.mark.parametrize(
    ("sizes", "ends", "blocks", "tiles"),
    [
        ((200, 264, 400), (), 3, 4),
        ((256, 264, 144), (128, 256), 1, 4),  # whole tiles: all of Y by TMA
        ((400, 72, 272), (0, 100, 100, 356, 357, 400, 400), 2, 5),  # groups without rows, and of one
        ((1504, 512, 144), (1296, 1408, 1504), 3, 26),  # more rows of tiles than are taken together
        ((192, 264, 128), (64, 192), 2, 4),  # half a tile has no rows
        ((32, 16, 16), (16, 16, 32), 132, 2),  # most blocks have no tile
        ((70, 16, 144), (*range(1, 68), 70), 5, 68),  # more groups than a warp has lanes
    ],
)
@pytest.mark.parametrize("dtype", [DType.BF16, pytest.param(DType.FP16, marks=pytest.mark.slow)])
def test_products(
    sizes: tuple[int, int, int],
    ends: tuple[int, ...],
    blocks: int,
    tiles: int,
    dtype: DType,
    plans: list[LaunchPlan],
) -> None:
    provider, inputs = CUDA_GROUPED if ends else CUDA, operands(sizes, dtype, ends)
    config = {"STAGES": 2, "BLOCKS": blocks}
    launch = check_launch(provider, inputs, config, times=1, least_db=FLOOR_DB[dtype], again=False)
    m, n, k = sizes
    assert launch.geometry
    assert launch.geometry.issued_flops == tiles * 2 * 128 * 256 * math.ceil(k / 128) * 128
    assert launch.geometry.workgroups == min(tiles, blocks)
    (plan,) = plans
    passed = [one.tensor if isinstance(one, nvrtc.Boxes) else one for one in plan.arguments]
    moved = {one.data_ptr(): one.nbytes for one in passed if isinstance(one, torch.Tensor)}
    groups = max(1, len(ends))
    scales = 4 * math.ceil(k / 128) * (m + groups * math.ceil(n / 128))
    assert sum(moved.values()) == m * k + groups * n * k + 2 * m * n + scales + 4 * len(ends)


@pytest.mark.parametrize("scheme", [DENSE, GROUPED])
def test_traffic(scheme: str) -> None:
    """Operands and results once; weights of experts with rows."""
    problem = Problem(48, 264, 272) if scheme == DENSE else Problem(48, 264, 272, E=5, op=Op.GROUPED_GEMM)
    provider, quantized = CUDA if scheme == DENSE else CUDA_GROUPED, parse_scheme(scheme, DType.BF16)
    (config,) = provider.candidates(problem, quantized, H200)
    experts = 3 if problem.E > 1 else 1
    bytes_ = (
        48 * 272
        + experts * 264 * 272
        + 2 * 48 * 264
        + 4 * 3 * (48 + experts * 3)
        + 4 * (problem.E if experts > 1 else 0)
    )
    assert provider.moved_bytes(problem, quantized, config) == bytes_
    assert provider.working_set_bytes(problem, quantized, config) == bytes_


@pytest.mark.compile
@needs_compiler
def test_groups_are_apart() -> None:
    """What is not finite in the rows or the weights of one group is in no row of another."""
    inputs = operands((200, 256, 256), DType.BF16, (72, 200))
    inputs.b.view(torch.uint8)[0, :128] = 0x7F
    (output,) = CUDA_GROUPED.prepare(inputs, {"STAGES": 2, "BLOCKS": 1}).outputs
    assert output[:72, :128].isnan().all()
    assert output[:72, 128:].isfinite().all()
    assert output[72:].isfinite().all()


@pytest.mark.compile
@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC")
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP16])
def test_machine_code(grouped: bool, dtype: DType, plans: list[LaunchPlan]) -> None:
    """The assembler adds no waits between products, and spills nothing but one register of those who copy scales."""
    provider, inputs = CUDA_GROUPED if grouped else CUDA, operands((128, 256, 128), dtype, (128,) if grouped else ())
    plan = provider.plan(inputs, inputs.empty_outputs()[0], provider.candidates(inputs.problem, inputs.scheme, H200)[0])
    options = ["--gpu-architecture=sm_90a", "--std=c++17", *(f"-D{name}={n}" for name, n in plan.constants.items())]
    _, log = nvrtc.compile_cubin(provider.source(), [*options, "--ptxas-options=-v"])
    assert re.findall(r"Used (\d+) registers", log) == ["168"]
    assert re.findall(r"(\d+) bytes spill stores", log) == ["4" if grouped else "0"]
    assert "serialized" not in log
    assert "setmaxnreg" not in log


@pytest.mark.parametrize(
    ("scheme", "sizes", "experts", "dtype", "arch", "why"),
    [
        (DENSE, (256, 128, 128), 1, DType.BF16, "sm100", "sm90"),
        (BY_COLUMN, (256, 128, 128), 1, DType.BF16, "sm90", "128x128 groups only"),
        ("ao-linear", (256, 128, 128), 1, DType.BF16, "sm90", "quantized already"),
        ("ao-grouped-linear", (256, 128, 128), 2, DType.BF16, "sm90", "quantized already"),
        (DENSE, (256, 128, 128), 1, DType.FP32, "sm90", "16-bit"),
        (DENSE, (256, 132, 128), 1, DType.BF16, "sm90", "multiple of 8"),
        (DENSE, (256, 128, 136), 1, DType.BF16, "sm90", "of 16"),
        (GROUPED, (256, 8, 16), 2049, DType.BF16, "sm90", "2048 experts"),
        (GROUPED, (256, 1 << 23, 128), 256, DType.BF16, "sm90", "limited to"),
    ],
)
def test_refusals(scheme: str, sizes: tuple[int, int, int], experts: int, dtype: DType, arch: str, why: str) -> None:
    provider, op = (CUDA_GROUPED, Op.GROUPED_GEMM) if experts > 1 else (CUDA, Op.GEMM)
    answer = provider.supports(Problem(*sizes, E=experts, op=op), parse_scheme(scheme, dtype), gpu(arch))
    assert not answer.ok
    assert why in answer.reason


def test_most_groups_have_room() -> None:
    (config,) = CUDA_GROUPED.candidates(Problem(4096, 4096, 4096), parse_scheme(DENSE, DType.BF16), H200)
    ends = tuple(range(1, matmul_fp8.MOST_GROUPS + 1))
    inputs = operands((len(ends), 8, 16), DType.BF16, ends)
    assert CUDA_GROUPED.plan(inputs, inputs.empty_outputs()[0], config).shared_bytes <= SHARED_BYTES
