"""`rooflens merge`: the merged run reads as the whole one does; refusals are one line and exit code 2."""

import re
import sys

import pytest
from rooflens.cli.main import main

from ..harness.sharded import manifest_of, split

SMALL = {"Ms": (1, 8, 64), "providers": ("simt_4bit", "dequant_blas", "blas"), "rounds": 3, "samples": 10}
"""6 shapes x 3 M x 3 providers = 54 cells, 162 units, 1620 samples."""


def test_other_commands_take_the_merged_run(plant, tmp_path, invoke, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rooflens", "merge", "-o", "runs/merged"])
    shards = split(plant("planted", **SMALL), tmp_path / "parts", lambda row: row["provider"])
    invoke("merge", "-o", "runs/merged", *shards)
    answers = []
    for run in ("planted", "merged"):
        out = invoke("crossover", run, "--challenger", "simt_4bit", "--incumbent", "dequant_blas", "--json").out
        answers.append(out.replace("merged", "planted"))
    assert answers[0] == answers[1]
    assert main(["roofline", "merged"]) == 0
    assert main(["validate", "merged", "--strict"]) == 0


def test_it_says_what_the_merged_run_holds(plant, tmp_path, invoke):
    split(plant("planted", **SMALL), tmp_path, lambda row: "M" + row["M"])
    out, err = invoke("merge", "-o", "runs/all", "M8", "M1")
    shown = dict(line.rsplit(maxsplit=1) for line in out.splitlines())
    assert [shown[name] for name in ("run", "units stored", "units missing", "samples")] == ["all", "108", "0", "1080"]
    assert err == ""
    stored = manifest_of(tmp_path / "runs" / "all")
    assert stored["command"][0] == "rooflens"
    assert [shard["folder"] for shard in stored["shards"]] == ["M1", "M8"]


def test_an_incomplete_merged_run_goes_on_with_its_shards(plant, tmp_path, invoke):
    whole = plant("planted", **SMALL, skip=lambda cell, number: cell.M == 8 and number == 2)
    split(whole, tmp_path, lambda row: "M" + row["M"])
    _, err = invoke("merge", "-o", "all", "M1", "M8")
    assert err == "note: 18 units are missing: resume its shards (M1, M8), then merge them again\n"
    assert "resume its shards (M1, M8)" in invoke("validate", "all", "--strict", code=4).err
    before = {path: path.read_bytes() for path in (tmp_path / "all").iterdir()}
    for arguments in (["run", "llm4bit-quick", "-o", "all", "--resume"], ["run", "-o", "all", "--resume"]):
        err = invoke(*arguments, code=2).err
        assert err == ("rooflens: error: all was merged: resume its shards (M1, M8), then merge them again\n")
    assert {path: path.read_bytes() for path in (tmp_path / "all").iterdir() if path.name != ".lock"} == before


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-o", "M1", "M1", "M8"], "M1 exists already: choose another -o"),
        (["-o", "all", "M1", "empty"], "cannot|empty"),
        (["-o", "all", "none"], "no cell of these runs is finished"),
        (["M1", "M8"], "Missing option '-o'"),
        (["-o", "all"], "Missing argument 'RUN"),
    ],
)
def test_refusals_are_one_line(plant, tmp_path, refused, arguments, line):
    split(plant("planted", **SMALL), tmp_path, lambda row: "M" + row["M"])
    (tmp_path / "empty").mkdir()
    split(tmp_path / "runs" / "planted", tmp_path, lambda row: "none")
    for name in ("cells.csv", "samples.csv"):
        path = tmp_path / "none" / name
        path.write_text(path.read_text().splitlines()[0] + "\n")
    assert re.search(line, refused("merge", *arguments))
    assert not (tmp_path / "all").exists()
