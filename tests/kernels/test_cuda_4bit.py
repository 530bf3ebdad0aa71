"""cuda_4bit without a GPU: its very source on emulated threads, its machine code, and its operands.

On a GPU, the tests of all providers run it.
"""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels.fourbit import cuda_provider
from rooflens.kernels.fourbit.cuda_provider import CUDA_4BIT, code_bits, constants_of
from rooflens.kernels.fourbit.groups import GroupScales
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.fourbit.quantize import code_table, dequantize
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.libraries import nvrtc
from rooflens.kernels.provider import DeclinedError
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType

from .cuda_emulation import check_stream_k, emulate, machine_code, needs_compiler, needs_nvrtc
from .devices import CPU, H200
from .synthetic import operands, scheme_of

CASES = (  # rows, rows of a warp, stages, M, N, K, blocks of threads
    ("nf4-g64", DType.BF16, (32, 16, 3), (1, 75, 832), 5),  # N and K end within a tile and a stage, tiles are shared
    ("nf4-g128-bias", DType.FP16, (64, 32, 2), (13, 128, 384), 1),
    ("fp4-g64-nested", DType.FP16, (32, 16, 2), (9, 75, 768), 5),
    ("nf4-g32-nested", DType.BF16, (32, 16, 2), (3, 64, 512), 2),
    ("int4-g128", DType.BF16, (32, 16, 2), (1, 75, 640), 5),
    ("int4-g64-zp", DType.BF16, (32, 16, 2), (5, 32, 576), 2),
    ("int4-g32", DType.FP16, (32, 16, 2), (27, 40, 288 + 32), 2),
    ("mxfp4", DType.BF16, (32, 16, 2), (11, 75, 832), 5),
    ("nvfp4", DType.FP16, (64, 32, 2), (20, 64, 512), 2),
    *(
        (scheme, DType.BF16, (64, 32, 2), (m, 75, 832), 5)
        for scheme, m in (("nf4-g64-bias", 33), ("int4-g64-zp", 63), ("mxfp4", 64), ("nvfp4", 37))
    ),
    ("fp4-g32-nested", DType.FP16, (32, 16, 2), (64, 40, 768), 2),
    ("int4-g32-zp", DType.FP16, (64, 32, 2), (33, 40, 832), 1),
    ("nf4-g32", DType.BF16, (64, 32, 2), (40, 75, 832), 5),
    ("fp4-g512", DType.BF16, (32, 16, 2), (9, 64, 1536), 7),
    ("nf4-g1024-nested-bias", DType.BF16, (32, 16, 2), (2, 75, 2048), 3),
    ("int4-g128-zp", DType.FP16, (64, 32, 2), (16, 128, 384), 2),
    ("mxfp4", DType.FP16, (128, 64, 2), (2, 128, 512), 1),
    *((scheme, DType.FP16, (64, 32, 2), (37, 75, 832), 5) for scheme in ("nf4-g64-bias", "mxfp4", "nvfp4")),
    ("fp4-g512", DType.BF16, (32, 16, 2), (33, 40, 1536), 4),
    ("nf4-g64-nested", DType.BF16, (64, 32, 2), (50, 75, 768), 4),
)


def config_of(tile, blocks):
    return dict(zip(("ROWS", "WARP_ROWS", "STAGES", "BLOCKS"), (*tile, blocks), strict=True))


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("scheme", "dtype", "tile", "sizes", "blocks"), CASES)
def test_emulated(scheme, dtype, tile, sizes, blocks, tmp_path):
    inputs = operands(Problem(*sizes), scheme, dtype, seed=5)

    def least_db(plan):
        rounded_scales = plan.constants["SCALED_PAIRS"] and scheme != "nvfp4"
        return 65 if dtype is DType.FP16 else 50 if rounded_scales else 53

    check_stream_k(CUDA_4BIT, inputs, config_of(tile, blocks), tmp_path, least_db)


