"""What the end of a run says of its cells, on planted runs."""

import json

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.api.run_folders import how_to_resume
from rooflens.cli.run.end_of_run import finish, summary_lines
from rooflens.reports.view import View
from rooflens.shapes.errors import CorrectnessError, IncompleteError
from rooflens.shapes.run_folder.columns import TUNING

from ..analysis.planted_searches import candidate, searched
from ..analysis.synthetic import write_run, write_table

SMALL = {"shapes": (("m", "l", 64, 96),), "Ms": (1, 2), "rounds": 2}
"""1 shape x 2 M x 4 providers = 8 cells, 16 units."""


@pytest.mark.parametrize(
    ("stopped", "told"), [("2026-01-01T00:00:00.000+00:00", 0), ("2027-01-01T00:00:00.000+00:00", 1)]
)
def test_a_run_that_only_lacks_its_closing_calibration_says_so(tmp_path, capsys, stopped, told):
    """Cells began in January 2026: a stop before that was followed by a --resume, which measured what was missing."""
    folder = write_run(tmp_path / "run", **SMALL)
    (folder / "events.log").write_text(f"{stopped} stopped at --max-time\n")
    assert finish(folder, complete=True, report=False) is None
    out, err = capsys.readouterr()
    assert out.count("note: every cell is finished; only the closing calibration is missing") == told
    assert "--resume" not in err


def test_strict_is_about_units(tmp_path, capsys):
    part = write_run(tmp_path, **SMALL, skip=lambda cell, number: number == 1)
    assert isinstance(finish(part, complete=False, report=False), IncompleteError)
    out, err = capsys.readouterr()
    assert "cells: 8 / 8 timed; 8 / 16 rounds to do\n" in out
    assert "--resume" in err


FAILED = {("simt_4bit", 1): ("incorrect", "SNR 3 dB"), ("gemv_4bit", 2): ("crashed", "signal 11")}


@pytest.mark.parametrize(
    ("failures", "kind", "code"), [(FAILED, CorrectnessError, 5), (dict([list(FAILED.items())[1]]), IncompleteError, 4)]
)
def test_a_failed_cell_is_named_with_the_exit_code_of_strict(tmp_path, capsys, failures, kind, code):
    folder = write_run(tmp_path, **SMALL, failures=lambda cell: failures.get((cell.provider, cell.M)))
    (folder / "worker.log").write_text("Traceback ...")
    found = finish(folder, complete=True, report=False)
    assert type(found) is kind
    assert found.exit_code == code
    named = ", ".join(sorted((f"{name} {verdict}" for (name, _), (verdict, _) in failures.items()), reverse=True))
    assert str(found) == f"failed: {named}; the column reason of cells.csv says why"
    out, err = capsys.readouterr()
    assert f"traceback     {folder}/worker.log\n" in out
    assert "ended as" not in err, "the line that counts the cells has said so"


def test_what_concerns_the_run_as_a_whole_ends_it(tmp_path, capsys):
    folder = write_run(tmp_path, **SMALL, ceilings=False)
    for report in (False, True):
        assert finish(folder, complete=True, report=report) is None
        out, err = capsys.readouterr()
        notes = [line for line in err.splitlines() if line.startswith("note: ")]
        assert any("ceiling" in note or "calibrat" in note for note in notes), err
        assert "traceback" not in out


def test_candidates_that_failed_in_searches_are_named(tmp_path):
    folder = write_run(tmp_path, **SMALL)
    rows = searched(0, {"right": 1e-3, "wrong": None, "hang": None}, "right")
    rows[2]["verdict"] = "timeout"
    other = candidate(None, provider="other", verdict="unsupported")
    write_table(folder, TUNING, [*rows, other])
    assert list(summary_lines(View(analyze(load_run(folder)))))[1:] == [
        "2 candidates failed in the searches: tri tile=wrong runtime_error, tri tile=hang timeout (tuning.csv)"
    ]


@pytest.mark.parametrize(("tuning", "told"), [("pinned", 1), ("default", 0)])
def test_cells_that_the_table_does_not_hold_are_counted_under_a_pin(tmp_path, tuning, told):
    folder = write_run(
        tmp_path,
        **SMALL,
        columns=lambda cell, round_: {"tuning": "pinned" if cell.provider == "simt_4bit" else "default"},
        manifest={"protocol": {"tuning": tuning}},
    )
    assert (
        list(summary_lines(View(analyze(load_run(folder)))))[1:]
        == ["note: 6 of 8 cells are not in the table and ran the default"] * told
    )


@pytest.mark.parametrize(
    ("run", "files", "words"),
    [
        ("none", {}, "nothing was measured: give the same command again"),
        ("one", {"one/run.json": {}}, "resume with: rooflens run -o {}/one --resume"),
        ("fleet", {"fleet/run.json": {"fleet": {"jobs": 3}}}, "--resume --jobs local"),
        ("slots", {"slots/run.json": {"fleet": {"slots": 4}}}, "--jobs local:4"),
        ("on", {"on/run.json": {"fleet": {"address": "10.0.0.7:6379"}}}, "on --resume --address 10.0.0.7:6379"),
        (
            "both/base",
            {"both/base/run.json": {"fleet": {"jobs": 3}}, "both/compare.json": {}},
            "resume with: rooflens compare -o {}/both --resume",
        ),
    ],
)
def test_how_to_go_on_names_the_command_that_can(tmp_path, run, files, words):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    assert words.format(tmp_path) in how_to_resume(tmp_path / run)
