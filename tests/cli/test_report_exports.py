"""`rooflens report` in the formats of other tools: what their own rules accept, with the planted times in it."""

import csv
import json
import re
from itertools import product
from pathlib import Path

import jsonschema
import pandas as pd
import pytest
from rooflens.analysis.imports.read import read
from rooflens.cli.main import main
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
FORMATS = ("github-benchmark", "github-benchmark-rates", "bencher", "pytorch-benchmark", "aiter")

GITHUB_BENCHMARK = {
    # benchmark-action/github-action-benchmark @c38cce9, src/extract.ts: BenchmarkResult, and "No benchmark result was
    # found" of an empty array. It coerces other types to these.
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "value": {"type": "number"},
            "range": {"type": "string"},
            "unit": {"type": "string"},
            "extra": {"type": "string"},
        },
        "required": ["name", "value", "unit"],
        "additionalProperties": False,
    },
}

BENCHER = {
    # bencherdev/bencher @97800d1, services/console/public/bmf.json
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
                    "required": ["value"],
                }
            },
        }
    },
}

_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}


def _tuple(**types):
    return {"type": "object", "properties": types, "additionalProperties": False}


_TEXT = {"type": "string"}
PYTORCH = {
    # pytorch/test-infra @3c0eb5c, clickhouse_db_schema/oss_ci_benchmark_v3/schema.sql; @630cc2d,
    # .github/scripts/upload_benchmark_results.py adds the columns that are not here; it drops a record without metric.
    "type": "array",
    "items": {
        **_tuple(
            benchmark=_tuple(name=_TEXT, mode={"enum": ["training", "inference"]}, dtype=_TEXT, extra_info=_TEXTS),
            model=_tuple(
                name=_TEXT, type=_TEXT, backend=_TEXT, origins={"type": "array", "items": _TEXT}, extra_info=_TEXTS
            ),
            inputs={"type": "object", "additionalProperties": _tuple(dtype=_TEXT, extra_info=_TEXTS)},
            dependencies={
                "type": "object",
                "additionalProperties": _tuple(repo=_TEXT, branch=_TEXT, sha=_TEXT, version=_TEXT, extra_info=_TEXTS),
            },
            metric=_tuple(
                name=_TEXT,
                benchmark_values={"type": "array", "items": {"type": "number"}, "minItems": 1},
                target_value={"type": "number"},
                extra_info=_TEXTS,
            ),
        ),
        "required": ["benchmark", "model", "metric"],
    },
}


@pytest.fixture
def exported(plant, invoke):
    """Return what a format makes of an exact run."""

    def export(name, **what):
        plant("planted", **EXACT | what)
        return invoke("report", "planted", f"--{name}", "-").out

    return export


def test_records_name_the_version_that_measured(exported):
    records = json.loads(exported("pytorch-benchmark", manifest={"environment": {"rooflens": "0.0.7"}}))
    assert records[0]["dependencies"]["rooflens"]["version"] == "0.0.7"


@pytest.mark.parametrize("others", [("--bencher", "./same"), ("--html", "same")])
def test_two_formats_in_one_file_would_lose_the_first(plant, tmp_path, invoke, others):
    plant("planted", **EXACT)
    assert "would both write" in invoke("report", "planted", "--github-benchmark", "same", *others, code=2).err
    assert not Path("same").exists()


def test_github_action_benchmark_takes_times_and_rates(exported):
    times, rates = (json.loads(exported(name)) for name in FORMATS[:2])
    for entries in (times, rates):
        jsonschema.validate(entries, GITHUB_BENCHMARK)
        assert len({entry["name"] for entry in entries}) == len(entries) == 12
    name = "dequant_blas: toy gate/up M=16 N=512 K=2048 gemm fwd bf16 nf4-g64 cold"
    (time,) = (entry for entry in times if entry["name"] == name)
    (rate,) = (entry for entry in rates if entry["name"] == name)
    assert (time["value"], time["unit"]) == (488.0, "us")
    assert (rate["value"], rate["unit"]) == (float(f"{2 * 16 * 512 * 2048 / 488e-6 / 1e12:.6g}"), "TFLOPS")
    low, high = map(float, re.fullmatch(r"95%: (\S+) to (\S+)", time["range"]).groups())
    assert low <= 488 <= high
    assert "3 rounds" in time["extra"].splitlines()


