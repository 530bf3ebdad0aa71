"""`rooflens run --scan`: variants of the selected shapes, with the configuration of the shape itself."""

import json
from pathlib import Path

import pytest
from rooflens import load
from rooflens.cli.run.end_of_run import summary_lines

from .tiny_runs import check_whole, read, rooflens, run_args, write_suite

KERNELS = Path(__file__).parents[1] / "harness" / "scanned_providers.py"


SCAN = (*run_args("tiled", "partly", "dequant_blas", file=KERNELS), "--filter", "layer == 'q' and M <= 2")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return a folder with a finished scan of q (48 x 128)."""
    place = write_suite(tmp_path_factory.mktemp("scan"))
    rooflens(place, *SCAN, "--scan", "N=48~1x16")
    return place


def test_every_selected_shape_is_replaced_by_its_variants(done):
    place = done
    check_whole(place, cells=3 * 3 * 2)  # sizes x providers x M, in two rounds
    rows = read(place)
    assert {(row["layer"], row["N"], row["K"]) for row in rows} == {(f"q N={n}", str(n), "128") for n in (32, 48, 64)}
    manifest = json.loads((place / "out" / "run.json").read_text())
    of = [{"model": "tiny", "layer": "q", "N": 48, "K": 128}]
    assert manifest["scan"] == {"axis": "N", "text": "N=48~1x16", "sizes": [32, 48, 64], "of": of}
    assert [shape["layer"] for shape in manifest["shapes"]] == ["q N=32", "q N=48", "q N=64"]
    assert manifest["planned_units"] == 36


def test_the_configuration_is_that_of_the_shape_itself(done):
    place = done
    for row in read(place):
        config = json.loads(row["config"])
        if row["provider"] == "tiled":  # its default depends on N: 16 columns up to 32, 32 beyond
            assert (config["BLOCK_N"], row["tuning"]) == (32, "pinned")
        elif row["provider"] == "partly":  # for 64 it offers nothing else than 64
            assert (config["BLOCK_N"], row["tuning"]) == ((64, "default") if row["N"] == "64" else (32, "pinned"))


def test_the_end_of_the_run_says_what_was_held(done):
    lines = list(summary_lines(load(done / "out").view))
    assert len(lines) == 3
    assert any("partly was not held at N=64, where it does not offer that configuration" in line for line in lines)


@pytest.mark.slow
def test_a_scan_goes_on_as_it_was_started(done, tmp_path):
    place = done
    cells = place / "out" / "cells.csv"
    before = cells.read_text()
    cells.write_text("".join(before.splitlines(keepends=True)[:-2]))
    looked = rooflens(place, "run", "-o", "out", "--resume", "--dry-run")
    assert "34 of 36 units are stored in out already" in looked.stdout
    rooflens(place, "run", "-o", "out", "--resume", "--no-report")
    check_whole(place, cells=18)
    assert {row["cell_id"] for row in read(place)} == {line.split(",")[0] for line in before.splitlines()[1:]}
    other = rooflens(place, *SCAN, "--scan", "N=48~1x8", "--resume", code=2)
    assert "--scan was N=48~1x16 and is N=48~1x8 now" in other.stderr
    none = rooflens(place, *SCAN, "--resume", code=2)
    assert "--scan was N=48~1x16 and is not given now" in none.stderr


def test_a_provider_that_cannot_be_asked_ends_the_run_before_it_begins(place):
    ended = rooflens(place, *run_args("refusing", file=KERNELS), "--scan", "N=48,64", code=1)
    assert "ValueError: no idea (scanned_providers.py:36); see out/worker.log" in ended.stderr
    assert "ValueError: no idea" in (place / "out" / "worker.log").read_text()
    assert not (place / "out" / "run.json").exists()


def test_a_dry_run_shows_the_variants(place):
    assert (
        "tiny q N=4096" in rooflens(place, *run_args("dequant_blas", file=None), "--dry-run", "--scan", "N=4096").stdout
    )
    assert not (place / "out").exists()
