"""How launches divide their work, against figures worked out by hand; nothing is compiled or run.

Providers prepare on operands of the CPU for a device that is described, with a recorder in place of the compiler.
"""

import math
import sys
from dataclasses import replace

import pytest
from rooflens.kernels import registry
from rooflens.kernels.geometry import Geometry, Tiling, combined, geometry_of
from rooflens.kernels.jit.launch import CompiledLaunch
from rooflens.plugins.isa.compiled.scan import described_device
from rooflens.shapes.problem import Op, Pass, Problem

from .synthetic import operands


@pytest.fixture
def prepared(monkeypatch):
    """Return `prepared(provider, scheme, problem, config, arch)`: the launch, with its grids as `launch.run.grids`."""

    def prepare(name, scheme, problem, config=None, arch="sm90"):
        grids = []

        def record(kernel, grid, arguments, constants, options):
            grids.append(grid)
            padded = arguments.get("padded")
            if kernel.fn.__name__ == "align_place_kernel":  # the layout of the rows below
                padded.fill_(problem.E * config["BLOCK_M"])
            return CompiledLaunch(lambda: None, kernel.fn.__name__, "", grid)

        registry.load([name])
        for module in [one for key, one in sys.modules.items() if key.startswith("rooflens.kernels")]:
            if hasattr(module, "compile_launch"):
                monkeypatch.setattr(module, "compile_launch", record)
        provider, device = registry.load([name])[name], replace(described_device(arch), kind="cpu")
        inputs = operands(problem, scheme)
        launch = provider.prepare(replace(inputs, device=device), config)
        return launch, grids

    return prepare


def tile(m, n, k, **more):
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "num_warps": 4, "num_stages": 2, **more}


# M = 33, N = 200, K = 300: 3 tiles of 16 rows, 4 of 64 columns; K in steps of 128 is padded to 384
ODD = Problem(33, 200, 300)
FLOPS = 2 * (3 * 16) * (4 * 64) * 384
WEIGHTS = 3 * (4 * 64) * 384  # decoded again for each of the 3 rows of tiles


def test_parts_of_k_are_workgroups_and_neither_flops_nor_weights(prepared):
    for split in (1, 3):
        launch, grids = prepared("mma_4bit", "nf4-g64", ODD, tile(16, 64, 128, SPLIT_K=split))
        assert grids == [(12, split, 1)]
        assert launch.geometry == Geometry(
            16, 64, 12 * split, issued_flops=FLOPS, decoded_weights=WEIGHTS, iterations=3 / split
        )


MX = Problem(20, 200, 320)
SPLIT, NT = {"SPLIT_K": 2}, {"GROUP_M": 1, "swap": False, "scaling": "parts", "batch_inner": False}
LINES = Geometry(clocks=5 * 200 * 300), Geometry(clocks=2)
"""A copy of W: a line for each byte of W; two for all scales, whose rows of three take 12 of 128 bytes."""


@pytest.mark.parametrize(
    ("provider", "scheme", "problem", "config", "expected"),
    [
        # vector kernels issue nothing to matrix units, dense tiles decode nothing
        *(
            (name, "nf4-g64", ODD, tile(rows, 64, 128, SPLIT_K=1),
             Geometry(rows, 64, 4 * tiles, decoded_weights=tiles * 256 * 384, iterations=3))
            for name, rows, tiles in (("simt_4bit", 16, 3), ("gemv_4bit", 1, 33), ("gemv_4bit_opt", 1, 33))
        ),
        ("stock_triton", "nf4-g64", ODD, tile(16, 64, 128), Geometry(16, 64, 12, issued_flops=FLOPS, iterations=3)),
        # batches are tiles
        *(
            (name, f"a16w8-128x128{more}", replace(ODD, B=5), tile(16, 64, 128, **NT),
             Geometry(16, 64, 60, issued_flops=5 * FLOPS, decoded_weights=weights, iterations=3, others=copies))
            for name, more, weights, copies in (
                ("tuned_a16w8", "", 5 * WEIGHTS, ()), ("kernel_a16w8", "", 5 * WEIGHTS, ()),
                ("wrapper_a16w8", "", 5 * WEIGHTS, LINES), ("tuned_a16w8", "-prequant", None, ()),
            )
        ),
        *(
            (name, "mxfp8-rceil", MX, tile(16, 64, 128, kernel=kernel, **SPLIT),
             Geometry(16, 64, 2 * 4 * 2, issued_flops=flops, decoded_weights=weights, iterations=1.5))
            for name, kernel, flops, weights in (
                ("mma_mx", "bf16", 2 * 32 * 256 * 384, 2 * 256 * 384),
                ("mma_mx", "scaled", 2 * 32 * 256 * 384, None),
                ("gemv_mx", "diagonal", 4 * 2 * 32 * 256 * 384, None),  # a column per row and block of 32
                ("gemv_mx", "vector", None, 2 * 256 * 384),
            )
        ),
        # it decodes where dot_scaled is emulated
        *(
            ("stock_triton_mx", "mxfp8-rceil", Problem(20, 200, 384), tile(16, 64, 128, emulated=emulated),
             Geometry(16, 64, 8, issued_flops=2 * 32 * 256 * 384, decoded_weights=weights, iterations=3))
            for emulated, weights in ((True, 2 * 256 * 384), (False, None))
        ),
        ("gemm_ao", "ao-1x128-128x128", Problem(100, 256, 300), tile(64, 128, 128, GROUP_M=8),
         Geometry(64, 128, 4, issued_flops=2 * 128 * 256 * 384, iterations=3)),
    ],
)  # fmt: skip
def test_products(prepared, provider, scheme, problem, config, expected):
    assert prepared(provider, scheme, problem, config)[0].geometry == expected


