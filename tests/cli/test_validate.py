"""`rooflens validate`: counts, what is missing, and the exit codes of --strict."""

import json

import pytest
from rooflens.cli.main import main

SMALL = {"Ms": (1, 8), "providers": ("simt_4bit", "dequant_blas"), "rounds": 3, "samples": 10}
"""6 shapes x 2 M x 2 providers = 24 cells, 72 units, 720 samples."""


@pytest.fixture
def validated(capsys):
    def call(run: str = "planted", *options: str) -> tuple[int, dict, str]:
        code = main(["validate", run, "--json", *options])
        out, err = capsys.readouterr()
        return code, json.loads(out), err

    return call


def test_a_whole_run(plant, validated):
    plant(**SMALL)
    code, found, err = validated("planted", "--strict")
    assert (code, err) == (0, "")
    assert found["complete"]
    assert (found["planned_units"], found["stored_units"], found["missing_units"]) == (72, 72, 0)
    assert (found["cells"], found["samples"], found["verdicts"]) == (24, 720, {"passed": 24})
    assert found["not_begun"] == []


def test_an_interrupted_run_says_what_is_missing_and_how_to_go_on(plant, validated):
    plant(**SMALL, skip=lambda cell, number: number == 2 or cell.model == "gpt-oss")
    code, found, _ = validated()
    assert code == 0
    assert found["missing_units"] == 72 - 2 * 20
    assert found["cells"] == 20
    assert found["not_begun"] == ["gpt-oss o"]
    assert not found["complete"]

    code, _, err = validated("latest", "--strict")
    assert code == 4
    assert err.startswith("rooflens: error: planted: 32 units are missing")
    assert "--resume" in err


def test_rounds_that_a_failure_made_needless_are_not_missing(plant, validated):
    plant(**SMALL, failures=lambda cell: ("oom", "out of memory") if cell.provider == "simt_4bit" else None)
    code, found, _ = validated("planted", "--strict")
    assert code == 0
    assert found["missing_units"] == 0
    assert found["stored_units"] == 12 * 3 + 12
    assert found["verdicts"] == {"passed": 12, "oom": 12}


def test_a_wrong_output_is_exit_code_5_under_strict(plant, validated):
    plant(**SMALL, failures=lambda cell: ("incorrect", "SNR 3 dB") if cell.M == 8 and cell.N == 512 else None)
    assert validated()[0] == 0
    code, _, err = validated("planted", "--strict")
    assert code == 5
    assert "4 of 24" not in err
    assert "2 of 24 cells gave a wrong output" in err


def test_a_table_for_readers(plant, capsys):
    plant(**SMALL, skip=lambda cell, number: cell.M == 8 and number == 1)
    assert main(["validate", "runs/planted"]) == 0
    out, err = capsys.readouterr()
    rows = dict(line.rsplit(maxsplit=1) for line in out.splitlines() if line)
    assert rows["units missing"] == "12"
    assert rows["cells passed"] == "24"
    assert "12 units are missing: go on with: rooflens run -o" in err


def test_a_damaged_table_is_named_by_file_line_and_column(plant, capsys):
    folder = plant(**SMALL)
    path = folder / "samples.csv"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    lines[3] = lines[3].replace(lines[3].split(",")[3], "fast")
    path.write_text("".join(lines), encoding="utf-8")
    assert main(["validate", "planted"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "samples.csv line 4, column time_s: 'fast' is not a number" in err
