"""`--jobs`: several parts of this CPU measure one run, or one comparison of commits, in real processes."""

import json
import signal
import tempfile

import pytest
from rooflens.api.measuring import TurnExecutor, measure
from rooflens.api.run_folders import how_to_resume
from rooflens.harness.compare.replay import COORDINATES
from rooflens.harness.compare.runner import Turn
from rooflens.harness.sweep.deadline import Deadline
from rooflens.shapes.request import Request

from ..csv_files import read_rows
from ..harness.repositories import git, repository
from .test_compare_git import head_is_slow, kernel
from .tiny_runs import (
    ON_CPU,
    assert_gone,
    check_whole,
    children,
    rooflens,
    run_args,
    start,
    unconverged,
    wait_for_rows,
    wait_until,
    write_suite,
)

SMALL = ("--set", "llc_bytes=1MiB", "--no-report", "--no-calibrate", "-o", "out")
GIVEN = ("--git", "HEAD~1..HEAD", "--repo", "repo", "--providers", "bench/kernels.py", "tiny.toml", *ON_CPU)


def begun(place, rows):
    """Start a run on both parts of this CPU, and return it with its command once it has stored so many rows."""
    command = (*run_args("dequant_blas", file=None), *unconverged("60ms"), "-a", "M=1..8", "--jobs", "local:2")
    process = start(place, *command)
    wait_for_rows(place, rows, process)
    return process, command, children(process.pid)


def devices_of(folder):
    """Map problems to the devices that measured them, as (host, slot)."""
    manifest = json.loads((folder / "run.json").read_text())
    device = {str(number): (one["host"], one["slot"]) for one in manifest["devices"] for number in one["processes"]}
    found = {}
    for row in read_rows(folder / "cells.csv"):
        found.setdefault((row["layer"], row["M"]), set()).add(device[row["process"]])
    return found


@pytest.mark.slow
@pytest.mark.exclusive
def test_what_is_killed_goes_on_with_its_devices_and_every_problem_is_of_one(place):
    process, command, offspring = begun(place, 6)
    process.kill()
    process.communicate()
    assert_gone(offspring)
    kept = read_rows(place / "out" / "cells.csv")
    rooflens(place, *command, "--resume")
    check_whole(place, cells=16)
    now = {(row["cell_id"], row["round"]): row for row in read_rows(place / "out" / "cells.csv")}
    assert all(now[row["cell_id"], row["round"]] == row for row in kept)
    found = devices_of(place / "out")
    assert {len(devices) for devices in found.values()} == {1}
    assert len(set.union(*found.values())) == 2
    rooflens(place, "validate", "out", "--strict")


@pytest.mark.slow
@pytest.mark.exclusive
def test_ctrl_c_ends_all_devices_and_says_how_to_go_on(place):
    process, _, offspring = begun(place, 3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1].endswith("resume with: rooflens run -o out --resume --jobs local:2")
    assert "Traceback" not in errors
    assert_gone(offspring)


