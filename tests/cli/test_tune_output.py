"""What is printed of a planted table: every sentence about drift, failures, disturbances and the export."""

import json

import pytest
from click.testing import CliRunner
from rooflens.cli.tune import tune
from rooflens.harness.storage.tables import fields
from rooflens.shapes.files.csv_file import csv_text
from rooflens.shapes.run_folder.columns import TUNING

from ..analysis import planted_searches


def searched(times, winner, search=0, cell="c0", near=(), **columns):
    """Rows of one search, whose failures have a reason."""
    failed = {"verdict": "incorrect", "reason": f"SNR {3.1 + search} dB is below the 40 dB of bf16"}
    rows = planted_searches.searched(search, times, winner, near, cell, **columns)
    return [row | {"error_ratio": 0.0} if row["time_s"] else row | failed for row in rows]


@pytest.fixture
def show(tmp_path):
    """Return `show(*searches, arguments)`: write a complete table and look at it again."""

    def call(*found, arguments=()):
        out = tmp_path / "out"
        out.mkdir()
        rows = [fields(TUNING, row) for rows in found for row in rows]
        (out / TUNING.file).write_text(csv_text(TUNING.names, rows))
        (out / "run.json").write_text(json.dumps({"tune": {}, "complete_searches": len(found)}))
        return CliRunner().invoke(tune, ["-o", str(out), "--resume", *map(str, arguments)], catch_exceptions=False)

    return call


def test_many_failures_are_bounded(show):
    wrong = dict.fromkeys((f"w{number}" for number in range(30)), None)
    done = show(searched({"good": 1e-6} | wrong, "good"))
    assert len(done.stderr.splitlines()) == 13
    assert done.stderr.splitlines()[-1] == "note: 18 more failed configurations: see verdict and reason in tuning.csv"


def test_json_holds_the_same(show):
    done = show(searched({"a": 1e-6, "wrong": None}, "a", disturbed="clock from 1 to 2 MHz"), arguments=["--json"])
    found = json.loads(done.stdout)
    assert found["complete"] is True
    assert found["disturbed"] == {"searches": 1, "of": 1, "worst": "clock from 1 to 2 MHz"}
    (failure,) = found["failures"]
    assert (failure["config"], failure["verdict"], failure["failed"]) == ('{"tile": "wrong"}', "incorrect", 1)
    assert done.stderr == ""


def test_an_export_says_what_it_leaves_out(show, tmp_path):
    file = tmp_path / "tuned.csv"
    done = show(
        searched({"a": 1e-6}, "a"),
        searched({"a": 2e-6}, "a", cell="c1", provider="simt"),
        searched({"a": 3e-6}, "a", cell="c2", provider="mma"),
        searched({"wrong": None}, None, cell="c3", M=2),
        searched({"a": 1e-6}, "a", cell="c4", provider="simt", M=2),
        arguments=["--export", file],
    )
    assert done.stderr.splitlines()[-1] == (
        f"2 rows written to {file}; 3 cells excluded: 2 slower than another provider's (simt 1, mma 1), "
        "1 without a winner (tri 1)"
    )
    assert [line.split(",")[7] for line in file.read_text().splitlines()[1:]] == ["tri", "simt"]
