"""`rooflens run` with configurations: searched, pinned, or odd; in real processes."""

import json
from pathlib import Path

import pytest
import torch  # noqa: F401 - so that the limit is that of the provider, not of importing torch

from .tiny_runs import check_whole, read, rooflens, run_args

HARNESS = Path(__file__).parents[1] / "harness"
CANDIDATES, ODD = HARNESS / "faulty_candidates.py", HARNESS / "odd_providers.py"
ONE = ("--filter", "M == 1 and layer == 'q'")


@pytest.mark.slow
def test_a_search_goes_around_candidates_that_end_the_worker_and_all_rounds_run_its_winner(place):
    arguments = (*run_args("choosy", "deadly", "hopeless", file=CANDIDATES), *ONE, "--set", "tuning=cold")
    rooflens(place, *arguments)
    *others, hopeless = sorted(read(place), key=lambda row: row["provider"])
    assert [(row["provider"], row["round"]) for row in others] == [(p, n) for p in ("choosy", "deadly") for n in "01"]
    for row in others:
        assert (row["verdict"], row["tuning"], row["config"]) == ("passed", "cold", '{"do":"fast"}')
    assert hopeless["verdict"] == "runtime_error"
    assert "no candidate passed" in hopeless["reason"]
    assert "no such tile" in hopeless["reason"]
    tried = {(row["provider"], json.loads(row["config"])["do"]): row["verdict"] for row in read(place, "tuning.csv")}
    assert tried["deadly", "crash"] == "crashed"
    before = read(place, "tuning.csv")
    rooflens(place, *arguments, "--rounds", "3", "--resume")
    assert read(place, "tuning.csv") == before  # the winner is kept, not searched again
    check_whole(place, cells=2, rounds=3)


@pytest.mark.slow
def test_a_tuned_table_is_used_said_and_never_mixed_with_another(place):
    rooflens(
        place, "tune", "tiny.toml", "--device", "cpu", "--set", "llc_bytes=1MiB,threads=1", "--providers", ODD,
        "-p", "tuples", *ONE, "--searches", "1", "-o", "table",
    )  # fmt: skip
    arguments = (*run_args("tuples", "plain", file=ODD), "--set", "threads=1", "--filter", "layer == 'q' and M <= 2")
    done = rooflens(place, *arguments, "--tuned", "table")
    rows = {(row["provider"], row["M"]): row for row in read(place)}
    assert (rows["tuples", "1"]["tuning"], rows["tuples", "1"]["config"]) == ("pinned", '{"tile":[3,4]}')
    assert (rows["tuples", "2"]["tuning"], rows["tuples", "2"]["reason"]) == ("default", "not in the tuned table")
    assert (rows["plain", "1"]["tuning"], rows["plain", "1"]["reason"]) == ("default", "")
    (place / "table" / "tuning.csv").unlink()  # the run has a copy: what it was started with is what it goes on with
    done = rooflens(place, "run", "-o", "out", "--resume", "--no-report", "--no-calibrate")
    assert len(read(place)) == 8
    done = rooflens(place, *arguments, "--resume", code=2)
    assert "tuning was pinned and is default now" in done.stderr
    (place / "out/tuned.csv").write_text((place / "out/tuned.csv").read_text().replace("[3,4]", "[4,3]"))
    done = rooflens(place, "run", "-o", "out", "--resume", code=2)
    assert "out/tuned.csv is not the table that the run began with" in done.stderr


NOT_STORED = [
    ("plain", "passed", ""),
    ("half_bytes", "passed", ""),
    ("typed_config", "runtime_error", "config['accumulate'] is a torch.dtype: use plain JSON values"),
    ("long_config", "runtime_error", "config has 200013 characters as JSON, and 16384 can be stored"),
    ("long_names", "passed", ""),
    ("long_reason", "runtime_error", "yyyyyyyy"),
    ("broken_bytes", "runtime_error", "moved_bytes() returned 12.5"),
    ("negative_bytes", "runtime_error", "moved_bytes() returned -5"),
    ("no_launch", "runtime_error", "prepare() returned NoneType, not a Launch"),
]


def test_what_cannot_be_stored_costs_its_own_cell(place):
    rooflens(place, *run_args(*(name for name, _, _ in NOT_STORED), file=ODD), *ONE, "--rounds", "1")
    rows = {row["provider"]: row for row in read(place)}
    for provider, verdict, reason in NOT_STORED:
        assert rows[provider]["verdict"] == verdict, provider
        assert reason in rows[provider]["reason"]
    rooflens(place, "validate", "out")
