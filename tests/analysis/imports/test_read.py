"""Files of other tools become cases, with the times that they state and the step that these were rounded to."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.comparison.versions import pair
from rooflens.analysis.frames.coordinates import CASE, DETAILS
from rooflens.analysis.imports.read import read
from rooflens.shapes.errors import UsageError

DATA = Path(__file__).parents[2] / "data" / "imports"
FILES = sorted(path.name for path in DATA.iterdir())
NEED_HELP = {"aiter_untuned.csv", "aiter_moe_proton.csv", "aiter_perf_report_tflops.csv", "tidy.csv"}


def rows(name, **columns):
    return read(DATA / name, columns or None).frame


def file(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def fails(path, columns=None):
    with pytest.raises(UsageError) as caught:
        read(path, columns)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 700, "names are quoted in part"
    return message


@pytest.mark.parametrize("name", [name for name in FILES if name not in NEED_HELP])
def test_every_format_gives_whole_rows(name):
    frame = rows(name)
    assert [*frame.columns] == [*CASE, "verdict", "reason", "time_s", "resolution_s", "flops", "device", *DETAILS]
    assert not frame[[*CASE, *DETAILS, "verdict", "reason"]].isna().any().any()
    assert not frame.duplicated([*CASE]).any()
    passed = frame["verdict"] == "passed"
    assert passed.any()
    assert (frame.loc[passed, "time_s"] > 0).all()
    assert frame.loc[~passed, "time_s"].isna().all()
    assert (frame.loc[~passed, "reason"] != "").all()
    assert (frame["resolution_s"] >= 0).all()


def test_primus_rows_become_two_passes():
    imported = read(DATA / "primus.csv")
    frame = imported.frame
    assert imported.source == "Primus-Turbo benchmark"
    assert imported.device == "MI355X"
    assert imported.rounding == {"Forward Time (ms)": "2 decimals", "Backward Time (ms)": "2 decimals"}
    assert frame["pass"].tolist() == ["fwd", "bwd"] * 4
    assert frame["verdict"].tolist() == ["passed"] * 2 + ["incorrect"] * 2 + ["runtime_error"] * 2 + ["passed"] * 2
    assert frame.loc[[0, 1], "time_s"].tolist() == [0.30e-3, 0.70e-3]
    assert frame.loc[0, "resolution_s"] == pytest.approx(1e-5)
    # the file's own TFLOPS, from the unrounded times of two decimals here
    assert frame.loc[0, "flops"] / frame.loc[0, "time_s"] / 1e12 == pytest.approx(1374.39, abs=0.01)
    assert frame.loc[7, "flops"] / frame.loc[7, "time_s"] / 1e12 == pytest.approx(1231.22, abs=0.01)


def test_primus_notes_say_what_the_script_does(tmp_path):
    notes = "\n".join(read(DATA / "primus.csv").notes)
    assert "Check FAIL in 1 rows" in notes
    assert "Check ERROR in 1 rows, which the script averages as 0 TFLOPS" in notes
    assert "never cleared" in notes
    assert "cannot follow" not in notes
    text = (DATA / "primus.csv").read_text("utf-8").replace("1374.39", "2748.78")
    (note,) = [note for note in read(file(tmp_path, text)).notes if "cannot follow" in note]
    assert "line 2: Forward TFLOPS 2748.78 cannot follow from 0.30 ms" in note


def test_primus_groups_have_m_rows_each():
    frame = rows("primus_grouped.csv")
    assert frame.loc[0, ["op", "M", "E"]].tolist() == ["grouped_gemm", 8 * 2048, 8]
    assert frame.loc[0, "flops"] == 2 * 8 * 2048 * 4096 * 7168


def test_aiter_library_is_a_result_not_a_case():
    frame = rows("aiter_blockscale.csv")
    assert set(frame["provider"]) == {"aiter"}
    assert frame.loc[1, "config"] == "libtype=asm kernelId=6 splitK=0"
    assert frame.loc[0, "time_s"] == 4.8294e-6
    assert frame.loc[1, "resolution_s"] == pytest.approx(1e-10)  # 4.907 is 4.9070
    assert frame.loc[2, ["verdict", "reason"]].tolist() == ["unsupported", "time is inf in the file: no candidate ran"]
    assert any("errRatio of 2 rows is above 0.05" in note for note in read(DATA / "aiter_blockscale.csv").notes)


def test_aiter_bias_and_storage_tell_cases_apart():
    frame = rows("aiter_bf16.csv")
    assert frame["layer"].tolist() == ["gemm bias=False", "gemm bias=True", "gemm bias=False"]
    assert frame["scheme"].nunique() == 2
    assert frame["dtype"].unique().tolist() == ["bfloat16"]


def test_devices_tell_cases_apart_where_a_table_has_several(tmp_path):
    """Also where it is the other one: base has one device, and head two."""
    text = (DATA / "aiter_batched.csv").read_text("utf-8")
    both = read(file(tmp_path, text + text.splitlines()[1].replace("gfx942,304", "gfx950,256") + "\n"))
    assert both.frame["device"].tolist() == ["gfx942 304 CU", "gfx950 256 CU"]
    cases = pair(read(DATA / "aiter_batched.csv"), both).cases
    assert cases["provider"].tolist() == ["aiter (gfx942 304 CU)", "aiter (gfx950 256 CU)"]
    assert (cases["base_verdict"] != "").tolist() == [True, False]


@pytest.mark.parametrize("name, count", [("aiter_fmoe.csv", 2), ("aiter_batched.csv", 1)])
def test_aiter_flops_are_those_that_its_own_rates_count(name, count):
    """The tables print TFLOPS beside the times: an independent statement of the FLOPs."""
    header, first, *_ = (DATA / name).read_text("utf-8").splitlines()
    printed = float(dict(zip(header.split(","), first.split(","), strict=True))["tflops"])
    frame = rows(name)
    assert len(frame) == count  # one row of fmoe is without its last empty field
    assert frame.loc[0, "flops"] / frame.loc[0, "time_s"] / 1e12 == pytest.approx(printed, abs=0.005)


def test_aiter_moe_needs_a_choice_of_latency():
    message = fails(DATA / "aiter_moe_proton.csv")
    assert "--column time_us=kernel_latency_us" in message
    kernel = rows("aiter_moe_proton.csv", time_us="kernel_latency_us")
    total = rows("aiter_moe_proton.csv", time_us="total_latency_us")
    assert kernel["time_s"].tolist() == [180.25e-6, 205.5e-6]
    assert total["time_s"].tolist() == [212.5e-6, 240.125e-6]
    assert set(kernel["provider"]) != set(total["provider"])  # never compared with each other
    assert kernel["M"].tolist() == [16, 32]
    # the file's own rate is of the kernel latency
    assert kernel.loc[0, "flops"] / kernel.loc[0, "time_s"] / 1e12 == pytest.approx(95.2, rel=1e-4)


def test_perf_report():
    frame = rows("aiter_perf_report.csv")
    assert frame[["M", "N", "K"]].to_numpy().tolist() == [[1, 2112, 7168], [128, 2112, 7168]]
    assert frame["time_s"].tolist() == [12.345e-6, 18.12e-6]
    assert frame["resolution_s"].tolist() == pytest.approx([1e-9, 1e-9])
    models = read(DATA / "aiter_perf_report_model.csv")
    assert len(models.frame) == 4
    assert models.frame["flops"].isna().all()
    assert any("depend on tp" in note for note in models.notes)


def test_tritonbench_providers_failures_and_average():
    frame = rows("tritonbench.csv")
    assert frame["provider"].tolist() == ["aten_matmul", "triton-tutorial"] * 3
    assert frame["verdict"].tolist() == ["passed", "passed", "passed", "oom", "passed", "runtime_error"]
    assert frame.loc[5, "reason"] == "Triton Error [HIP]: invalid argument"
    assert frame.loc[2, "time_s"] == 0.22848e-3
    assert frame["M"].tolist() == [256, 256, 4096, 4096, 8192, 8192]


@pytest.mark.parametrize(
    "text, column, values",
    [
        ("x_val;a-latency\n4096;0.0123\n8192;0.0223\naverage;0.0173\n", "layer", ["x_val=4096", "x_val=8192"]),
        ("(M, N, K);a-tflops;a-latency\n(1, 2, 3);no;\n(2, 2, 3);1.0;0.5\n", "reason", ["no", ""]),
        (" ,M,N,K,time_ms\ngemv,1,2,3,0.5\n", "M", [1]),  # a column without a name is none of the problem
        ("M,N,K,time per iter (ms)\n1,2,3,4\n", "time_s", [4e-3]),
        ("M,N,K,ms/token\n1,2,3,4\n", "time_s", [4e-3]),
        ("M,N,K,Time (s)\n1,2,3,4\n", "time_s", [4.0]),
        ("tokens,M,N,K,time_ms\n7,1,2,3,4\n", "M", [1]),  # names of sizes win over other words
        (
            "M,N,K,time_ms\n1,2,3,0.00\n2,2,3,0.01\n",
            "reason",
            ["time is 0.00 in the file: not timed, or less than half a step", ""],
        ),
        ("M,N,K,time_ms,verdict\n1,2,3,0.5,FAIL\n2,2,3,0.5,ok\n", "verdict", ["incorrect", "passed"]),
        ("M,N,K,time_ms,verdict\n1,2,3,0.5,FAIL\n2,2,3,0.5,ok\n", "time_s", [None, 5e-4]),  # taken away
        # B is the layout of operand B, and the time is in us: cells decide over their header.
        ("M,N,K,A,B,time_ms\n1,2,3,row,f16:column,5 us\n", "B", [1]),
        ("M,N,K,A,B,time_ms\n1,2,3,row,f16:column,5 us\n", "time_s", [5e-6]),
        ("M,N,K,Pass,time_ms\n1,4k,3,True,5\n2,4k,3,False,5\n", "pass", ["fwd", "fwd"]),
        ("M,N,K,pass,time_ms\n1,4k,3,bwd,5\n2,4k,3,fwd,5\n", "pass", ["bwd", "fwd"]),
        ("M,N,K,op,time_ms\n1,4k,3,matmul,5\n", "op", ["gemm"]),
        ("M,N,K,e,time_ms\n1,4k,3,8,5\n2,4k,3,0.001,5\n", "E", [1, 1]),
        ("M,N,K,e,time_ms\n1,4k,3,8,5\n2,4k,3,16.0,5\n", "E", [8, 16]),
        ("M,N,K,time_ms\n1,4k,3,5\n", "N", [4096]),
        ("M,N,K,triton (ms),torch (ms)\n1,2,3,0.125000,0.250000\n", "provider", ["triton", "torch"]),
        ("M,N,K,Latency (ms)\n1,2,3,0.125\n", "time_s", [125e-6]),
        ("M,N,K,Latency (ms)\n1,2,3,0.125\n", "provider", ["imported"]),
    ],
)
def test_small_tables(tmp_path, text, column, values):
    frame = read(file(tmp_path, text)).frame
    assert frame[column].astype(object).where(frame[column].notna(), None).tolist() == values


ONE = "M,N,K,time_ms\n7,8,9,0.5\n"
NAMED = "M,N,K,time_ms,op,note\n7,8,9,0.5,conv,great\n"


@pytest.mark.parametrize(
    "text, columns, words",
    [
        ("x_val;a-tflops\n1;2.0\n", None, "--metrics latency"),
        (f"M,N,K,TFLOPS (Throughput ({'x' * 5000}TFLOPS))\n1,2,3,4\n", None, "no times in ms, us or s"),
        ((DATA / "aiter_perf_report_tflops.csv").read_text("utf-8"), None, "--metric time"),
        ((DATA / "aiter_untuned.csv").read_text("utf-8"), None, "untuned table has no times"),
        ('{"benchmarks": [{"name": 1}]}', None, "write it as CSV: M,N,K,provider,time_us"),
        ("{", None, "line 1, column 2"),
        ("M,N,K,time_ms,time_ms\n1,2,3,4,5\n", None, "rename the others"),
        ("M,N,K,time_ms,time_ms\n1,2,3,4,5\n", {"time_ms": "time_ms"}, "rename the others"),
        ("", None, "table.csv"),
        ("M,N,K,time_ms\n", None, "table.csv"),
        (",".join(f"c{at}" for at in range(9999)) + f"\n{'1,' * 9998}1\n", None, "c39, ... (9999 columns) is none of"),
        ("M,N,K,latency\n1,2,3,4\n", None, "its unit is unknown; say it: --column time_ms='latency'"),
        ("M,N,K,time_ms,time_us\n1,2,3,4,5\n", None, "choose one: --column time_ms='time_ms'"),
        ("M,N,K,tflops\n1,2,3,4\n", None, "no column is a time by its name"),
        ("a,b,c,d\n1,2,3,4\n", None, "say what its columns are: --column time_ms=COLUMN"),
        (ONE + "1,2\n", None, "table.csv line 3, column K: 2 fields instead of 4"),
        (ONE + "1,2,3,0.5,9\n", None, "table.csv line 3, column time_ms: 5 fields instead of 4"),
        (ONE + "7,8,9,0.7\n", None, "table.csv line 3: the same case as line 2"),
        (ONE + '"1,2,3,0.5\n', None, "table.csv line 3"),
        (ONE, {"time_us": "time_ms"}, "says ms; write time_ms, or correct the header"),
        (ONE, {"tme_ms": "time_ms"}, "did you mean time_ms"),
        (ONE, {"time_ms": "tim_ms"}, "unknown column 'tim_ms': did you mean time_ms"),
        (ONE, {"time_ms": "time_ms", "time_us": "time_ms"}, "name a time twice"),
        (NAMED, {"op": "op"}, "'conv' is none of gemm"),
        (NAMED.replace("conv", "gemm"), {"verdict": "note"}, "'great' is none of pass"),
    ],
)
def test_what_cannot_be_read_says_where_and_what_to_do(tmp_path, text, columns, words):
    assert words in fails(file(tmp_path, text), columns)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("M,tokens,N,K,triton (ms)\n128,16,64,32,1.5\n", {"M": 128, "N": 64, "K": 32, "layer": "tokens=16"}),
        ("tokens,M,N,K,triton (ms)\n16,128,64,32,1.5\n", {"M": 128, "layer": "tokens=16"}),
        ("cu_num,M,N,K,b,us\n304,16,64,32,True,5\n", {"M": 16, "B": 1}),
        ("cu_num,b,m,n,k,us\n304,2,16,64,32,5\n", {"M": 16, "B": 2}),
    ],
)
def test_a_size_is_said_once_by_its_own_name_first(tmp_path, text, expected):
    (tmp_path / "table.csv").write_text(text)
    (case,) = read(tmp_path / "table.csv").frame.to_dict("records")
    assert {name: case[name] for name in expected} == expected


def test_nvbench_csv_and_json_say_the_same():
    table, document = read(DATA / "nvbench.csv"), read(DATA / "nvbench.json")
    assert table.device == document.device == "NVIDIA H200"
    ours, theirs = table.frame.set_index([*CASE]), document.frame.set_index([*CASE])
    both = theirs.index.intersection(ours.index)
    assert len(both) == 2
    for name in ("verdict", "time_s", "resolution_s", "flops", "note"):
        np.testing.assert_array_equal(ours.loc[both, name].to_numpy(), theirs.loc[both, name].to_numpy())
    assert ours["note"].iloc[0] == "noise 1.23% over single launches"
    assert ours["time_s"].iloc[0] == 1.5652479999999999e-05
    assert theirs["reason"].iloc[1] == "no FP64 decode"
    assert set(table.frame["cache"]) == {"cold"}


@pytest.mark.parametrize("size", ["0", "9" * 5000, "\N{SUPERSCRIPT TWO}"])
def test_nvbench_sizes_are_whole_numbers_that_a_size_may_have(tmp_path, size):
    text = (DATA / "nvbench.csv").read_text().replace(",4096,", f",{size},")
    assert "is not a positive whole number" in fails(file(tmp_path, text))


GOOGLE = [
    {"name": "gemm/M:64/N:32/K:16", "real_time": 2.5, "time_unit": "us"},
    {"name": "gemm/M:64/N:32/K:16", "real_time": 3.5, "time_unit": "us"},
    {"name": "copy/256", "real_time": 1.5, "time_unit": "ms"},
    {"name": "odd", "error_occurred": True, "error_message": "no device"},
]

DATABASE = {
    "benchmark": {"name": "ops", "dtype": "bf16", "extra_info": {"device": "NVIDIA H100"}},
    "model": {"name": "m"},
}

JSON = {
    "Google Benchmark": ({"context": {}, "benchmarks": GOOGLE}, [3e-6, 1.5e-3, np.nan], ["gemm", "copy", "odd"]),
    "pytest-benchmark": (
        {"benchmarks": [{"name": "test_gemm[64]", "params": {"M": 64, "mode": "a"}, "stats": {"median": 0.5}}]},
        [0.5],
        ["test_gemm"],
    ),
    "llama-bench": (
        [{"model_type": "8B", "n_prompt": n, "n_gen": 0, "n_ubatch": 8, "avg_ns": 5e8} for n in (128, 512)],
        [0.5, 0.5],
        ["llama.cpp"] * 2,
    ),
    "PyTorch's benchmark database": (
        [
            {**DATABASE, "metric": {"name": "latency (ms)", "benchmark_values": [1.0, 2.0, 9.0]}},
            {**DATABASE, "metric": {"name": "speedup", "benchmark_values": [1.5]}},
        ],
        [2e-3],
        ["ops"],
    ),
    "tritonbench": (
        {"metrics": {f"tritonbench_gemm_fwd[x_(1, 2, 3)-{name}]_latency": 0.25 for name in ("aten", "ours")}},
        [0.25e-3, 0.25e-3],
        ["aten", "ours"],
    ),
}
"""Tool: a file of it, its times in seconds, and its providers."""


@pytest.mark.parametrize("tool", JSON)
def test_json_of_other_tools(tmp_path, tool):
    content, times, providers = JSON[tool]
    found = read(file(tmp_path, json.dumps(content)))
    assert found.source == tool
    assert found.frame["time_s"].tolist() == pytest.approx(times, nan_ok=True)
    assert found.frame["provider"].tolist() == providers
    assert (found.frame["resolution_s"] == 0).all()
    sized = found.frame["M"] > 1
    assert found.frame.loc[~sized, "flops"].isna().all()
    if tool == "PyTorch's benchmark database":
        assert found.device == "NVIDIA H100"
        assert any("1 results are of speedup, and not read" in note for note in found.notes)
    if tool == "llama-bench":
        line = json.dumps(content[0])
        assert "as llama-bench -o json writes it" in fails(file(tmp_path, f"{line}\n{line}\n"))


def test_parameters_and_tests_of_a_benchmark_tell_cases_apart(tmp_path):
    names = [f"f/M:16/N:32/K:64/split:{split}/block:{48 - split}" for split in (16, 32)]
    content = {"benchmarks": [{"name": name, "real_time": 1.0, "time_unit": "us"} for name in names]}
    extra = [{"name": "f_x", "run_name": "f", "run_type": "aggregate", "aggregate_name": x} for x in ("BigO", "cv")]
    content["benchmarks"] += extra
    found = read(file(tmp_path, json.dumps(content)))
    assert found.frame["layer"].tolist() == ["split=16 block=32", "split=32 block=16"]
    assert [note.partition(": ")[2] for note in found.notes[:2]] == [
        f"1 results are of {name}, and not read" for name in ("BigO", "cv")
    ]
    tests = [{"name": "test_f[1]", "fullname": f"{x}.py::test_f[1]", "stats": {"median": 0.5}} for x in "ab"]
    found = read(file(tmp_path, json.dumps({"benchmarks": tests})))
    assert found.frame["provider"].tolist() == ["a.py::test_f", "b.py::test_f"]


@pytest.mark.parametrize(
    "content, words",
    [
        ({"benchmarks": []}, "list of benchmarks is empty"),
        ({"benchmarks": None}, "list of benchmarks is empty"),
        ({"metrics": [1, None]}, "JSON of an unknown tool (metrics)"),
        ({"results": [{"command": "sleep 1", "mean": 1.0}]}, "is JSON of hyperfine"),
        ({"traceEvents": []}, "is a trace"),
        ({"16": {"BLOCK_SIZE_M": 16}}, "vLLM's tuned configurations, which has no times"),
        ({"a": 1, "b": 2}, "JSON of an unknown tool (a, b)"),
        ([1, 2], "JSON of an unknown tool"),
        *(
            ([{**DATABASE, "metric": {"name": name, "unit": "s", "benchmark_values": [1.0]}}], f"a time, only {name}")
            for name in ("token_per_sec", "memory_bandwidth(GB/s)", "QPS (req/s)")
        ),
    ],
)
def test_json_that_is_not_read_is_named(tmp_path, content, words):
    message = fails(file(tmp_path, json.dumps(content)))
    assert words in message
    if "unknown" in words:
        assert "write what it measured as CSV: M,N,K,provider,time_us" in message


def test_markdown_is_a_table_too(tmp_path):
    path = tmp_path / "table.md"
    path.write_text(
        "## Times\n\n| M | N | K | time |\n|--|--|--|--|\n| 1 | 2 | 3 | 12.5 us |\n| 2 | 2 | 3 | 1.5 ms |\n"
    )
    frame = read(path).frame
    assert frame["time_s"].tolist() == [12.5e-6, 1.5e-3]
    assert frame["resolution_s"].tolist() == pytest.approx([1e-7, 1e-4])
    path.write_text(2 * path.read_text())
    assert "has 2 tables" in fails(path)


def test_tidy_with_a_map():
    columns = {"time_ms": "Latency (ms)", "M": "m", "N": "n", "K": "k", "provider": "kernel"}
    imported = read(DATA / "tidy.csv", columns)
    assert imported.frame["provider"].tolist() == ["gemv", "gemv", "mma"]
    assert imported.frame["time_s"].tolist() == [12.3e-6, 12.5e-6, 21.0e-6]
    assert imported.frame["resolution_s"].tolist() == pytest.approx([1e-7] * 3)
    assert imported.notes == (f"{DATA / 'tidy.csv'}: columns that were not used: comment",)


def test_tidy_with_rates(tmp_path):
    path = file(tmp_path, "M,N,K,pass,rate\n8192,8192,29568,step,1148.1\n")
    frame = read(path, {"tflops": "rate"}).frame
    flops = 6 * 8192 * 8192 * 29568
    assert frame.loc[0, "flops"] == flops
    assert frame.loc[0, "time_s"] == pytest.approx(flops / 1148.1e12)
    exact = flops / 1148.05e12 - flops / 1148.15e12
    assert frame.loc[0, "resolution_s"] == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize(
    "line, words",
    [
        ("1,2,0,0.5", "line 3, column K: '0' is not a positive whole number"),
        ("1,2,3.5,0.5", "line 3, column K: '3.5' is not a positive whole number"),
        ("1,2,3,-0.5", "line 3, column time_ms: -0.5 is negative"),
        ("1,2,3,fast", "line 3, column time_ms: 'fast' is not a time"),
    ],
)
def test_rows_with_a_fault_are_skipped_and_counted(tmp_path, line, words):
    found = read(file(tmp_path, f"M,N,K,time_ms\n7,8,9,0.5\n{line}\n"))
    assert found.frame["M"].tolist() == [7]
    assert any(f"1 of 2 rows skipped: {words}" in note for note in found.notes)
    assert words in fails(file(tmp_path, f"M,N,K,time_ms\n\n{line}\n"))  # none is left


RATES = (
    *(
        "tokens_per_s",
        "samples_per_sec",
        "iter_per_sec",
        "Gops_per_second",
        "ops/ms",
        "GB/s (time in s)",
        "QPS (req/s)",
    ),
    *("tok / us", "tok s^-1"),
)
SECONDARY = ("std_us", "compile_time_s", "timestamp_ns", "S", "time saved (us)", "time per 1000 iters (ms)")


@pytest.mark.parametrize("name", [*RATES, *SECONDARY])
def test_rates_and_secondary_columns_are_never_the_time(tmp_path, name):
    words = "no column is a time by its name|no times in ms, us or s"
    assert re.search(words, fails(file(tmp_path, f"M,N,K,{name}\n1,2,3,4\n")))
    assert "--column time_ms=COLUMN" in fails(file(tmp_path, f"M,N,K,gflops,{name},x\n1,2,3,4,5,a\n"))
    assert read(file(tmp_path, f"M,N,K,{name},time_ms\n1,2,3,4,5\n")).frame.loc[0, "time_s"] == 5e-3


@pytest.mark.parametrize(
    "mark, cells, times",
    [
        (";", ("0,950", "1,234"), [0.95e-3, 1.234e-3]),
        (";", ("0,95 us", "12,5 us"), [0.95e-6, 12.5e-6]),
        (";", ("1,234.5", "0,95"), None),
        (";", ("1.234,5", "0,95"), None),
        (",", ("0,950", "1,234"), None),
        (",", ("1,000", "1,234"), [1.0, 1.234]),
    ],
)
def test_decimal_commas(tmp_path, mark, cells, times):
    rows = [mark.join((str(at), "2", "3", cell if mark == ";" else f'"{cell}"')) for at, cell in enumerate(cells, 1)]
    path = file(tmp_path, "\n".join([mark.join(("M", "N", "K", "time_ms")), *rows]) + "\n")
    if times is None:
        assert "write a point" in fails(path)
    else:
        assert read(path).frame["time_s"].tolist() == pytest.approx(times)


@pytest.mark.parametrize("index", [True, False])
def test_what_pandas_prints_is_read(tmp_path, index):
    frame = pd.DataFrame({"M": [16, 4096], "N": 8, "K": 8, "provider": ["a", "triton"], "time_us": [100.0, 1.25]})
    (tmp_path / "frame.txt").write_text(frame.to_string(index=index))
    found = read(tmp_path / "frame.txt").frame
    assert found["M"].tolist() == [16, 4096]
    assert found["provider"].tolist() == ["a", "triton"]
    assert found["time_s"].tolist() == pytest.approx([100e-6, 1.25e-6])


def test_files_that_cannot_be_read(tmp_path):
    assert "No such file" in fails(tmp_path / "absent.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    assert "not a text file" in fails(tmp_path / "binary.csv")
    with pytest.raises(UsageError, match=r"^head line 1: "):
        read(tmp_path / "binary.csv", at="head")


@pytest.mark.parametrize("header", ["M,N,K,us", "gfx,cu_num,M,N,K,libtype,us"])
def test_a_time_of_a_wrong_output_is_none_in_any_format(header, tmp_path):
    rows = [f"{_row(header, 8, 12.5)},True", f"{_row(header, 16, 12.5)},False", f"{_row(header, 32, 'inf')},False"]
    (tmp_path / "t.csv").write_text("\n".join([f"{header},Pass", *rows]) + "\n")
    found = read(tmp_path / "t.csv")
    assert found.frame["verdict"].tolist() == ["passed", "incorrect", "unsupported"]
    assert found.frame["time_s"].isna().tolist() == [False, True, True]
    assert found.frame["reason"].tolist()[:2] == ["", "wrong output: Pass"]
    if "gfx" not in header:
        assert read(tmp_path / "t.csv", {"layer": "Pass"}).frame["reason"][1] == "", "its role is another"
    assert not any("Pass" in note for note in found.notes)


def _row(header, M, us):
    values = {"gfx": "gfx950", "cu_num": 256, "M": M, "N": 512, "K": 512, "libtype": "ck", "us": us}
    return ",".join(str(values[name]) for name in header.split(","))