def test_bencher_takes_the_times_and_their_intervals(exported):
    found = json.loads(exported("bencher", round_noise=0.01))
    jsonschema.validate(found, BENCHER)
    assert max(map(len, found)) <= 1024
    for name, measures in found.items():
        for metric in measures.values():
            assert metric["lower_value"] < metric["value"] < metric["upper_value"]
        flops = 2 * 512 * 2048 * int(re.search(r" M=(\d+) ", name)[1])
        assert measures["latency"]["value"] / 1e9 * measures["throughput"]["value"] == pytest.approx(flops, rel=1e-5)


def test_pytorch_takes_one_record_per_cell_and_metric(exported):
    records = json.loads(exported("pytorch-benchmark"))
    jsonschema.validate(records, PYTORCH)
    assert len(records) == 24
    first, second, *_ = records
    assert first["model"] == second["model"]
    assert first["metric"]["benchmark_values"] == [20.0] * 3, "one median per round, in us"
    assert second["metric"]["name"] == "tflops"
    assert first["benchmark"]["mode"] == "inference"


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


def test_parquet_has_every_cell_with_and_without_a_time(plant, tmp_path):
    plant("planted", **EXACT, failures=lambda cell: ("oom", "no memory") if cell.M == 16 else None)
    assert main(["report", "planted", "--parquet", "cells.parquet"]) == 0
    cells = pd.read_parquet(tmp_path / "cells.parquet")
    assert cells.groupby("verdict").size().to_dict() == {"passed": 6, "oom": 6}
    assert cells.loc[cells["verdict"] == "oom", "time_s"].isna().all()
    passed = cells[cells["verdict"] == "passed"]
    assert passed["time_s"].tolist() == pytest.approx([TIME_S[name] for name in passed["provider"]])
    assert set(cells["run"]) == {"planted"}


def test_a_cell_keeps_its_name_whatever_else_is_measured(exported):
    alone = json.loads(exported("bencher", providers=("simt_4bit", "dequant_blas"), Ms=(16,), shapes=SHAPES[1:]))
    assert set(alone) < set(json.loads(exported("bencher", caches=("cold", "warm"), dtypes=("bf16", "fp16"))))


def test_what_failed_or_cannot_be_is_not_exported(exported):
    """No memory delivers the operands of blas in a nanosecond."""
    names = json.loads(exported("bencher", failures=lambda cell: ("oom", "") if cell.M == 16 else None))
    assert len(names) == 6
    assert not any("M=16" in name for name in names)
    faster = {"latency": lambda cell: 1e-9 if cell.provider == "blas" else 1e-4, "machine": H200}
    assert {name.partition(":")[0] for name in json.loads(exported("bencher", **faster))} == set(PROVIDERS[:2])


def test_several_files_and_a_report_at_once(plant, tmp_path, invoke):
    plant("planted", **EXACT)
    out = invoke("report", "planted", "--bencher", "b.json", "--parquet", "c.parquet", "--text", "r.txt").out
    assert out.split() == ["b.json", "c.parquet", "r.txt"]
    assert not (tmp_path / "runs" / "planted" / "report.html").exists()


@pytest.mark.parametrize(
    "what, arguments, words",
    [
        ({}, ["planted", "planted", "--bencher", "-"], "exports one run"),
        ({}, ["planted", "--bencher", "-", "--json", "-"], "only one of --bencher - and --json -"),
        ({}, ["planted", "--parquet", "-"], "--parquet -: it cannot be printed"),
        ({"failures": lambda cell: ("oom", "")}, ["planted", "--bencher", "-"], "no cell with a time to export"),
        ({"providers": ("blas",), "baseline": "blas"}, ["planted", "--aiter", "-"], "other than of references"),
    ],
)
def test_what_cannot_be_exported_is_one_line(plant, invoke, what, arguments, words):
    plant("planted", **EXACT | what)
    out, err = invoke("report", *arguments, code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert words in err


def test_an_interval_that_says_nothing_is_not_exported(exported):
    """Two rounds that differ by a large factor: with one degree of freedom the interval spans many decades."""
    what = {"rounds": 2, "latency": lambda cell: 20e-6, "round_noise": 4}
    entries = json.loads(exported("github-benchmark", **what))
    metrics = [metric for one in json.loads(exported("bencher", **what)).values() for metric in one.values()]
    given = [re.fullmatch(r"95%: (\S+) to (\S+)", entry["range"]) for entry in entries if "range" in entry]
    ranges = [tuple(map(float, one.groups())) for one in given]
    assert len(ranges) < len(entries)
    assert all(high <= 1e6 * low for low, high in ranges)
    telling = [metric for metric in metrics if "lower_value" in metric]
    assert len(telling) == 2 * len(ranges)
    assert all(metric["lower_value"] < metric["value"] < metric["upper_value"] for metric in telling)