def test_moe_counts_blocks_that_are_in_use(prepared):
    # 2 tokens of 2 experts each, of 4: every slot is a block of its own unless two tokens share an expert
    problem = Problem(2, 200, 256, op=Op.MOE_GEMM, E=4, top_k=2)
    launch, grids = prepared("grouped_moe", "mxfp8-moe-rceil", problem, tile(8, 64, 128, SPLIT_K=2))
    inputs = operands(problem, "mxfp8-moe-rceil")
    blocks = int(inputs.topk_ids.unique().numel())
    tiles = blocks * 4
    assert grids[-1][0] >= tiles
    flops, weights = 2 * (8 * 64) * tiles * 256, 64 * tiles * 256
    assert launch.geometry == Geometry(8, 64, 2 * tiles, issued_flops=flops, decoded_weights=weights, iterations=1)
    launch, _ = prepared("gemv_moe", "mxfp8-moe-rceil", problem, tile(4, 64, 256))
    assert launch.geometry == Geometry(4, 64, tiles, decoded_weights=weights, iterations=1)
    scaled, _ = prepared("grouped_moe", "mxfp8-moe-rceil", problem, tile(16, 64, 128), arch="gfx950")
    assert scaled.geometry.decoded_weights is None
    assert scaled.geometry.issued_flops


def main(launch):
    """Of the kernel that multiplies."""
    return replace(launch.geometry, others=())


TRAIN = tile(128, 64, 128, GROUP_M=4)


@pytest.mark.parametrize(
    ("pass_", "rows", "columns", "depth", "turned"),
    [
        (Pass.FWD, 300, 200, 512, False),
        (Pass.DGRAD, 300, 512, 200, False),
        (Pass.WGRAD, 512, 200, 300, True),  # X^T dY [K,N], stored as dW [N,K]
    ],
)
def test_products_of_training(prepared, pass_, rows, columns, depth, turned):
    problem = Problem(300, 200, 512, pass_=pass_)
    tiles = -(-rows // 128) * -(-columns // 64)
    launch, grids = prepared("shared_fp8", "fp8-blockwise-prequantized", problem, {pass_.value: TRAIN})
    assert (tiles, 1, 1) in grids
    expected = Geometry(
        *((64, 128) if turned else (128, 64)),
        tiles,
        issued_flops=2 * 128 * 64 * tiles * -(-depth // 128) * 128,
        iterations=-(-depth // 128),
    )
    assert main(launch) == expected
    config = {"K_MAJOR": 0, pass_.value: TRAIN}
    assert main(prepared("specialised_fp8", "fp8-blockwise-prequantized", problem, config)[0]) == expected


def test_a_step_adds_up_its_products(prepared):
    config = dict.fromkeys(("fwd", "dgrad", "wgrad"), TRAIN)
    launch, grids = prepared("shared_fp8", "fp8-blockwise", Problem(256, 128, 512, pass_=Pass.STEP), config)
    assert sorted(one.workgroups for one in launch.geometry.others) == sorted(map(math.prod, grids))
    assert main(launch) == Geometry(issued_flops=3 * 2 * 256 * 128 * 512)  # tiles of wgrad lie the other way round


def test_groups_are_padded_to_tiles_each(prepared):
    problem = Problem(512, 128, 256, op=Op.GROUPED_GEMM, E=4)
    config = tile(64, 128, 128, GROUP_M=8)
    launch, grids = prepared("grouped_ao", "ao-grouped", problem, config)
    inputs = operands(problem, "ao-grouped")
    starts = [0, *inputs.ends[:-1]]
    tiles = sum(-(-(end - start) // 64) for start, end in zip(starts, inputs.ends, strict=True))
    assert tiles < grids[-1][0]  # the grid has room for one more per group
    assert launch.geometry == Geometry(64, 128, tiles, issued_flops=2 * 64 * 128 * tiles * 256, iterations=2)
    alone, grids = prepared("loop_ao", "ao-grouped", problem, config)
    assert sum(grid[0] for grid in grids) == tiles
    assert main(alone) == Geometry(64, 128, issued_flops=2 * 64 * 128 * tiles * 256)
    assert [one.workgroups for one in alone.geometry.others] == [grid[0] for grid in grids]


def test_a_quantizer_has_workgroups_only(prepared):
    quantize = Problem(130, 1, 256, op=Op.QUANTIZE)
    for name, scheme in (("triton_quant_fp8", "fp8-quant-row"), ("triton_quant_mx", "mxfp8-quant-rceil")):
        launch, grids = prepared(name, scheme, quantize)
        assert launch.geometry == Geometry(workgroups=grids[0][0])


def test_vendor_products_say_nothing():
    inputs = operands(Problem(4, 64, 64), "nf4-g64")
    for name in ("blas", "dequant_blas"):
        assert registry.load([name])[name].prepare(inputs).geometry is None


def test_several_main_kernels():
    first, second = (geometry_of((2, 1, 1), None, Tiling(64, columns, 128)) for columns in (64, 128))
    assert combined([]) is None
    assert combined([first]) is first
    both = combined([first, first], [second])
    assert both == Geometry(64, 64, issued_flops=2 * 2 * 64 * 64 * 128, others=(first, first, second))
    assert combined([first], [second]) == replace(first, others=(second,))
    assert combined([], [second]) == Geometry(others=(second,))
    unlike = Geometry(64, None, issued_flops=2 * 64 * (64 + 128) * 128, others=(first, second))
    assert combined([first, second]) == unlike
    partly = replace(second, issued_flops=None)
    assert combined([first, partly]) == Geometry(64, others=(first, partly))
