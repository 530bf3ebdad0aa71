"""`rooflens run --refine crossover` for real: sleeping providers whose crossover is planted."""

import json
import os
import signal

import pytest
from rooflens.analysis.crossover.refine import PLACE
from rooflens.cli.run.end_of_run import conclude
from rooflens.shapes.errors import IncompleteError

from ..harness.crossing_providers import CROSSING, EDGE
from ..suite_files import suite_text
from .tiny_runs import (
    assert_gone,
    check_whole,
    children,
    planned,
    read,
    rooflens,
    start,
    wait_for_rows,
    whole_rows,
)

KERNELS = os.path.join(os.path.dirname(__file__), "..", "harness", "crossing_providers.py")

PROTOCOL = {"rounds": 5, "min_samples": 10, "budget_s": 0.06, "timeout_s": 20.0}
SUITE = suite_text("crossing", ["constant", "growing"], [1, 4, 16, 64], PROTOCOL, shapes="tiny.csv", pick=["tiny q"])

ARGUMENTS = (
    *("run", "crossing.toml", "--providers", KERNELS, "--device", "cpu", "--set", "llc_bytes=1MiB,threads=1"),
    *("--no-calibrate", "-o", "out", "-p", "constant"),
)
GROWING = (*ARGUMENTS, "-p", "growing", "--refine", "crossover")


@pytest.fixture
def place(place):
    (place / "crossing.toml").write_text(SUITE)
    return place


def manifest(place):
    return json.loads((place / "out" / "run.json").read_text())


def added(place):
    return [row["M"] for row in manifest(place)["refine"]["added"]]


def crossing(place, challenger="growing"):
    done = rooflens(place, "crossover", "out", "--challenger", challenger, "--json")
    (shape,) = json.loads(done.stdout)["shapes"]
    return shape


@pytest.mark.slow
@pytest.mark.exclusive
def test_the_bracket_shrinks_to_the_planted_M(place):
    done = rooflens(place, *GROWING)
    extra = added(place)
    assert 2 <= len(extra) <= 6
    assert all(16 < m < 64 for m in extra)
    assert f"refined: {len(extra)} further M at 1 shape, growing against constant" in done.stdout
    check_whole(place, cells=8 + 2 * len(extra), rounds=5)
    assert manifest(place)["planned_units"] == 5 * (8 + 2 * len(extra))
    assert manifest(place)["refine"]["complete"]
    found = crossing(place)
    assert found["status"] == "below"
    assert found["refined"] == len(extra)
    assert 16 <= found["low_M"] < CROSSING < found["high_M"] <= 32
    assert found["high_M"] / found["low_M"] < 1.5  # 64 / 16 before; 1.1 where nothing else runs
    assert abs(found["crossover_M"] - CROSSING) < 2
    # Both providers of an added M took turns, and it stands in no table over all M.
    for m in extra:
        rounds = [row["round"] for row in read(place) if int(row["M"]) == m]
        assert rounds == sorted(rounds)
        assert rounds.count("0") == 2
    assert "1, 4, 16, 64" in (place / "out" / "report.md").read_text()
    before = (place / "out" / "cells.csv").read_bytes()
    rooflens(place, "run", "-o", "out", "--resume", "--no-report")
    assert (place / "out" / "cells.csv").read_bytes() == before


@pytest.mark.slow
@pytest.mark.exclusive
def test_a_finished_run_is_refined_later_and_a_step_at_the_end_of_a_tile_is_found_to_the_row(place):
    stepped = (*ARGUMENTS, "-p", "stepped", "--no-report")
    rooflens(place, *stepped)
    assert "refine" not in manifest(place)
    kept = (place / "out" / "cells.csv").read_text()
    done = rooflens(place, *stepped, "--resume", "--refine", "crossover=stepped:constant")
    assert (place / "out" / "cells.csv").read_text().startswith(kept)
    found = crossing(place, "stepped")
    assert (found["low_M"], found["high_M"]) == (EDGE, EDGE + 1)
    rooflens(place, "validate", "out", "--strict")
    rooflens(place, "merge", "out", "-o", "merged")
    done = rooflens(place, "crossover", "merged", "--challenger", "stepped", "--json")
    assert json.loads(done.stdout)["shapes"][0]["refined"] == found["refined"] > 0


@pytest.mark.slow
@pytest.mark.exclusive
def test_kill_9_in_the_middle_of_a_refinement_costs_one_unit_at_most(place):
    process = start(place, *GROWING, "--no-report")
    wait_for_rows(place, 5 * 8 + 2, process)
    planned = added(place)
    assert planned  # what is added is stored before it is measured
    offspring = children(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert_gone(offspring)
    kept = (place / "out" / "cells.csv").read_text().split("\n")[:-1]
    assert manifest(place)["planned_units"] == 5 * (8 + 2 * len(planned))
    looked = rooflens(place, "run", "-o", "out", "--resume", "--dry-run")
    assert f"{len(kept) - 1} of {5 * (8 + 2 * len(planned))} units are stored in out already" in looked.stdout
    rooflens(place, "run", "-o", "out", "--resume", "--no-report")
    assert (place / "out" / "cells.csv").read_text().split("\n")[: len(kept)] == kept
    assert added(place)[: len(planned)] == planned
    check_whole(place, cells=8 + 2 * len(added(place)), rounds=5)
    assert manifest(place)["planned_units"] == whole_rows(place)
    assert crossing(place)["low_M"] < CROSSING < crossing(place)["high_M"]


def test_a_refinement_that_was_cut_short_is_told_with_the_way_on(plant, capsys):
    """All that was planned so far is stored, and still the run is not complete."""
    place = dict.fromkeys(PLACE, "x") | dict.fromkeys(("B", "E", "top_k", "N", "K"), 1)
    rows = [place | {"M": size, "providers": ["simt_4bit", "dequant_blas"]} for size in (5, 6)]
    refine = {"challenger": "simt_4bit", "incumbent": "dequant_blas", "complete": False, "added": rows}
    folder = plant(manifest={"refine": refine})
    with pytest.raises(IncompleteError):
        conclude(folder, complete=False, report=False, strict=True)
    out, errors = capsys.readouterr()
    assert "refined: 2 further M at 1 shape, simt_4bit against dequant_blas, so far\n" in out
    assert f"resume with: rooflens run -o {folder} --resume" in errors
    plant("done", manifest={"refine": refine | {"complete": True, "added": []}})
    conclude(folder.parent / "done", complete=True, report=False, strict=True)
    assert "refined: nothing added, no crossover" in capsys.readouterr().out


def test_a_dry_run_says_what_is_not_known_yet(place):
    done = rooflens(place, *GROWING, "--set", "refine_most=4", "--dry-run")
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("refined afterwards")]
    assert told.startswith("refined afterwards, the leading challenger against constant: up to 4 further M")
    assert "up to 40 units beyond the count below" in told  # one shape x 4 M x 2 providers x 5 rounds
    assert planned(done).startswith("8 cells x 5 rounds = 40 units")
    assert not (place / "out").exists()
