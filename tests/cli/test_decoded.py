"""A provider that asks for decoded weights before it is timed is a reference, whether it says so or not."""

import json
from pathlib import Path

import pytest
from rooflens.analysis.frames.load import load_run

from .tiny_runs import ON_CPU, rooflens

FILE = Path(__file__).parents[1] / "harness" / "decoding_providers.py"
NAMES = ("decodes_before", "says_so", "decodes_once", "decodes_inside")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return the folder with runs/one, and what the command said."""
    place = tmp_path_factory.mktemp("decoded")
    done = rooflens(
        place,
        *("run", "llm4bit-quick", "--filter", "N == 512", "-a", "M=1", *ON_CPU, "--set", "rounds=2,budget_s=0.05"),
        *("--providers", FILE, "-p", "dequant_blas", *(part for name in NAMES for part in ("-p", name))),
        *("--no-calibrate", "--no-report", "-o", "runs/one"),
    )
    return place, done


def test_one_remark_names_it_and_says_how_to_declare_it(measured):
    _, done = measured
    said = " ".join(done.stderr.split())
    for name in ("decodes_before", "decodes_once"):
        assert said.count(f"{name} asked for a decoded operand in prepare() or once") == 1
    assert "write role = Role.REFERENCE, or decode in the launch" in said
    assert "says_so asked" not in said
    assert "decodes_inside asked" not in said


def test_it_is_a_reference_to_whoever_reads_the_run(measured):
    place, _ = measured
    run = load_run(place / "runs" / "one")
    assert {name: run.is_reference(name) for name in NAMES} == dict(zip(NAMES, (True, True, True, False), strict=True))
    assert set(run.cells.loc[run.cells["role"] == "reference", "provider"]) == {*NAMES} - {"decodes_inside"}
    assert set(NAMES) & set(run.challengers) == {"decodes_inside"}
    found = json.loads(rooflens(place, "dispatch", "runs/one", "--json").stdout)
    assert "decodes_before" not in json.dumps(found["recommended"])
    refused = rooflens(place, "dispatch", "runs/one", "-p", "decodes_before", code=2)
    assert "it is a reference" in refused.stderr
    rooflens(place, "run", "-o", "runs/one", "--resume", "--no-report")
    assert load_run(place / "runs" / "one").is_reference("decodes_before")
