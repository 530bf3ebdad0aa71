"""`rooflens compare --git --jobs`: a real repository, real workers on parts of this CPU."""

import csv
import io
import json
import signal
import tempfile
import zipfile

import pytest
from rooflens.api.measuring import TurnExecutor
from rooflens.harness.compare.replay import COORDINATES
from rooflens.harness.compare.runner import Turn
from rooflens.shapes.request import Request

from tests.cli.test_compare_git import head_is_slow, kernel
from tests.cli.tiny_runs import ON_CPU, rooflens, start, wait_until
from tests.harness.repositories import git, repository

GIVEN = ("--git", "HEAD~1..HEAD", "--repo", "repo", "--providers", "bench/kernels.py", "tiny.toml", *ON_CPU)
FLEET = ("-o", "both", "--jobs", "local:2")


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Where workers keep their things."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def shards(here, arm):
    """Map the problems of an arm's shards to the place and the station that measured them."""
    found = {}
    for path in (here / "both" / "shards").glob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            station = json.loads(archive.read(f"{arm}/run.json"))["station"]
            for row in csv.DictReader(io.StringIO(archive.read(f"{arm}/cells.csv").decode())):
                place = station["host"], station["slot"], station["name"]
                found.setdefault((row["layer"], row["M"]), set()).add(place)
    return found


@pytest.mark.slow
def test_more_work_is_found_and_both_arms_of_a_problem_are_of_one_slot(here, scratch):
    repository(here / "repo", kernel(1), kernel(300))
    done = rooflens(here, "compare", *GIVEN, *FLEET, "--rounds", 2, "-a", "M=3", "--json", code=(0, 3))
    cases = head_is_slow(done)["cases"]
    assert len(cases) == 2
    assert {case["rounds"] for case in cases} == {2}
    base, head = shards(here, "base"), shards(here, "head")
    assert base == head
    assert {len(places) for places in base.values()} == {1}
    assert len({slot for places in base.values() for _, slot, _ in places}) == 2, "both slots measured"
    for arm in ("base", "head"):
        manifest = json.loads((here / "both" / arm / "run.json").read_text())
        assert manifest["processes"] == 4, "a fresh process per round of a chunk"
        assert len(manifest["devices"]) == 2
        assert manifest["threads"] == 1, "each slot keeps its cores"
    assert git(here / "repo", "worktree", "list").count("\n") == 0
    assert not list(scratch.glob("rooflens-*/*")), "stations leave nothing behind"
    again = rooflens(here, "compare", "both", "--json", code=done.returncode)
    assert json.loads(again.stdout)["cases"] == cases


@pytest.mark.slow
def test_interrupted_and_resumed_only_what_is_missing_is_measured(here, scratch):
    repository(here / "repo", kernel(), kernel(0))  # head computes nothing
    process = start(here, "compare", *GIVEN, "-o", "both", "--jobs", "local:1", "--rounds", 2, "-a", "M=1")

    def kept():
        return {path: path.read_bytes() for path in (here / "both").glob("shards/*.zip")}

    wait_until(lambda: len(kept()) == 1, process, "the first of two chunks")
    first = {path.name for path in kept()}
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "1 of 2 parts of the suite are in" in errors
    assert "--resume with --jobs or --address" in errors
    before = {path: content for path, content in kept().items() if path.name in first}
    alone = rooflens(here, "compare", "-o", "both", "--resume", code=2)
    assert "was begun by several devices" in alone.stderr
    done = rooflens(here, "compare", "-o", "both", "--resume", "--jobs", "local:1", "--json", code=5)
    assert {case["head_verdict"] for case in json.loads(done.stdout)["cases"]} == {"incorrect"}
    after = kept()
    assert len(after) == 2
    assert {path: after[path] for path in before} == before
    assert shards(here, "base") == shards(here, "head")
    assert git(here / "repo", "worktree", "list").count("\n") == 0
    assert not list(scratch.glob("rooflens-*/*"))


@pytest.mark.slow
def test_an_arm_that_has_no_cell_in_a_part_is_done_with_it(here):
    """A filter that speaks of providers is known to the arms alone, so that parts are made without it."""
    asked = Request(suite=str(here / "tiny.toml"), device="cpu", calibrate=False, to=here / "out")
    assert TurnExecutor()(Turn(asked, cells=[("elsewhere",) * len(COORDINATES)]), print)
    manifest = json.loads((here / "out" / "run.json").read_text())
    assert manifest["planned_units"] == 0
    assert (here / "out" / "cells.csv").read_text().count("\n") == 1


def test_searches_of_several_devices_are_refused(here):
    repository(here / "repo", kernel(), kernel())
    done = rooflens(here, "compare", *GIVEN, "--jobs", "local:2", "--tune", code=2)
    assert "--tune searches on one device" in done.stderr
