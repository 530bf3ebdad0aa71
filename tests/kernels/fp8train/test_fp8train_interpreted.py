"""The family's Triton kernels in Triton's interpreter, against the fp64 products and the plain quantizer."""

from dataclasses import replace

import pytest
import torch
from rooflens.kernels.fp8train.blas import DEQUANT_BLAS
from rooflens.kernels.fp8train.providers import SHARED, SPECIALISED
from rooflens.kernels.fp8train.quantize import GROUPS, quantize
from rooflens.kernels.fp8train.quantizers import TRITON_QUANT
from rooflens.kernels.fp8train.scaled_mm import TORCH_SCALED_MM
from rooflens.kernels.fp8train.stock import STOCK_TRITON
from rooflens.kernels.fp8train.triton_calls import quantize_call, transpose_call, weight_call
from rooflens.kernels.fp8train.triton_configs import QUANT
from rooflens.kernels.inputs import make_inputs, poison
from rooflens.kernels.jit.call import compile_calls
from rooflens.kernels.quantized import Quantized
from rooflens.kernels.reference import measure_all
from rooflens.shapes.problem import Op, Pass, Problem

from ..checks import check_launch
from ..devices import cpu
from ..interpreter import interpreted
from ..synthetic import operands, scheme_of

SCHEMES = ("fp8-blockwise", "fp8-blockwise-hybrid", "fp8-blockwise-prequantized", "fp8-blockwise-prequantized-hybrid")
FLOOR_DB = 48
"""bf16 rounding of the operands and of the output leaves 51 dB, of the output alone 55."""


def check(provider, config, sizes, pass_, scheme, *, arch="x86-64", seed=1):
    """Return the names of the kernels."""
    m, n, k = sizes
    chiplets = 8 if arch.startswith("gfx9") else 0
    problem, device = Problem(m, n, k, pass_=Pass(pass_)), replace(cpu(arch), reported_chiplets=chiplets)
    inputs = operands(problem, scheme, device=device, seed=seed)
    launch = check_launch(provider, inputs, config, times=1, least_db=FLOOR_DB, again=False)
    return [name.removesuffix("_kernel") for name in launch.kernels]


def check_gemm(provider, *problem, tile=(32, 64), k_major=False, more=(), **device):
    """`problem`: sizes, pass and scheme."""
    rows, columns = tile
    chosen = {"BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": 128, "GROUP_M": 2, "num_warps": 4, "num_stages": 2}
    config = {name: chosen | dict(more) for name in ("fwd", "dgrad", "wgrad")} | {"K_MAJOR": k_major}
    return check(provider, config, *problem, **device)


WHOLE, TAILS, ONE = (128, 128, 256), (70, 150, 200), (1, 129, 130)


@pytest.mark.parametrize(
    ("name", "k_major"),
    [
        ("shared", True),
        pytest.param("specialised", True, marks=pytest.mark.slow),
        pytest.param("specialised", False, marks=pytest.mark.slow),
        pytest.param("shared", False, marks=pytest.mark.slow),
    ],
)
@interpreted
def test_gemms(name, k_major):
    """Whole blocks without masks; tails everywhere; one row; both FP8 types, on a device with the fnuz ones as well."""
    provider = {"specialised": SPECIALISED, "shared": SHARED}[name]
    check_gemm(provider, WHOLE, "step", SCHEMES[0], k_major=k_major)
    check_gemm(provider, TAILS, "step", SCHEMES[3], k_major=k_major, arch="gfx942")
    check_gemm(provider, TAILS, "bwd", SCHEMES[0], k_major=k_major, tile=(64, 32))
    check_gemm(provider, ONE, "step", SCHEMES[1], k_major=k_major)
    check_gemm(provider, ONE, "wgrad", SCHEMES[2], k_major=k_major)


@interpreted
def test_chiplets_get_chunks_of_tiles():
    """All tiles are computed once, whether or not they are whole rounds of 8 chiplets."""
    for sizes in ((128, 160, 128), (300, 160, 128)):  # 8 x 5 and 19 x 5 tiles in rounds of 16
        check_gemm(SHARED, sizes, "fwd", SCHEMES[0], tile=(16, 32), arch="gfx942", more={"CHUNK": 2})


@interpreted
def test_quantizers_are_exact():
    """Signed data, groups of zeros and of large values; whole tiles and tails; both ranges of E4M3."""
    lines = ((256, 256, "x86-64"), (150, 300, "gfx942"), (1, 130, "x86-64"), (130, 77, "gfx942"))
    for kind in ("row", "col", "rowcol", "weight"):
        for number, (m, k, arch) in enumerate(lines):
            problem, scheme = Problem(m, 1, k, op=Op.QUANTIZE), scheme_of(f"fp8-quant-{kind}")
            inputs = make_inputs(problem, scheme, cpu(arch), 5)
            inputs.x[0, : min(200, k)] = 0.0  # a group of zeros, amax below its floor
            inputs.x[-1, -1] = 3.0e38
            launch = TRITON_QUANT.prepare(inputs, QUANT[kind][number % 2])
            for output in launch.outputs:
                poison(output)
            launch()
            found = measure_all(launch.outputs, inputs.reference())
            assert not any(one.different for one in found), (kind, m, k, arch)
            assert len(launch.kernels) == 1


