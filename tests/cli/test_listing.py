"""`rooflens list`: what it prints for readers and for programs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rooflens.cli.listing.columns_page import columns_page
from rooflens.shapes.run_folder.columns import TABLES, ColumnSchema, ColumnType, TableSchema

from ..csv_files import read_rows

ROOT = Path(__file__).resolve().parents[2]

OWN = ROOT / "examples" / "my_kernels.py"


@pytest.fixture
def listed(invoke):
    """Call `rooflens list ... --json` and return what it printed, parsed."""

    def call(*arguments: str) -> object:
        return json.loads(invoke("list", *arguments, "--json").out)

    return call


def test_suites(listed, invoke):
    (full,) = (suite for suite in listed("suites") if suite["name"] == "llm4bit")
    assert (len(full["shapes"]), full["axes"]["M"]) == (40, [2**power for power in range(12)])
    header, *rows = invoke("list", "suites").out.splitlines()
    assert header.split() == ["suite", "shapes", "dtypes", "M", "caches", "providers", "description"]
    full = next(row for row in rows if row.startswith("llm4bit "))
    assert full.split()[1:8] == ["40", "bf16", "fp16", "fp32", "1..2048", "cold", "warm"]


def test_shapes_of_a_set_are_those_of_its_file(listed, invoke):
    rows = read_rows(ROOT / "shapes" / "sets" / "llm4bit_40.csv")
    found = listed("shapes", "llm4bit_40")
    assert [(shape["model"], shape["layer"], shape["N"], shape["K"]) for shape in found] == [
        (row["model"], row["layer"], int(row["N"]), int(row["K"])) for row in rows
    ]
    assert {"shape_set": "llm4bit_40", "shapes": 40} in listed("shapes")
    assert "did you mean llm4bit_40" in invoke("list", "shapes", "llm4bit_4", code=2).err


def test_devices_in_base_units_as_json_and_scaled_in_the_table(listed, invoke):
    mi300x = next(device for device in listed("devices") if device["name"] == "AMD Instinct MI300X")
    assert mi300x["bandwidth_bytes_per_s"] == 5.3e12
    assert mi300x["llc_bytes"] == 256 << 20
    assert mi300x["source"]
    row = next(line for line in invoke("list", "devices").out.splitlines() if line.startswith("AMD Instinct MI300X"))
    assert row.split()[3:] == ["gfx942", "304", "1307.4", "163.4", "5300", "256", "192", "verified"]
    figures = [value for device in listed("devices") for value in device.values()]
    assert None in figures  # unknown, and never 0
    assert 0 not in [value for value in figures if not isinstance(value, str)]


def test_what_others_measured_on_a_device(listed, invoke):
    found = listed("devices", "--measured", "AMD Instinct MI300X")
    assert {"device": "AMD Instinct MI300X", "ceiling": "peak", "dtype": "bf16", "value": 708e12}.items() <= next(
        one for one in found if one["ceiling"] == "peak"
    ).items()
    assert "708.0 TFLOPS" in invoke("list", "devices", "--measured", "AMD Instinct MI300X").out
    assert "AMD Instinct MI300X" in invoke("list", "devices", "--measured", "AMD Instinct MI3000X", code=2).err
    assert "no published measurement of NVIDIA L4" in invoke("list", "devices", "--measured", "NVIDIA L4").err


def test_columns_in_three_forms(listed, invoke):
    tables = {table["name"]: table for table in listed("columns")}
    time_s = next(column for column in tables["samples"]["columns"] if column["name"] == "time_s")
    assert (time_s["unit"], time_s["better"], time_s["required"]) == ("s", "lower", True)

    names = [line.split()[0] for line in invoke("list", "columns").out.splitlines()[1:]]
    assert names == [f"{table.file}:{name}" for table in TABLES for name in table.names]

    assert invoke("list", "columns", "--markdown").out == columns_page(TABLES)
    table = TableSchema("t", "one row per thing", (ColumnSchema("a", ColumnType.INT, "x | y", "byte", required=True),))
    assert "| `a` \\* | int | byte |  | x \\| y |" in columns_page([table])

    assert "choose one" in invoke("list", "columns", "--markdown", "--json", code=2).err


@pytest.mark.parametrize("command", [["list", "providers"], ["doctor"]])
def test_without_a_gpu_nothing_waits_for_torch(command):
    code = (
        "import sys\n"
        "from rooflens.harness.machine import device, survey\n"
        "device.gpu_possible = survey.gpu_possible = lambda: False\n"
        "from rooflens.cli.main import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "assert not {'torch', 'triton', 'bitsandbytes'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, *command], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_providers_that_cannot_run_share_their_reason(invoke, monkeypatch):
    from rooflens.cli.listing import availability
    from rooflens.cli.listing.availability import Availability

    rows = [
        Availability("a", "f", "candidate", True, ""),
        Availability("b", "f", "candidate", False, "needs a GPU"),
        Availability("c", "f", "blas", False, "no M=1 here"),
        Availability("d", "f", "candidate", False, "needs a GPU"),
    ]
    monkeypatch.setattr(availability, "provider_rows", lambda files: ("a CPU", rows))
    table, reasons = invoke("list", "providers").out.split("\n\n")
    assert [line.split() for line in table.splitlines()[2:]] == [
        ["a", "f", "candidate", "yes"],
        ["b", "f", "candidate", "no"],
        ["c", "f", "blas", "no"],
        ["d", "f", "candidate", "no"],
    ]
    assert reasons.splitlines() == ["here  why not", "no    b d: needs a GPU", "no    c: no M=1 here"]


def test_a_family_that_does_not_exist_is_refused_with_the_nearest(tmp_path, invoke):
    text = Path(OWN).read_text("utf-8").replace('name = "my_gemm"', 'name = "my_gemm"\n    family = "four_bit"')
    (tmp_path / "mine.py").write_text(text, "utf-8")
    err = invoke("list", "providers", "--providers", tmp_path / "mine.py", code=2).err
    assert "mine.py: my_gemm: unknown family 'four_bit': did you mean fourbit?" in err
