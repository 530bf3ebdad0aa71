"""What dispatch_mx runs, why, and what it refuses; tables that `rooflens dispatch` writes."""

import csv
from pathlib import Path

import pytest
from rooflens.cli.main import main
from rooflens.kernels.mxfp8.dispatch import DISPATCH, DispatchMx
from rooflens.kernels.mxfp8_moe.dispatch import DISPATCH as MOE
from rooflens.shapes import shapeset
from rooflens.shapes.errors import RooflensError, UsageError
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8 import MxFp8
from rooflens.shapes.schemes.mxfp8_moe import MxFp8Moe

from ...csv_files import read_rows
from ..devices import gpu

SCHEME = MxFp8("rceil", DType.BF16)
QKV = Problem(4, 2304, 6144)
STORED = Path(__file__).parents[3] / "docs/results/h200-mxfp8-decode"


H200 = gpu("sm90")
COLUMNS = ("gfx", "M", "N", "K", "dtype", "q_dtype_w", "libtype", "kernelName")
MMA = "mma_mx BLOCK_K=256 BLOCK_M=16 BLOCK_N=128 SPLIT_K=4 kernel=bf16 num_stages=3 num_warps=4"


def table(folder, *lines, columns=COLUMNS):
    path = Path(folder, "dispatch.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *lines])
    return DispatchMx(path)


def line(m, kernel, arch="sm90"):
    return arch, m, 2304, 6144, "bf16", "mxfp8-rceil", kernel.split()[0], kernel


def problem_of(row):
    sizes = {name: int(row[name]) for name in ("M", "N", "K", "E", "top_k") if row.get(name)}
    return Problem(**sizes, op=Op.MOE_GEMM if "E" in sizes else Op.GEMM)


@pytest.mark.parametrize(
    ("dispatch", "scheme", "count", "run", "names"),
    [
        (DISPATCH, SCHEME, 105, "h200-mxfp8-decode", {"cuda_mx", "gemv_mx"}),
        (MOE, MxFp8Moe("rceil", DType.BF16), 62, "h200-mxfp8-moe", {"grouped_moe", "guarded_moe", "gemv_moe"}),
    ],
    ids=["mx", "moe"],
)
def test_the_shipped_table_runs_what_the_stored_run_found_fastest(dispatch, scheme, count, run, names):
    rows = read_rows(dispatch.tables / "dispatch_sm90.csv")
    assert len(rows) == count
    assert {row["run"] for row in rows} == {run}
    assert {row["libtype"] for row in rows} == names
    assert {row["status"] for row in rows} == {"engaged"}, "the plain kernel wins nowhere on this GPU"
    for row in rows:
        choice = dispatch.choose(problem_of(row), scheme, H200)
        assert str(choice) == f"{row['libtype']}: by its row of the table"
        options = " ".join(f"{name}={value}" for name, value in sorted(choice.config.items()))
        assert f"{row['libtype']} {options}" == row["kernelName"]
    measured = {(int(row["N"]), int(row["K"])) for row in rows}
    assert dispatch is MOE or measured == {(shape.N, shape.K) for shape in shapeset.load("mxfp8_decode")}


@pytest.mark.parametrize(
    ("incumbent", "challenger", "used"), [("small_tile_mx", "gemv_mx", "1"), ("gemv_mx", "small_tile_mx", "0")]
)
def test_a_table_of_rooflens_dispatch_is_what_the_dispatcher_runs(tmp_path, incumbent, challenger, used):
    argv = ["dispatch", str(STORED), "--incumbent", incumbent, "-p", challenger, "--policy", "table", "--emit", "csv"]
    assert main([*argv, "-o", str(tmp_path)]) == 0
    rows = [row for row in read_rows(tmp_path / "dispatch.csv") if int(row["M"]) <= 16]
    assert {(row["use_challenger"], row["libtype"]) for row in rows} == {(used, "gemv_mx")}
    mine = DispatchMx(tmp_path / "dispatch.csv")
    for row in rows:
        problem = problem_of(row)
        assert str(mine.choose(problem, SCHEME, H200)) == "gemv_mx: by its row of the table"


def test_a_row_decides_over_the_rule_up_to_its_m(tmp_path):
    mine = table(tmp_path, line(4, MMA), line(64, "stock_triton_mx"))
    exact = mine.choose(QKV, SCHEME, H200)
    assert str(exact) == "mma_mx: by its row of the table"
    assert (exact.config["BLOCK_N"], exact.config["SPLIT_K"], exact.config["kernel"]) == (128, 4, "bf16")
    below = mine.choose(Problem(3, 2304, 6144), SCHEME, H200)
    assert str(below) == "mma_mx: by the row of M=4"
    assert below.config == below.provider.candidates(Problem(3, 2304, 6144), SCHEME, H200)[0]
    assert str(mine.choose(Problem(32, 2304, 6144), SCHEME, H200)) == "stock_triton_mx: by the row of M=64"
    assert str(mine.choose(Problem(4, 2305, 6144), SCHEME, H200)) == "gemv_mx: by rule: no row of the table"
    assert str(mine.choose(QKV, SCHEME, gpu("gfx950"))) == "gemv_mx: by rule: no row of the table", "another GPU's"
    assert mine.choose(QKV, MxFp8("floor", DType.BF16), H200).provider.name == "mma_mx", "rounding takes no time"


@pytest.mark.parametrize("m", [17, 32, 64, 65])
def test_what_was_not_measured_beyond_the_gemv_goes_to_the_stock_kernel(m):
    for device in (H200, gpu("gfx950")):
        choice = DISPATCH.choose(Problem(m, 256, 1024), SCHEME, device)
        assert str(choice) == f"stock_triton_mx: M={m} is above 16 and has no row of the table"
    assert DISPATCH.choose(Problem(16, 256, 1024), SCHEME, H200).provider.name == "gemv_mx"


def test_a_gemv_of_one_row_is_another_kernel_than_the_mma_on_gfx950():
    device, problem = gpu("gfx950", 256), Problem(1, 2304, 6144)
    gemv, mma = (
        DISPATCH.kernels[place].builds(
            problem, SCHEME, device, DISPATCH.kernels[place].candidates(problem, SCHEME, device)[0]
        )
        for place in (1, 2)
    )
    assert gemv[0].kernel != mma[0].kernel


@pytest.mark.parametrize(
    ("problem", "device", "reasons"),
    [
        (Problem(65, 256, 1056), H200, ("M=65 is above 16", "K=1056 is not a multiple of 128")),
        (Problem(128, 262144, 8192), H200, ("M=128 is above 16", "W has 2147483648 elements: its offsets are 32-bit")),
        (Problem(128, 256, 1024), gpu("gfx90a"), ("M=128 is above 16", "dot_scaled may abort inside LLVM on gfx90a")),
        (Problem(128, 256, 1024), gpu("sm80"), ("M=128 is above 16", "needs sm89 or newer")),
    ],
)
def test_what_nobody_takes_is_refused_with_all_reasons(problem, device, reasons):
    with pytest.raises(RooflensError, match="no kernel takes") as error:
        DISPATCH.choose(problem, SCHEME, device)
    answer = DISPATCH.supports(problem, SCHEME, device)
    assert not answer.ok
    for reason in reasons:
        assert reason in str(error.value)
        assert reason in answer.reason


def test_more_than_2_gib_of_weights_is_fine_for_kernels_with_64_bit_offsets():
    assert DISPATCH.choose(Problem(1, 262144, 16384), SCHEME, H200).provider.name == "gemv_mx"


GOOD = line(4, MMA)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([(*GOOD[:1], "x", *GOOD[2:])], "line 2: invalid literal.*; give a file of rooflens dispatch"),
        ([(*GOOD[:1], 0, *GOOD[2:])], "line 2: M=0 is not a size"),
        ([(*GOOD[:5], "mxfp7", *GOOD[6:])], "line 2: .*mxfp7"),
        ([(*GOOD[:7], "gemv_mx")], "line 2: kernelName 'gemv_mx' is not libtype 'mma_mx'"),
        ([(*GOOD[:7], "mma_mx tile")], "line 2: kernelName 'mma_mx tile': options are written NAME=VALUE"),
        ([GOOD, GOOD], "line 3: M=4 N=2304 K=6144 appears twice"),
        ([GOOD[:5]], "line 2: 5 fields instead of 8"),
    ],
)
def test_a_wrong_table_names_the_line(tmp_path, lines, message):
    with pytest.raises(UsageError, match=message):
        table(tmp_path, *lines).choose(QKV, SCHEME, H200)


def test_a_table_that_is_missing_or_names_a_stranger_says_so(tmp_path):
    with pytest.raises(UsageError, match="no such dispatch table"):
        DispatchMx(tmp_path / "none.csv").choose(QKV, SCHEME, H200)
    with pytest.raises(UsageError, match="column 'dtype' is missing"):
        table(tmp_path, columns=COLUMNS[:4]).choose(QKV, SCHEME, H200)
    (tmp_path / "other").mkdir()
    with pytest.raises(RooflensError, match="names 'aiter_mx', but only cuda_mx, gemv_mx, mma_mx"):
        table(tmp_path / "other", line(4, "aiter_mx")).choose(QKV, SCHEME, H200)