def check_transposed_forms(x, row_type, col_type, both, weight):
    """Row and column form of X at once, W with its transpose, both orders of its scales in longer rows, and back.

    `both`, `weight`: configurations of the two quantizers.
    """
    (m, k), place = x.shape, {"device": x.device}
    row, col, block = quantize(x, "row", row_type), quantize(x, "col", col_type), quantize(x, "weight", row_type)
    rows, columns = block.scale.shape
    mine = [
        Quantized(
            torch.empty(m, k, dtype=row_type, **place), torch.empty(row.scale.shape[::-1], **place), *GROUPS["row"]
        ),
        Quantized(torch.empty(k, m, dtype=col_type, **place), torch.empty(col.scale.shape, **place), *GROUPS["col"]),
        Quantized(
            torch.empty(m, k, dtype=row_type, **place), torch.zeros(rows, columns + 6, **place), *GROUPS["weight"]
        ),
    ]
    scale, turned_scale = mine[2].scale, torch.zeros(columns, rows + 10, **place)
    turned, back = torch.empty(k, m, dtype=row_type, **place), torch.empty(m, k, dtype=row_type, **place)
    calls = [
        quantize_call(x, mine[0], mine[1], both, k_major=True, scales_first=True),
        weight_call(x, mine[2], turned, weight, turned_scale),
        transpose_call(turned, back),
    ]
    compile_calls(calls).run()  # the interpreter runs nothing while it "compiles"
    pairs = (
        (mine[0].data, row.data),
        (mine[0].scale.t(), row.scale),
        (mine[1].data.t(), col.data),
        (mine[1].scale, col.scale),
        (mine[2].data, block.data),
        (scale[:, :columns], block.scale),
        (turned_scale[:, :rows].t(), block.scale),
        (scale[:, columns:], torch.zeros(rows, 6, **place)),
        (turned_scale[:, rows:], torch.zeros(columns, 10, **place)),
        (turned.t(), block.data),
        (back, block.data),
    )
    assert not any((a.float() != b.float()).any() for a, b in pairs), (m, k)


@interpreted
def test_transposed_forms_are_exact():
    for m, k in ((256, 128), (150, 300), (1, 130)):
        torch.manual_seed(3)
        both = {"ROWS": 128, "COLUMNS": 128, "num_warps": 8}
        types = (torch.float8_e4m3fn, torch.float8_e5m2)
        check_transposed_forms(torch.randn(m, k).bfloat16(), *types, both, {"num_warps": 8})


def scaled_mm(a, b, a_scale, a_kind, b_scale, b_kind, output_dtype):
    """What cuBLAS computes, from operands that lie as it wants them: a[R,D] and b[D,C] contiguous along D.

    1x128: scales [lines, blocks] with stride (1, lines); 128x128: [blocks of D filled up to 4, lines], along D as well
    """
    from torch.nn.functional import ScalingType

    assert a_kind is ScalingType.BlockWise1x128
    assert a.is_contiguous()
    assert b.t().is_contiguous()
    (rows, depth), columns = a.shape, b.shape[1]
    blocks = depth // 128
    assert a_scale.shape == (rows, blocks)
    assert a_scale.stride() == (1, rows)
    if b_kind is ScalingType.BlockWise1x128:
        assert b_scale.shape == (columns, blocks)
        assert b_scale.stride() == (1, columns)
        by_column = b_scale
    else:
        filled = -(-blocks // 4) * 4
        assert b_scale.shape == (filled, columns // 128)
        assert b_scale.stride() == (1, filled)
        assert not b_scale[blocks:].any()
        by_column = b_scale[:blocks].t().repeat_interleave(128, 0)
    left = a.double() * a_scale.double().repeat_interleave(128, 1)
    right = b.t().double() * by_column.double().repeat_interleave(128, 1)
    return (left @ right.t()).to(output_dtype)


@pytest.mark.skipif(not hasattr(torch.nn.functional, "ScalingType"), reason="this torch has no scaled_mm")
@interpreted
def test_scaled_mm_gets_every_operand_as_the_library_wants_it():
    """A stand-in for torch's product checks strides and padding. No copy is left beside quantizers and products:

    W's quantizer writes both orders of its scales, with rows of 4, whatever the number of blocks (3 and 5 here).
    """
    torch.nn.functional.scaled_mm = scaled_mm
    for pass_, kernels in {
        "fwd": ["quantize", "quantize_weight", "scaled_mm"],
        "dgrad": ["quantize", "scaled_mm"],
        "wgrad": ["quantize", "scaled_mm"],
        "bwd": ["quantize", "scaled_mm", "scaled_mm"],
        "step": ["quantize", "quantize_weight", "quantize", *["scaled_mm"] * 3],
    }.items():
        assert check(TORCH_SCALED_MM, None, (128, 384, 640), pass_, SCHEMES[0], arch="sm90") == kernels
        check(TORCH_SCALED_MM, None, (128, 384, 640), pass_, SCHEMES[2], arch="sm90")


@interpreted
def test_baselines():
    stock = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2, "num_warps": 4, "num_stages": 2}
    for provider, config in ((STOCK_TRITON, stock), (DEQUANT_BLAS, {"kernels": "triton"})):
        for pass_, scheme in (("step", SCHEMES[0]), ("bwd", SCHEMES[3]), ("fwd", SCHEMES[2])):
            check(provider, config, (40, 130, 150), pass_, scheme)
