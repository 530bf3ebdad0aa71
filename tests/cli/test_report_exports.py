"""`rooflens report` in the formats of other tools, with the planted times in it."""

import csv
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from rooflens.analysis.imports.read import read
from rooflens.kernels.dispatch_table import DispatchRow, find_row, read_table
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

from ..analysis.synthetic import H200

SHAPES = (("toy", "gate/up", 512, 2048), ("toy", "down", 2048, 512))
PROVIDERS = ("simt_4bit", "dequant_blas", "blas")
TIME_S = {"simt_4bit": 20e-6, "dequant_blas": 30.5e-6, "blas": 10e-6}
EXACT = {
    "shapes": SHAPES, "Ms": (1, 16), "providers": PROVIDERS, "samples": 4, "round_noise": 0, "sample_noise": 0,
    "latency": lambda cell: TIME_S[cell.provider] * cell.M,
}  # fmt: skip


@pytest.fixture
def exported(plant, invoke):
    """Return what a format makes of an exact run."""

    def export(name, **what):
        plant("planted", **EXACT | what)
        return invoke("report", "planted", "-o", f"{name}=-").out

    return export


def test_aiters_table_comes_back_to_the_last_digit(exported, tmp_path):
    (tmp_path / "tuned.csv").write_text(text := exported("aiter", dtypes=("bf16", "fp16")))
    rows = list(csv.DictReader(text.splitlines()))
    # header of aiter/configs/a8w8_bpreshuffle_tuned_gemm.csv, ROCm/aiter @e404860, and the activation type
    header = "gfx,cu_num,M,N,K,dtype,q_dtype_w,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio"
    assert text.splitlines()[0] == header
    assert {row["libtype"] for row in rows} == {"simt_4bit"}, "a reference is faster, and no kernel for these weights"
    imported = read(tmp_path / "tuned.csv")
    assert imported.source == "aiter tuned table"
    assert [f"{time * 1e6:.6g}" for time in imported.frame["time_s"]] == [row["us"] for row in rows]
    sizes = ["M", "N", "K", "dtype"]
    assert imported.frame[sizes].astype(str).to_numpy().tolist() == [[row[name] for name in sizes] for row in rows]
    assert imported.frame["kernels"].tolist() == [row["kernelName"] for row in rows]


def test_a_dispatcher_runs_what_aiters_table_says(exported, tmp_path):
    """The fastest provider of each problem and type, with its configuration, and nothing where nothing was measured."""
    faster = {"bf16": "gemv_4bit", "fp16": "simt_4bit"}
    configs = {"gemv_4bit": {"BLOCK_N": 16, "EVEN": True, "SPLIT_K": 4}, "simt_4bit": {}}
    (tmp_path / "tuned.csv").write_text(
        exported(
            "aiter",
            dtypes=("bf16", "fp16"),
            providers=("simt_4bit", "gemv_4bit", "dequant_blas"),
            latency=lambda cell: cell.M * (1e-5 if cell.provider == faster[cell.dtype] else 2e-5),
            columns=lambda cell, round_: {"config": configs.get(cell.provider, {})},
        )
    )
    table = read_table(tmp_path / "tuned.csv")
    assert sum(map(len, table.values())) == 2 * 2 * 2  # M, shapes, types
    for (dtype, provider), (_, _, n, k), M in product(faster.items(), SHAPES, (1, 16)):
        found = find_row(table, Problem(M, n, k), parse_scheme("nf4-g64", DType(dtype)), "x86-64-avx512")
        assert found == DispatchRow(M, provider, configs[provider])
    assert find_row(table, Problem(17, n, k), parse_scheme("nf4-g64", DType.BF16), "x86-64-avx512") is None


def test_an_impossible_time_wins_no_row_of_aiters_table(exported):
    """No memory delivers the operands in a nanosecond."""
    text = exported("aiter", latency=lambda cell: 1e-9 if cell.provider == "simt_4bit" else 1e-4, machine=H200)
    assert {row["libtype"] for row in csv.DictReader(text.splitlines())} == {"dequant_blas"}


def test_parquet_has_every_cell_with_and_without_a_time(plant, tmp_path, invoke):
    plant("planted", **EXACT, failures=lambda cell: ("oom", "no memory") if cell.M == 16 else None)
    out = invoke("report", "planted", "-o", "aiter=a.csv", "-o", "cells.parquet", "-o", "r.txt").out
    assert out.split() == ["a.csv", "cells.parquet", "r.txt"]
    assert not (tmp_path / "runs" / "planted" / "report.html").exists()
    cells = pd.read_parquet(tmp_path / "cells.parquet")
    assert cells.groupby("verdict").size().to_dict() == {"passed": 6, "oom": 6}
    assert cells.loc[cells["verdict"] == "oom", "time_s"].isna().all()
    passed = cells[cells["verdict"] == "passed"]
    assert passed["time_s"].tolist() == pytest.approx([TIME_S[name] for name in passed["provider"]])
    assert set(cells["run"]) == {"planted"}


@pytest.mark.parametrize(
    "what, arguments, words",
    [
        ({}, ["planted", "planted", "-o", "aiter=-"], "aiter is of one run"),
        ({}, ["planted", "-o", "aiter=same", "-o", "parquet=./same"], "aiter and parquet would both be written"),
        ({}, ["planted", "-o", "aiter=-", "-o", "json=-"], "only one of aiter=- and json=-"),
        ({"failures": lambda cell: ("oom", "")}, ["planted", "-o", "aiter=-"], "no time of a GEMM's forward pass"),
        ({}, ["planted", "-o", "r.pdf"], "end it with .html, .md, .txt, .json, .parquet, or write FORMAT=FILE (html, "),
        ({"providers": ("blas",), "baseline": "blas"}, ["planted", "-o", "aiter=-"], "other than of references"),
    ],
)
def test_what_cannot_be_exported_is_one_line(plant, invoke, what, arguments, words):
    plant("planted", **EXACT | what)
    out, err = invoke("report", *arguments, code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
    assert not Path("same").exists()
