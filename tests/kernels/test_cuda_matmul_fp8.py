"""cuda_ao, cuda_grouped_ao and cuda_fp8 without a GPU: their very source on emulated threads, and its machine code.

On a GPU, the tests of all providers run them.
"""

import math
import re
from dataclasses import replace

import pytest
import torch
from rooflens.kernels.cuda import matmul_fp8
from rooflens.kernels.cuda.provider import SHARED_BYTES
from rooflens.kernels.fp8train.cuda_provider import CUDA_FP8, CudaFp8
from rooflens.kernels.fp8train.providers import SPECIALISED
from rooflens.kernels.torchao.cuda_provider import CUDA, CUDA_GROUPED, CudaAo, product_part
from rooflens.kernels.torchao.groups import offsets
from rooflens.kernels.torchao.product_inputs import ProductInputs
from rooflens.plugins.isa.compiled.binary import disassembly
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType

from .checks import check_launch
from .cuda_emulation import machine_code, moved_by, needs_compiler, needs_nvrtc, on_this_cpu, recorded
from .devices import H200, cpu, gpu
from .interpreter import interpreted
from .synthetic import operands, scheme_of

DENSE, BY_COLUMN, GROUPED = "ao-1x128-128x128", "ao-1x128-128x1", "ao-grouped"
FP8, GIVEN = "fp8-blockwise", "fp8-blockwise-prequantized"
HYBRID, GIVEN_HYBRID = f"{FP8}-hybrid", f"{GIVEN}-hybrid"
FLOOR_DB = {DType.BF16: 54, DType.FP16: 72}
"""Rounding the output leaves 55 and 73 dB."""


@pytest.fixture(autouse=True)
def plans(monkeypatch):
    return recorded(monkeypatch, CudaAo, CudaFp8)


def inputs_of(
    sizes: tuple[int, int, int], dtype: DType, ends: tuple[int, ...] = (), dense: str = DENSE
) -> ProductInputs:
    """Of a product of the scheme `dense`, or of groups that end at `ends`."""
    if not ends:
        return operands(Problem(*sizes), dense, dtype, device=cpu("sm90"), seed=5)
    problem = Problem(*sizes, E=len(ends), op=Op.GROUPED_GEMM)
    inputs = operands(problem, GROUPED, dtype, device=cpu("sm90"), seed=5)
    return replace(inputs, ends=ends, offs=offsets(ends, inputs.offs.device))