def extreme(scales: GroupScales) -> GroupScales:
    """Scales that no drawn weight has: the ends of their formats, one for each row, zero points too."""
    count, octets = scales.scale.numel(), torch.uint8
    if scales.total is not None:  # subnormals, 1.0 and 448 in e4m3
        values = torch.tensor([0, 1, 2, 5, 7, 8, 56, 126], dtype=octets)
        return replace(scales, scale=values.repeat_interleave(count // 8).view(torch.float8_e4m3fn))
    if scales.scale.dtype == torch.float8_e8m0fnu:
        values = torch.tensor([0, 1, 2, 3, 120, 132, 230, 240], dtype=octets)
        return replace(scales, scale=values.repeat_interleave(count // 8).view(torch.float8_e8m0fnu))
    signs = torch.arange(count) % 3 - 1
    zero = None if scales.zero is None else torch.tensor([0x0F, 0xF0], dtype=octets).repeat(-(-len(scales.zero) // 2))
    return replace(scales, scale=scales.scale * signs, zero=zero)


EXTREMES = pytest.mark.parametrize(
    ("scheme", "dtype", "tile", "m"),
    [
        ("nvfp4", DType.BF16, (64, 32, 2), 37),
        ("nvfp4", DType.FP16, (64, 32, 2), 20),
        ("mxfp4", DType.BF16, (32, 16, 2), 11),
        ("mxfp4", DType.BF16, (64, 32, 2), 64),
        ("mxfp4", DType.FP16, (32, 16, 2), 5),
        ("int4-g64-zp", DType.BF16, (32, 16, 2), 5),
        ("int4-g64-zp", DType.BF16, (64, 32, 2), 63),
        ("int4-g32-zp", DType.FP16, (64, 32, 2), 33),
        ("int4-g32", DType.FP16, (32, 16, 2), 27),
    ],
)
"""Up to 32 rows of X sums are scaled, then elements; all but one are compiled for CASES already."""


def extreme_inputs(scheme: str, dtype: DType, m: int) -> FourBitInputs:
    kind = scheme_of(scheme, dtype)
    drawn = make_inputs(Problem(m, 8, 256), kind, CPU, seed=5)
    assert drawn.groups
    groups = extreme(drawn.groups)
    absmax, zero = groups.rebuild()
    return replace(drawn, weight=replace(drawn.weight, groups=groups, absmax=absmax, zero=zero))


def check_extremes(inputs: FourBitInputs, output: torch.Tensor) -> None:
    """Each output by itself: rows of W differ by many powers of ten."""
    weight = dequantize(inputs.weight, torch.float32).view(8, 256).double()
    exact, size = inputs.x.double() @ weight.T, inputs.x.double().abs() @ weight.abs().T
    # Half a step of the output's type, that of its subnormals included, and what sums in fp32 lose. Elements that are
    # scaled lose half a step too, where their product has more bits.
    limits = torch.finfo(inputs.dtype)
    rounded = limits.eps / 2 if inputs.problem.M > 32 and inputs.scheme.weight == "int4" else 0
    allowed = exact.abs() * limits.eps / 2 + size * (2.0**-19 + rounded) + limits.tiny / 128
    assert (output.double().clamp(limits.min, limits.max) - exact.clamp(limits.min, limits.max)).abs().le(allowed).all()


@pytest.mark.slow
@needs_compiler
@EXTREMES
def test_extreme_scales(scheme, dtype, tile, m, tmp_path):
    inputs = extreme_inputs(scheme, dtype, m)
    (output,) = inputs.empty_outputs()
    plan = CUDA_4BIT.plan(inputs, output, config_of(tile, 1))
    emulate(CUDA_4BIT, plan, tmp_path)
    check_extremes(inputs, output)


@pytest.mark.gpu
@EXTREMES
def test_extreme_scales_on_a_gpu(scheme, dtype, tile, m):
    """Scales below what bf16 and fp16 have without subnormals count there too."""
    here = extreme_inputs(scheme, dtype, m)
    device = find_device("cuda:0")
    if device.arch != "sm90":
        pytest.skip("needs sm90")
    moved = {name: value.cuda() for name, value in vars_of(here.weight).items() if isinstance(value, torch.Tensor)}
    assert here.groups
    groups = GroupScales(*(one if one is None else one.cuda() for one in vars_of(here.groups).values()))
    there = replace(here, device=device, x=here.x.cuda(), weight=replace(here.weight, **moved, groups=groups))
    launch = CUDA_4BIT.prepare(there)
    launch()
    check_extremes(here, launch.output.cpu())


def vars_of(record: object) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize(
    ("scheme", "dtype", "sizes"),
    [
        *(("nf4-g64", DType.BF16, (m, 4096, 4096)) for m in (1, 16, 32, 40, 64)),
        *((name, DType.BF16, (1, 4096, 4096)) for name in ("nf4-g32", "nf4-g64-nested", "int4-g64-zp", "mxfp4")),
        *((name, DType.BF16, (1, 28672, 8192)) for name in ("nf4-g64", "int4-g128", "nvfp4")),
        *((name, DType.BF16, (64, 8192, 8192)) for name in ("nf4-g32-nested", "int4-g32-zp", "mxfp4", "nvfp4")),
        *((name, DType.FP16, (64, 8192, 8192)) for name in ("nf4-g64", "nf4-g32-nested", "int4-g32-zp", "mxfp4")),
    ],
)
def test_machine_code(scheme, dtype, sizes):
    """Every tile compiles and none spills registers, but a few outside the products where fp16 scales 64 sums."""
    kind = scheme_of(scheme, dtype)
    for config in CUDA_4BIT.candidates(Problem(*sizes), kind, H200):
        constants = constants_of(sizes[0], kind, config)
        cubin, registers, spilled = machine_code(CUDA_4BIT, constants)
        assert cubin.startswith(b"\x7fELF")
        # setmaxnreg waits for registers that nobody gives up unless all threads begin with as many as there are
        threads = config["ROWS"] // config["WARP_ROWS"] * 128 + 128
        assert registers == 65536 // threads // 8 * 8
        assert spilled <= (32 if sizes[0] > 32 and not constants["SCALED_PAIRS"] else 0), config


def test_codes_lose_less_than_without_a_factor():
    code = code_table("nf4", torch.device("cpu"))
    bits, factor = code_bits(code, torch.bfloat16)
    taken = torch.tensor(bits, dtype=torch.uint16).view(torch.bfloat16).double() * factor
    lost, plain = (taken - code.double()).norm(), (code.bfloat16().double() - code.double()).norm()
    assert lost < 0.6 * plain
    exact = code_table("fp4", torch.device("cpu")) * 12
    assert code_bits(exact, torch.bfloat16)[1] == 1


@pytest.mark.parametrize(
    ("sizes", "rows", "blocks", "parts"),
    [
        ((3, 256, 1024), 64, 4, 0),  # a tile each
        ((3, 256, 1024), 128, 1, 0),
        ((3, 256, 1024), 128, 4, 2 * 128),  # two blocks for each tile, one of which has its end
        ((3, 256, 1024), 64, 3, 2 * 64),  # the first and the last of 4 tiles are whole, the others cut in two
        ((3, 200, 1024), 128, 99, 2 * 3 * 128),  # no more blocks than stages; the last tile is left whole
    ],
)
def test_bytes_of_shared_tiles(sizes, rows, blocks, parts):
    problem, scheme = Problem(*sizes), scheme_of("nf4-g64")
    config = {"ROWS": rows, "WARP_ROWS": 32, "STAGES": 4, "BLOCKS": blocks}
    compulsory, stored = scheme.compulsory_bytes(problem), 4 * 4 * parts  # 3 columns in a four
    assert CUDA_4BIT.moved_bytes(problem, scheme, config) == compulsory + 2 * stored
    assert CUDA_4BIT.working_set_bytes(problem, scheme, config) == compulsory + stored


@pytest.mark.parametrize(
    ("scheme", "per_row"),
    [
        ("nf4-g64", 16 * 4),
        ("nf4-g32", 32 * 4),
        ("nf4-g64-nested", 16 + 4 * 4),
        ("int4-g128", 8 * 2),
        ("int4-g128-zp", 8 * (2 + 1)),
        ("mxfp4", 32),
        ("nvfp4", 64),
    ],
)
def test_bytes_of_scales(scheme, per_row):
    """As they are stored, but for zero points of 8 bits, and second-level scales once for each row and 256 columns."""
    kind, problem = scheme_of(scheme), Problem(1, 256, 1024)
    config = {"ROWS": 64, "WARP_ROWS": 32, "STAGES": 4, "BLOCKS": 4}
    common = {"nf4-g64-nested": 4 * 256 + 4, "nvfp4": 4}.get(scheme, 0)
    expected = 256 * 1024 // 2 + 256 * per_row + common + 2 * (1024 + 256)
    assert CUDA_4BIT.moved_bytes(problem, kind, config) == expected
    assert CUDA_4BIT.working_set_bytes(problem, kind, config) == expected
    inputs = make_inputs(problem, kind, CPU, seed=1)
    assert cuda_provider.ordered_scales(inputs, 64).numel() == 256 * per_row


@pytest.mark.parametrize(
    ("scheme", "dtype", "scaled"),
    [
        ("nf4-g64", DType.BF16, (0, 1)),
        ("nf4-g64", DType.FP16, (0, 0)),  # fp32 scales may be out of its range
        ("nf4-g64-nested", DType.BF16, (0, 1)),
        ("mxfp4", DType.FP16, (0, 0)),
        ("int4-g128", DType.FP16, (0, 1)),
        ("nvfp4", DType.FP16, (1, 1)),
    ],
)
def test_what_is_scaled(scheme, dtype, scaled):
    kind, config = scheme_of(scheme, dtype), {"ROWS": 64, "WARP_ROWS": 32, "STAGES": 3, "BLOCKS": 4}
    assert tuple(constants_of(m, kind, config)["SCALED_PAIRS"] for m in (32, 33)) == scaled


def test_without_nvrtc_the_cell_is_unsupported(monkeypatch):
    def missing(name):
        raise OSError(name)

    nvrtc._library.cache_clear()
    monkeypatch.setattr(nvrtc.ctypes, "CDLL", missing)
    with pytest.raises(DeclinedError, match="NVRTC is not installed"):
        nvrtc.compile_cubin("", [])
    assert not nvrtc.available()
