"""`rooflens calibrate`: what it prints for readers and for programs, what it refuses, and what it keeps quiet."""

import json
import os
import warnings

import pandas as pd
import pytest
import torch
from rooflens.analysis.roofline.ceilings import Ceilings
from rooflens.harness.ceilings import probe as harness
from rooflens.shapes.run_folder.columns import CEILINGS
from rooflens.shapes.scheme import DType

from ..csv_files import read_rows


def row(ceiling, level, pattern, dtype, value, kind="measured", source="how it was done"):
    units = {"bandwidth": "byte/s", "peak": "FLOP/s", "launch": "s"}
    values = (ceiling, level, pattern, dtype, value, units[ceiling], kind, source)
    return dict(zip(CEILINGS.names, values, strict=True))


ROWS = [
    row("bandwidth", "dram", "read", "", 4.32e12),
    row("bandwidth", "llc", "read", "", 6.1e12),
    row("peak", "", "gemm", "bf16", 494.7e12),
    row("launch", "", "empty warm", "", 2.25e-6),
    row("bandwidth", "dram", "", "", 4.8e12, "spec", "a data sheet"),
    row("peak", "", "gemm", "bf16", 989.4e12, "spec", "a data sheet"),
    row("peak", "", "gemm", "fp32", 67e12, "spec", "a data sheet"),
]
LOW = "measured bf16 gemm peak is only 50% of the published 9.894e+14 FLOP/s"


@pytest.fixture
def capsys(capfd):
    """What libraries write counts as well."""
    return capfd


@pytest.fixture
def asked(monkeypatch):
    """Put planted ceilings in the place of the measurement; return what it was asked for."""
    asked = {}

    def calibrate(device, machine, dtypes, timer_name):
        asked.update(device=device, dtypes=list(dtypes), timer=timer_name)
        os.write(1, b"a compiler says hello\n")
        os.write(2, b"a driver says hello\n")
        print("a library says hello")
        warnings.warn("a library warns", stacklevel=1)
        return asked.get("rows", ROWS), {"low": LOW}

    monkeypatch.setattr(harness, "calibrate", calibrate)
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield asked
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


def test_table_has_measured_published_and_share(asked, invoke):
    shown = invoke("calibrate", "--device", "cpu", "--dtype", "bf16")
    title, header, *lines = shown.out.splitlines()
    assert title.startswith("on ")
    assert header.split() == ["ceiling", "level", "pattern", "dtype", "measured", "published", "share", "how"]
    assert [" ".join(line.split()) for line in lines] == [
        "bandwidth dram read 4320.0 GB/s 4800.0 GB/s 90% how it was done",
        "bandwidth llc read 6100.0 GB/s how it was done",
        "peak gemm bf16 494.7 TFLOPS 989.4 TFLOPS 50% how it was done",
        "launch empty warm 2.25 µs how it was done",
    ]
    assert shown.err == f"note: {LOW}\n"  # and no word of a library
    assert asked["dtypes"] == [DType.BF16]
    assert asked["timer"] == "auto"


def test_what_was_not_measured_and_what_is_not_published(asked, invoke):
    last = invoke("calibrate", "--device", "cpu").out.splitlines()[-1]
    assert last.split() == ["peak", "gemm", "fp32", "67.0", "TFLOPS"]
    assert asked["dtypes"] == [*DType, "fp8"]
    asked["rows"] = ROWS[4:]
    err = invoke("calibrate", "--device", "cpu", code=1).err
    assert f"nothing could be measured on {asked['device'].name}: {LOW}" in err
    asked["rows"] = ROWS[:4]
    title, header, first, *_ = invoke("calibrate", "--device", "cpu").out.splitlines()
    assert title.endswith("no published peaks known")
    assert header.split() == ["ceiling", "level", "pattern", "dtype", "measured", "how"]
    assert first.split()[:5] == ["bandwidth", "dram", "read", "4320.0", "GB/s"]


def test_json_has_base_units_and_unknown_as_null(asked, invoke):
    told = json.loads(invoke("calibrate", "--device", "cpu", "--json", "--set", "llc_bytes=8MiB,threads=1").out)
    assert told["device"]["kind"] == "cpu"
    assert told["device"]["llc_bytes"] == 8 << 20
    assert told["remarks"] == [LOW]
    found = {(one["ceiling"], one["level"], one["dtype"]): one for one in told["ceilings"]}
    assert found["bandwidth", "dram", ""]["share"] == pytest.approx(0.9)
    assert found["bandwidth", "llc", ""]["published"] is None
    assert found["peak", "", "fp32"]["value"] is None
    assert found["peak", "", "fp32"]["published"] == 67e12
    assert found["launch", "", ""]["value"] == 2.25e-6


def test_the_file_is_what_a_run_folder_has(asked, tmp_path, invoke):
    path = tmp_path / "new" / "ceilings.csv"
    assert f"wrote {path}\n" in invoke("calibrate", "--device", "cpu", "-o", path).err
    assert read_rows(path) == [{name: str(value) for name, value in one.items()} for one in ROWS]
    limits = Ceilings.of(pd.read_csv(path, keep_default_na=False, na_values=[], dtype={"value": float}))
    assert limits.bandwidth("dram").value == 4.32e12
    assert limits.launch().value == 2.25e-6
    shown = invoke("calibrate", "--device", "cpu", "-o", path / "no_folder.csv", code=1)
    assert "4320.0 GB/s" in shown.out  # what was measured is not lost
    assert "rooflens: error: cannot write" in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dtype", "bf61"], "unknown dtype 'bf61': did you mean bf16"),
        (["--dtype", ""], "name at least one of bf16, fp16, fp32"),
        (["--set", "llc_bytes=" + "9" * 5000 + "M"], "write a size such as 32MiB"),
        (["--device", "cpu", "--set", "timer=event"], "cpu has no events"),
    ],
)
def test_errors_are_one_line(arguments, message, refused):
    assert message in refused("calibrate", *arguments)