ROWS = (
    ((200, 264, 400), (), (2, 3), 4),
    ((1, 8, 16), (), (2, 1), 1),
    ((130, 264, 528), (), (3, 2), 4),  # scales four steps at a time, and one more
    ((256, 264, 144), (128, 256), (2, 1), 4),  # whole tiles: all of Y by TMA
    ((144, 264, 1168), (72, 144), (2, 1), 4),
    ((400, 72, 272), (0, 100, 100, 356, 357, 400, 400), (2, 2), 5),  # groups without rows, and of one
    ((1504, 264, 16), (1296, 1408, 1504), (2, 3), 26),  # more rows of tiles than are taken together
    ((192, 264, 128), (64, 192), (3, 2), 4),  # half a tile has no rows
    ((300, 72, 144), (191, 300), (2, 2), 3),  # the row after a box is stored before the box
    ((32, 16, 16), (16, 16, 32), (2, 132), 2),  # most blocks have no tile
    ((200, 8, 144), (0, 0, 200, 200), (2, 1), 2),
    ((200, 264, 144), (200,), (3, 3), 4),
    (
        (70, 8, 144),
        (*[0] * 40, 20, *[20] * 60, 50, *[50] * 30, 70),
        (2, 2),
        3,
    ),  # more groups than a warp has lanes
)
TRAINED = (
    ((128, 256, 128), (2, 1), 1),
    ((200, 272, 400), (3, 1), 4),  # all sizes end within a tile; the block takes several
    ((300, 528, 272), (2, 2), 9),
    ((1, 16, 16), (3, 132), 1),
    ((1200, 256, 144), (2, 3), 10),  # more rows of tiles than a group has
    ((1024, 16, 16), (2, 3), 8),  # no group comes after the last tile
    ((130, 144, 1040), (2, 1), 2),  # stages are used several times
    ((256, 272, 1024), (3, 1), 4),  # scales of four steps at a time, several times
    ((5, 16, 528), (2, 1), 1),  # and where the last row of scales begins at 16 bytes, but has one more
)
COLUMNS = (
    ((256, 256, 128), (2, 132), 2),
    ((200, 272, 400), (3, 1), 3),  # the last tile has 16 scales of b
    ((4, 40, 16), (3, 132), 1),
    ((132, 520, 528), (2, 2), 5),
    ((516, 264, 128), (2, 2), 9),  # Y has rows in one part of the last tile only
)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    ("provider", "dense", "sizes", "ends", "launch", "tiles", "dtype"),
    [
        *((CUDA_FP8, GIVEN, sizes, (), launch, tiles, DType.BF16) for sizes, launch, tiles in TRAINED),
        *(
            (provider, *case, dtype)
            for dtype in (DType.BF16, DType.FP16)
            for provider, *case in (
                *((CUDA, BY_COLUMN, sizes, (), launch, tiles) for sizes, launch, tiles in COLUMNS),
                *((CUDA_GROUPED if one[1] else CUDA, DENSE, *one) for one in ROWS),
            )
        ),
    ],
)
def test_products(provider, dense, sizes, ends, launch, tiles, dtype, plans):
    inputs = inputs_of(sizes, dtype, ends, dense)
    config = dict(zip(("STAGES", "BLOCKS"), launch, strict=True))
    geometry = check_launch(provider, inputs, config, times=1, least_db=FLOOR_DB[dtype], again=False).geometry
    assert geometry
    assert (geometry.tile_M, geometry.tile_N) == ((256, 128) if dense == BY_COLUMN else (128, 256))
    assert geometry.issued_flops == tiles * 2 * 128 * 256 * math.ceil(sizes[2] / 128) * 128
    assert geometry.workgroups == min(tiles, config["BLOCKS"])
    if not ends:
        (plan,) = plans
        assert plan.grid == geometry.workgroups
        assert moved_by(plan) == provider.moved_bytes(inputs.problem, inputs.scheme, config)
        assert moved_by(plan) == provider.working_set_bytes(inputs.problem, inputs.scheme, config)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    ("scheme", "sizes", "experts", "pass_"),
    [
        ("ao-linear", (130, 264, 272), 1, "fwd"),
        ("ao-linear", (256, 272, 144), 1, "step"),
        ("ao-grouped-linear", (384, 144, 272), 3, "step"),
    ],
)
@interpreted
def test_linears(scheme, sizes, experts, pass_):
    """What Triton casts lies as the products read it: each is preceded by its two casts."""
    CudaAo.compiled = on_this_cpu
    grouped = scheme == "ao-grouped-linear"
    op, provider = (Op.GROUPED_GEMM, CUDA_GROUPED) if grouped else (Op.GEMM, CUDA)
    problem = Problem(*sizes, E=experts, op=op, pass_=Pass(pass_))
    inputs = operands(problem, scheme, device=cpu("sm90"), seed=5)
    launch = check_launch(provider, inputs, None, times=1, least_db=FLOOR_DB[DType.BF16], again=False)
    rows, columns, blocks = (f"quantize_{what}_kernel" for what in ("rows", "columns", "blocks"))
    by_rows, wgrad = [rows, blocks, "matmul_fp8"], "grouped_wgrad_kernel" if grouped else "matmul_fp8"
    expected = [*by_rows, *by_rows, columns, columns, wgrad] if pass_ == "step" else by_rows
    assert list(launch.kernels) == expected
    assert launch.geometry
    if not grouped:  # whole tiles and steps: the last product of experts has tiles of Triton
        tiles_and_depths = {"fwd": ((4, 384),), "step": ((4, 256), (2, 384), (4, 256))}[pass_]
        assert launch.geometry.issued_flops == sum(2 * 128 * 256 * tiles * depth for tiles, depth in tiles_and_depths)
    matrix = sum(one.issued_flops is not None for one in (launch.geometry, *launch.geometry.others))
    assert matrix == (4 if pass_ == "step" else 1), "the sum, and each product of several"
    builds = provider.builds(problem, inputs.scheme, inputs.device, launch.config)
    assert {one.kernel.partition(":")[2] for one in builds} == {*expected} - {"matmul_fp8"}


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    ("pass_", "scheme", "kernels"),
    [
        ("fwd", HYBRID, ["quantize_kernel", "quantize_weight_kernel", "matmul_fp8"]),
        ("dgrad", GIVEN_HYBRID, ["transpose_kernel", "matmul_fp8"]),
        ("wgrad", GIVEN, ["transpose_kernel", "transpose_kernel", "matmul_fp8"]),
        ("wgrad", GIVEN_HYBRID, ["transpose_kernel", "transpose_kernel", "matmul_fp8"]),
        ("bwd", FP8, ["quantize_kernel", "matmul_fp8", "matmul_fp8"]),
        ("step", HYBRID, ["quantize_kernel", "quantize_weight_kernel", "quantize_kernel", *["matmul_fp8"] * 3]),
    ],
)
@interpreted
def test_passes(pass_, scheme, kernels):
    """Operands of the quantizers, in the order in which these write scales, and of the forward pass."""
    CudaFp8.compiled = on_this_cpu
    inputs = operands(Problem(144, 272, 400, pass_=Pass(pass_)), scheme, device=cpu("sm90"), seed=5)
    launch = check_launch(CUDA_FP8, inputs, None, times=1, least_db=FLOOR_DB[DType.BF16], again=False)
    assert list(launch.kernels) == kernels