@pytest.mark.slow
@pytest.mark.parametrize("command", [("run", "tiny.toml", "--device", "cpu", *SMALL), ("compare", *GIVEN, "-o", "out")])
def test_time_that_is_over_before_the_devices_are_found_leaves_what_can_be_resumed(here, command):
    repository(here / "repo", kernel(), kernel())
    done = rooflens(here, *command, "--jobs", "local:2", "--max-time", "10ms", code=(0, 4))
    assert "resume with: " in done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Measure on one part of the CPU, from Python; return the folder, with the one that was for temporary files."""
    place = write_suite(tmp_path_factory.mktemp("alone"))
    (place / "temporary").mkdir()
    with pytest.MonkeyPatch.context() as changed:
        changed.chdir(place)
        changed.setattr(tempfile, "tempdir", str(place / "temporary"))
        how = {"llc_bytes": "1MiB", "threads": 1, "calibrate": False, "to": "out"}
        assert measure("tiny.toml", jobs="local:1", device="cpu", axes={"M": [1]}, **how).outcome.error is None
    return place


def test_a_part_of_a_cpu_says_how_to_resume_and_leaves_nothing_where_temporary_files_are(alone):
    check_whole(alone, cells=2)
    # on all of the CPU each part would have other threads, and be refused
    assert how_to_resume(alone / "out").endswith("out --resume --jobs local:1")
    assert not list((alone / "temporary").iterdir())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("--jobs", "local:1", "--set=threads=2"), "threads was 1 and is 2"),
        ((), "was measured by several devices: resume with: rooflens run -o out --resume --jobs local:1"),
    ],
)
def test_what_measures_otherwise_is_refused_and_loses_nothing(alone, changes, words):
    kept = (alone / "out" / "cells.csv").read_bytes()
    code = 1 if changes else 2
    done = rooflens(
        alone, "run", "tiny.toml", "--device", "cpu", *SMALL, "-a", "M=1,2", "--resume", *changes, code=code
    )
    assert words in done.stderr.splitlines()[-1]
    assert (alone / "out" / "cells.csv").read_bytes() == kept
    assert how_to_resume(alone / "out").endswith("out --resume --jobs local:1")


@pytest.mark.slow
def test_both_versions_of_a_problem_are_of_one_device(here):
    repository(here / "repo", kernel(1), kernel(300))
    setup = ("--setup", f"pwd >> {here}/setups")
    command = ("compare", *GIVEN, "-o", "both", "--jobs", "local:2", "--rounds", 2, "-a", "M=3", "--json", *setup)
    done = rooflens(here, *command, code=(0, 3))
    cases = head_is_slow(done)["cases"]
    assert len(cases) == 2
    assert len((here / "setups").read_text().splitlines()) == 2, "once per version, not per device"
    assert {case["rounds"] for case in cases} == {2}
    base, head = (devices_of(here / "both" / arm) for arm in ("base", "head"))
    assert base == head
    assert {len(devices) for devices in base.values()} == {1}
    for arm in ("base", "head"):
        manifest = json.loads((here / "both" / arm / "run.json").read_text())
        assert manifest["processes"] == 4, "a fresh process per round of a part"
        assert manifest["threads"] == 1, "each slot keeps its cores"
    assert git(here / "repo", "worktree", "list").count("\n") == 0
    again = rooflens(here, "compare", "both", "--json", code=done.returncode)
    assert json.loads(again.stdout)["cases"] == cases


@pytest.mark.slow
def test_interrupted_and_resumed_only_what_is_missing_is_measured(here):
    repository(here / "repo", kernel(), kernel(0))  # head computes nothing
    process = start(here, "compare", *GIVEN, "-o", "both", "--jobs", "local:1", "--rounds", 2, "-a", "M=1")
    table = here / "both" / "head" / "cells.csv"
    wait_until(lambda: table.exists() and table.read_bytes().count(b"\n") > 1, process, "a round of head")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert "--resume with --jobs or --address" in errors
    kept = {arm: read_rows(here / "both" / arm / "cells.csv") for arm in ("base", "head")}
    alone = rooflens(here, "compare", "-o", "both", "--resume", code=2)
    assert "was begun by several devices" in alone.stderr
    done = rooflens(here, "compare", "-o", "both", "--resume", "--jobs", "local:1", "--json", code=5)
    assert {case["head_verdict"] for case in json.loads(done.stdout)["cases"]} == {"incorrect"}
    for arm, rows in kept.items():
        assert [row for row in read_rows(here / "both" / arm / "cells.csv") if row in rows] == rows
    assert devices_of(here / "both" / "base") == devices_of(here / "both" / "head")
    assert git(here / "repo", "worktree", "list").count("\n") == 0


@pytest.mark.slow
def test_an_arm_that_has_no_cell_in_a_part_is_done_with_it(here):
    """A filter that speaks of providers is known to the arms alone, so that parts are made without it."""
    asked = Request(suite=str(here / "tiny.toml"), device="cpu", calibrate=False, to=here / "out")
    with TurnExecutor() as turns:
        for rounds in (3, 1):  # another part is not as far
            turn = Turn(asked.with_settings(rounds=rounds), cells=[("elsewhere",) * len(COORDINATES)])
            assert turns(turn, print, Deadline())
    manifest = json.loads((here / "out" / "run.json").read_text())
    assert (manifest["planned_units"], manifest["rounds"]) == (0, 3)
    assert (here / "out" / "cells.csv").read_text().count("\n") == 1


def test_searches_of_several_devices_are_refused(here):
    repository(here / "repo", kernel(), kernel())
    done = rooflens(here, "compare", *GIVEN, "--jobs", "local:2", "--tune", code=2)
    assert "--tune searches on one device" in done.stderr
