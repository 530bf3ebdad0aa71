"""What a RUN argument means."""

import json
import os
from datetime import datetime
from pathlib import Path

import pytest
from rooflens.api.run_folders import new_folder, stored_runs
from rooflens.cli.shared.runs import find_run
from rooflens.harness.telemetry.clock import CLOCK
from rooflens.shapes.errors import UsageError


def store(parent, name, created_at, rows=2, **manifest):
    folder = parent / name
    folder.mkdir(parents=True)
    content = {"suite": "quick", "created_at": created_at, "device": {"name": "a CPU"}} | manifest
    (folder / "run.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "cells.csv").write_text("cell_id\n" + "x\n" * rows, encoding="utf-8")
    return folder


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parent = tmp_path / "runs"
    store(parent, "b-old", "2026-01-01T00:00:00+00:00")
    store(parent, "a-new", "2026-02-01T00:00:00+00:00", rows=7)
    (parent / "broken").mkdir()
    (parent / "broken" / "run.json").write_text("{", encoding="utf-8")
    (parent / "notes").mkdir()
    return parent


def test_a_run_is_a_path_a_name_or_latest(runs, tmp_path):
    elsewhere = store(tmp_path / "kept", "far", "2020-01-01T00:00:00+00:00")
    assert find_run("b-old").resolve() == runs / "b-old"
    assert find_run("runs/b-old").resolve() == runs / "b-old"
    assert find_run(str(elsewhere)) == elsewhere
    assert find_run("latest").resolve() == runs / "a-new"


def test_without_runs_it_is_said_how_to_get_one(tmp_path, monkeypatch, invoke):
    monkeypatch.chdir(tmp_path)
    assert "rooflens run llm4bit-quick" in invoke("report", "latest", code=2).err
    out, err = invoke("list", "runs")
    assert (out, "no runs in" in err) == ("", True)
    assert json.loads(invoke("list", "runs", "--json").out) == []
    store(tmp_path / "runs", "far", "2999-01-01T00:00:00+00:00")
    assert find_run("latest").name == "far", "a run of the future, where there is no other"
    for number in range(5):
        store(tmp_path / "runs", f"later-{number}", f"2026-04-0{number + 1}T00:00:00+00:00")
    with pytest.raises(UsageError, match=r"newest are far, later-4, later-3, later-2, later-1, \.\.\.: rooflens list"):
        find_run("zzz")


@pytest.mark.parametrize("far", ["9999-12-31T23:59:59+00:00", "2999-01-01T00:00:00+00:00"])
def test_a_neighbour_of_another_time_does_not_stay_the_latest(runs, capsys, far):
    store(runs, "far", far)
    store(runs, "none", "yesterday")
    assert find_run("latest").resolve() == runs / "a-new"
    assert capsys.readouterr().err == f"note: runs/far is dated '{far}', in the future: latest is runs/a-new\n"
    store(runs, "new", CLOCK.now("seconds"))
    assert find_run("latest").resolve() == runs / "new"
    assert find_run("far").resolve() == runs / "far"


def test_a_second_that_comes_twice_makes_two_folders(tmp_path, monkeypatch):
    class Stopped(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 11, 1, 1, 30, tzinfo=tz)

    monkeypatch.setattr("rooflens.api.run_folders.datetime", Stopped)
    for expected in ("quick-20261101-013000", "quick-20261101-013000-2", "quick-20261101-013000-3"):
        folder = new_folder("quick", tmp_path)
        assert folder.name == expected
        folder.mkdir()


@pytest.mark.parametrize(
    "text, words",
    [
        ("b-odl", "unknown run 'b-odl': did you mean b-old"),
        ("runs/b-odl", "unknown run 'runs/b-odl': did you mean b-old"),
        ("zzz", r"unknown run 'zzz': the newest are a-new, b-old$"),
        ("runs/notes", "runs/notes is not the folder of a run: it has no run.json"),
        ("runs", "runs is a folder of runs: name one, such as runs/a-new"),
    ],
)
def test_a_wrong_run_is_a_usage_error(runs, text, words):
    with pytest.raises(UsageError, match=words):
        find_run(text)


def test_list_runs_newest_first_and_only_runs(runs, invoke):
    assert [run.id for run in stored_runs()] == ["a-new", "b-old"]
    found = json.loads(invoke("list", "runs", "--json").out)
    assert [(run["id"], run["suite"], run["device"], run["rows"]) for run in found] == [
        ("a-new", "quick", "a CPU", 7),
        ("b-old", "quick", "a CPU", 2),
    ]
    same, header, *rows = invoke("list", "runs").out.splitlines()
    assert (same, header.split()) == ("suite quick, device a CPU", ["run", "created", "rows"])
    assert [row.split() for row in rows] == [
        ["a-new", "2026-02-01", "00:00", "7"],
        ["b-old", "2026-01-01", "00:00", "2"],
    ]


def test_a_tuned_table_among_the_runs_is_none_of_them(runs, invoke):
    store(runs, "tuned", "2026-03-01T00:00:00+00:00", tune={"suite": "quick"})
    assert [run.id for run in stored_runs()] == ["a-new", "b-old"]
    assert find_run("latest").name == "a-new"
    for command in ("validate", "report", "crossover", "roofline"):
        err = invoke(command, "tuned", code=2).err
        assert "runs/tuned is a tuned table: use it with rooflens run SUITE --tuned runs/tuned" in err
    err = invoke("run", "-o", "runs/tuned", "--resume", code=2).err
    assert "resume it with rooflens tune -o runs/tuned --resume" in err
    err = invoke("run", "llm4bit-quick", "-o", "runs/tuned", "--resume", code=2).err
    assert "resume it with rooflens tune -o runs/tuned --resume" in err


@pytest.mark.parametrize("theirs", [".", "run.json", "compare.json"])
@pytest.mark.parametrize("command", ["run", "tune", "compare", "run --address=auto"])
def test_what_belongs_to_another_user_is_not_resumed(runs, invoke, monkeypatch, command, theirs):
    """What it names would be executed: here a file that leaves a trace. A group may write to a folder of one's own."""
    (runs / "file.py").write_text("from pathlib import Path\nPath('executed').touch()\n")
    request = {"suite": "llm4bit-quick", "files": ["runs/file.py"], "providers": []}
    folder = store(runs, "shared", "2026-01-01T00:00:00+00:00", request=request)
    (folder / "compare.json").touch()
    stat = Path.stat

    def stat_of_theirs(path, **options):
        found = stat(path, **options)
        is_theirs = os.path.abspath(path) == str(folder / theirs)
        return os.stat_result((*found[:4], found[4] + 1, *found[5:])) if is_theirs else found

    monkeypatch.setattr(Path, "stat", stat_of_theirs)
    said = invoke(*command.split(), "-o", "runs/shared", "--resume", code=2).err
    assert f"{Path('runs/shared', theirs)} belongs to user" in said
    assert not (runs.parent / "executed").exists()
