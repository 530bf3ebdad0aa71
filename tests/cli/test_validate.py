"""`rooflens validate`: counts, what is missing, and the exit codes of --strict."""

import json

import pytest
from rooflens.cli.main import main
from rooflens.harness.storage.store import RunStore

from ..harness.sharded import edit_manifest, split

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


def test_an_interrupted_run_says_what_is_missing_and_how_to_go_on(plant, validated, invoke, tmp_path):
    plant(**SMALL, skip=lambda cell, number: cell.model == "gpt-oss" or (cell.M == 8 and number == 2))
    code, found, _ = validated()
    assert code == 0
    assert found["missing_units"] == 2 * 2 * 3 + 5 * 2
    assert found["cells"] == 20
    assert found["not_begun"] == ["gpt-oss o"]
    assert not found["complete"]
    split(tmp_path / "runs" / "planted", tmp_path, lambda row: "M" + row["M"])
    assert "M8: 10 units are missing" in invoke("validate", "M1", "M8", "--strict", code=4).err.splitlines()[-1]
    code, _, err = validated("latest", "--strict")
    assert code == 4
    assert err.startswith("rooflens: error: planted: 22 units are missing")
    assert "--resume" in err


def test_rounds_that_a_failure_made_needless_are_not_missing(plant, validated, invoke):
    plant(**SMALL, failures=lambda cell: ("oom", "out of memory") if cell.provider == "simt_4bit" else None)
    code, found, _ = validated("planted", "--strict")
    assert code == 0
    assert found["missing_units"] == 0
    assert found["stored_units"] == 12 * 3 + 12
    assert found["needless_units"] == 12 * 2
    assert found["verdicts"] == {"passed": 12, "oom": 12}
    rows = dict(line.rsplit(maxsplit=1) for line in invoke("validate", "planted").out.splitlines() if line)
    assert [rows[f"units {name}"] for name in ("planned (cell, round)", "stored", "missing")] == ["72", "48", "0"]
    assert rows["units not needed (their cell did not pass)"] == "24"


def test_a_wrong_output_is_exit_code_5_under_strict(plant, validated):
    plant(**SMALL, failures=lambda cell: ("incorrect", "SNR 3 dB") if cell.M == 8 and cell.N == 512 else None)
    assert validated()[0] == 0
    code, _, err = validated("planted", "--strict")
    assert code == 5
    assert "4 of 24" not in err
    assert "2 of 24 cells gave a wrong output" in err


@pytest.fixture
def shards(plant, tmp_path):
    """Plant a run and split it by M: folders M1 and M8 in the working directory."""
    return split(plant(**SMALL), tmp_path, lambda row: "M" + row["M"])


def test_several_runs_are_shown_one_after_another_and_merge(shards, invoke):
    out, err = invoke("validate", "M1", "M8", "--strict")
    assert [line.split()[-1] for line in out.splitlines() if line.startswith("run ")] == ["M1", "M8"]
    assert [line.split()[-1] for line in out.splitlines() if line.startswith("units stored")] == ["36", "36"]
    assert out.splitlines()[-1] == "these 2 runs merge: rooflens merge -o OUT RUN..."
    assert err == ""


def test_what_keeps_runs_from_merging_is_listed(shards, invoke):
    edit_manifest(shards[1], lambda manifest: manifest | {"seed": 1, "threads": 9})
    lines = invoke("validate", "M1", "M8", "planted").out.splitlines()
    told = lines[lines.index("these 3 runs do not merge:") + 1 :]
    assert [line.split(" in ")[0] for line in told[:2]] == ["- seed is 0", "- threads is unknown"]
    assert len(told) == 2 + len([line for line in told if "duplicates" in line]) == 4
    assert (
        "these 3 runs do not merge: seed is 0 in " in invoke("validate", "M1", "M8", "planted", "--strict", code=4).err
    )
    first, second = json.loads(invoke("validate", "M1", "M8", "--json").out)
    assert (first["run"], first["complete"], first["obstacles"]) == ("M1", True, [])
    assert second["obstacles"][0] == "seed is 0 in M1/run.json and 1 in M8/run.json: timings of the two do not mix"


def test_a_run_that_is_being_written_is_counted_and_named(shards, capsys):
    store = RunStore(shards[0])
    try:
        assert main(["validate", "M1", "M8"]) == 0
    finally:
        store.close()
    assert capsys.readouterr().out.splitlines()[-1].startswith("- M1 is being written by a rooflens run")