def test_all_experts_together_fill_the_device_with_tiles_of_wgrad():
    problem = Problem(2048, 1024, 1024, E=8, op=Op.GROUPED_GEMM, pass_=Pass.STEP)
    scheme = scheme_of("ao-grouped-linear")
    builds = CUDA_GROUPED.builds(problem, scheme, H200, CUDA_GROUPED.candidates(problem, scheme, H200)[0])
    (wgrad,) = (one.constants for one in builds if one.kernel.endswith(":grouped_wgrad_kernel"))
    assert (wgrad["BM"], wgrad["BN"]) == (128, 128)


@pytest.mark.slow
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


@pytest.mark.slow
@needs_compiler
def test_columns_are_apart():
    """What is not finite in one of the tiles of a block, or in its scales, is in no other."""
    inputs = inputs_of((512, 256, 128), DType.BF16, (), BY_COLUMN)
    for spoiled, values, rows in (
        (inputs.a.view(torch.uint8)[:256], 0x7F, True),
        (inputs.b.view(torch.uint8)[:, :128], 0x7F, False),
        (inputs.a_scale[:, :256], math.nan, True),
        (inputs.b_scale[..., :128], math.nan, False),
    ):
        before = spoiled.clone()
        spoiled.fill_(values)
        (output,) = CUDA.prepare(inputs, {"STAGES": 2, "BLOCKS": 1}).outputs
        spoiled.copy_(before)
        first, other = output.chunk(2, dim=0 if rows else 1)
        assert first.isnan().all()
        assert other.isfinite().all()


def test_traffic():
    """Operands and results once; weights and their scales of experts with rows, which are three of five."""
    problem, scheme = Problem(48, 264, 272, E=5, op=Op.GROUPED_GEMM), scheme_of(GROUPED)
    (config,) = CUDA_GROUPED.candidates(problem, scheme, H200)
    moved = 48 * 272 + 3 * 264 * 272 + 2 * 48 * 264 + 4 * 3 * (48 + 3 * 3) + 4 * 5
    assert CUDA_GROUPED.moved_bytes(problem, scheme, config) == moved
    assert CUDA_GROUPED.working_set_bytes(problem, scheme, config) == moved


@pytest.mark.slow
@needs_compiler
def test_scales_need_no_alignment():
    inputs = inputs_of((130, 264, 512), DType.BF16)
    scale = torch.empty(inputs.b_scale.numel() + 1)[1:].view(inputs.b_scale.shape).copy_(inputs.b_scale)
    config = {"STAGES": 2, "BLOCKS": 1}
    check_launch(CUDA, replace(inputs, b_scale=scale), config, times=1, least_db=FLOOR_DB[DType.BF16], again=False)


@needs_compiler
def test_groups_are_apart():
    """What is not finite in the rows or the weights of one group is in no row of another."""
    inputs = inputs_of((200, 264, 256), DType.BF16, (72, 200))
    inputs.b.view(torch.uint8)[1, :128] = 0x7F
    inputs.a.view(torch.uint8)[199] = 0x7F
    (output,) = CUDA_GROUPED.prepare(inputs, {"STAGES": 2, "BLOCKS": 1}).outputs
    assert output[:72].isfinite().all()
    assert output[72:, :128].isnan().all()
    assert output[72:199, 128:].isfinite().all()
    assert output[199].isnan().all()


@needs_nvrtc
@pytest.mark.parametrize("scheme", [DENSE, BY_COLUMN, GROUPED])
@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP16])
def test_machine_code(scheme, dtype):
    """The assembler adds no waits between products, and spills no register, or one outside of the loops over steps."""
    grouped = scheme == GROUPED
    provider = CUDA_GROUPED if grouped else CUDA
    inputs = inputs_of((128, 256, 128), dtype, (128,) if grouped else (), scheme)
    (config,) = provider.candidates(inputs.problem, inputs.scheme, H200)
    plan, _ = product_part(inputs, inputs.empty_outputs()[0], config)
    _, registers, spilled = machine_code(provider, plan.constants)
    assert registers == 168
    assert spilled <= 4 * grouped


def test_most_groups_have_room():
    (config,) = CUDA_GROUPED.candidates(Problem(4096, 4096, 4096), scheme_of(DENSE), H200)
    ends = tuple(range(1, matmul_fp8.MOST_GROUPS + 1))
    inputs = inputs_of((len(ends), 8, 16), DType.BF16, ends)
    assert product_part(inputs, inputs.empty_outputs()[0], config)[0].shared_bytes <= SHARED_BYTES


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
