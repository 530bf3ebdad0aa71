"""The MoE providers: what they support, what dispatch chooses, their traffic; results on the CPU, and on a GPU."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rooflens.analysis.imports.read import detect
from rooflens.analysis.imports.table import parse
from rooflens.cli.main import main
from rooflens.kernels import registry
from rooflens.kernels.geometry import Binary, geometry_of
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.mxfp8_moe.dispatch import DISPATCH, DispatchMoe
from rooflens.kernels.mxfp8_moe.traffic import expected_blocks
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8_moe import MxFp8Moe

from ..contract_cases import moe
from ..devices import CPU, gpu
from .test_moe_interpreted import check_align

FUSED = ("grouped_moe", "gemv_moe", "guarded_moe", "dispatch_moe", "grouped_with_align_moe", "stock_triton_moe")
LOOPS = ("dequant_loop_moe", "loop_bf16_moe")
STORED = Path(__file__).parents[3] / "docs/results/h200-mxfp8-moe"
PLAIN = MxFp8Moe("rceil", DType.BF16)
WEIGHTED = MxFp8Moe("rceil", DType.BF16, weighted=True)


@pytest.fixture(scope="module")
def providers():
    return registry.load((*FUSED, *LOOPS))


@pytest.mark.parametrize(
    ("rows", "loop_rank"),  # of each expert; loops for 4, 2 and 1 rows, heaviest first
    [((1, 1, 1), 2), ((1, 2, 2), 1), ((1, 1, 3), 2), ((2, 3, 4), 0), ((9,), 0), ((5,), 2), ((6, 2), 1)],
)
def test_the_loop_that_is_read_is_that_of_the_median_block(providers, rows, loop_rank):
    inputs = make_inputs(moe(sum(rows), 16, 256, len(rows), 1), PLAIN, CPU, seed=1)
    ids = torch.arange(len(rows)).repeat_interleave(torch.tensor(rows))[:, None].int()
    inputs = replace(inputs, topk_ids=ids, device=gpu("sm90"))
    config = {"BLOCK_M": 4, "BLOCK_N": 16, "BLOCK_K": 256, "num_warps": 4, "num_stages": 3}
    (call,) = providers["gemv_moe"].calls(inputs, (inputs.empty_output(),), config)
    assert call.tiling.loop_rank == loop_rank
    assert geometry_of(call.grid, "compiled", call.tiling).binary == Binary("compiled", 16 * 256, loop_rank)
    (call,) = providers["grouped_moe"].calls(inputs, (inputs.empty_output(),), config)
    assert call.tiling.loop_rank == 0


# gemm1 engages up to 16 routed rows, up to 64 from 128 experts on; gemm2 up to 8; never beyond the table or 2 GiB
DISPATCHED = (
    (moe(4, 1536, 6144, 32, 4), PLAIN, "guarded_moe"),
    (moe(5, 1536, 6144, 32, 4), PLAIN, "stock_triton_moe: 20 routed rows are above 16"),
    (moe(16, 1536, 6144, 128, 4), PLAIN, "guarded_moe"),
    (moe(17, 1536, 6144, 128, 4), PLAIN, "stock_triton_moe: 68 routed rows are above 64"),
    (moe(4, 768, 6144, 32, 4), PLAIN, "guarded_moe"),
    (moe(8, 6144, 768, 64, 1), WEIGHTED, "guarded_moe"),
    (moe(8, 6144, 768, 128, 1), PLAIN, "guarded_moe"),
    (moe(9, 6144, 768, 128, 1), PLAIN, "stock_triton_moe: 9 routed rows are above 8"),
    (moe(8, 6144, 384, 64, 1), PLAIN, "stock_triton_moe: K=384 is neither a multiple of 1024 nor 768"),
    (moe(4, 1536, 6144, 32, 4), WEIGHTED, "stock_triton_moe: N=1536 K=6144 a_div=4 weighted=True is not in the table"),
    (moe(4, 1536, 6144, 32, 2), PLAIN, "stock_triton_moe: N=1536 K=6144 a_div=2 weighted=False is not in the table"),
    (
        moe(2, 1536, 6144, 256, 4),
        PLAIN,
        "stock_triton_moe: 32-bit offsets: E N K = 2415919104 bytes of weights are not below 2147483648; "
        "take grouped_moe",
    ),
)


@pytest.mark.parametrize(("problem", "scheme", "record"), DISPATCHED, ids=[str(line[0]) for line in DISPATCHED])
def test_dispatch(providers, problem, scheme, record):
    choice = DISPATCH.choose(problem, scheme, gpu("gfx950"))
    assert str(choice) == record
    chosen = choice.provider
    assert chosen is providers[record.partition(":")[0]]
    assert choice.config == chosen.candidates(problem, scheme, gpu("gfx950"))[0]


def test_what_was_not_measured_goes_to_the_stock_kernel():
    beyond = DISPATCH.choose(moe(129, 1536, 6144, 128, 4), PLAIN, gpu("sm90"))
    assert str(beyond) == "stock_triton_moe: 516 routed rows are above 64"


def test_a_table_of_a_run_of_moe_gemms_is_read_back(tmp_path):
    argv = ["dispatch", str(STORED), "--incumbent", "stock_triton_moe", "-p", "guarded_moe", "--policy", "table"]
    assert main([*argv, "--emit", "csv", "-o", str(tmp_path)]) == 0
    source = parse((tmp_path / "dispatch.csv").read_bytes(), "dispatch.csv")
    imported = detect(source, {}).read(source, {}).frame
    assert set(imported["op"]) == {"moe_gemm"}
    assert set(zip(imported["E"], imported["top_k"], strict=True)) == {(e, k) for e in (32, 64, 128) for k in (1, 4)}
    mine = DispatchMoe(tmp_path / "dispatch.csv")
    for m in (1, 4, 16):
        choice = mine.choose(moe(m, 1536, 6144, 128, 4), PLAIN, gpu("sm90"))
        assert str(choice) == "guarded_moe: by its row of the table"
        beyond_2_gib = mine.choose(moe(m, 1536, 6144, 256, 4), PLAIN, gpu("sm90"))
        assert str(beyond_2_gib).startswith("stock_triton_moe: 32-bit offsets"), "no time, and no row"
    assert mine.choose(moe(4, 1536, 6144, 128, 4), WEIGHTED, gpu("sm90")).provider.name == "stock_triton_moe"


def test_expected_blocks():
    assert expected_blocks(moe(3, 64, 64, 4, 4), 2) == 8, "four experts, three rows each"
    assert expected_blocks(moe(1, 64, 64, 256, 8), 16) == pytest.approx(8)
    # three tokens to one of two experts: 0, 1, 2, 3 rows with chances 1, 3, 3, 1 of 8, in blocks of two: 0, 1, 1, 2.
    # An expert needs 1/8 block beyond its first; every draw hits both.
    assert expected_blocks(moe(3, 64, 64, 2, 1), 2) == pytest.approx(2 + 2 * 1 / 8)
    assert expected_blocks(moe(4, 64, 64, 32, 4), 4) == 13, "one block for each expert that is hit"


@pytest.mark.gpu
def test_align_on_the_gpu():
    for tokens, experts, top_k, block in ((1, 8, 2, 16), (64, 128, 4, 8), (3000, 256, 8, 64)):
        generator = torch.Generator().manual_seed(tokens)
        ids = torch.rand(tokens, experts, generator=generator).argsort(1)[:, :top_k].int().cuda()
        check_align(ids, block, experts)
