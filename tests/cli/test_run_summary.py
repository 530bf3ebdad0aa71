"""What the end of a run says of its cells, on planted runs."""

import json
from contextlib import nullcontext

import pytest
import rooflens
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.api.outcome import outcome_of
from rooflens.api.run_folders import how_to_resume
from rooflens.cli.run.end_of_run import conclude, summary_lines
from rooflens.reports.view import View
from rooflens.shapes.errors import CorrectnessError, IncompleteError
from rooflens.shapes.run_folder.columns import TUNING

from ..analysis.planted_searches import candidate, searched
from ..analysis.synthetic import write_run, write_table

SMALL = {"shapes": (("m", "l", 64, 96),), "Ms": (1, 2), "rounds": 2}
"""1 shape x 2 M x 4 providers = 8 cells, 16 units."""


def test_strict_is_about_units(tmp_path, capsys):
    part = write_run(tmp_path, **SMALL, skip=lambda cell, number: number == 1)
    with pytest.raises(IncompleteError, match="the sweep is not complete: resume with"):
        conclude(part, complete=False, report=False, strict=True)
    out, err = capsys.readouterr()
    assert "cells: 8 / 8 timed; 8 / 16 rounds to do\n" in out
    assert "--resume" in err
    assert outcome_of(part, complete=True).error is None
    conclude(part, complete=False, report=False, strict=False)


@pytest.mark.parametrize("strict", [False, True])
def test_a_sweep_without_a_finished_round_is_incomplete(tmp_path, capsys, strict):
    write_run(tmp_path, **SMALL, skip=lambda *unit: True)
    with pytest.raises(IncompleteError, match="no round was finished: resume with") if strict else nullcontext():
        conclude(tmp_path, complete=False, report=True, strict=strict)
    assert ("--resume" in capsys.readouterr().err) != strict


FAILED = {("simt_4bit", 1): ("incorrect", "SNR 3 dB"), ("gemv_4bit", 2): ("crashed", "signal 11")}


@pytest.mark.parametrize(
    ("failures", "kind", "code"), [(FAILED, CorrectnessError, 5), (dict([list(FAILED.items())[1]]), IncompleteError, 4)]
)
def test_a_failed_cell_is_named_with_the_exit_code_of_strict(tmp_path, capsys, failures, kind, code):
    folder = write_run(tmp_path, **SMALL, failures=lambda cell: failures.get((cell.provider, cell.M)))
    (folder / "worker.log").write_text("Traceback ...")
    found = rooflens.load(folder).outcome.error
    assert type(found) is kind
    assert found.exit_code == code
    named = ", ".join(sorted((f"{name} {verdict}" for (name, _), (verdict, _) in failures.items()), reverse=True))
    assert str(found) == f"failed: {named}; the column reason of cells.csv says why"
    conclude(folder, complete=True, report=False, strict=False)
    out, err = capsys.readouterr()
    assert f"traceback     {folder}/worker.log\n" in out
    assert f"and {code} with --strict" in err
    assert "ended as" not in err, "the line that counts the cells has said so"


def test_what_concerns_the_run_as_a_whole_ends_it(tmp_path, capsys):
    folder = write_run(tmp_path, **SMALL, ceilings=False)
    conclude(folder, complete=True, report=True, strict=True)
    out, err = capsys.readouterr()
    notes = [line for line in err.splitlines() if line.startswith("note: ")]
    assert any("ceiling" in note or "calibrat" in note for note in notes), err
    assert "traceback" not in out


def test_candidates_that_failed_in_searches_are_named(tmp_path, capsys):
    folder = write_run(tmp_path, **SMALL)
    rows = searched(0, {"right": 1e-3, "wrong": None, "hang": None}, "right")
    rows[2]["verdict"] = "timeout"
    other = candidate(None, provider="other", verdict="unsupported")
    write_table(folder, TUNING, [*rows, other])
    conclude(folder, complete=True, report=True, strict=True)
    told = [line for line in capsys.readouterr().err.splitlines() if " in 1 of 1 search" in line]
    assert [line.partition(" in ")[0] for line in told] == [
        "note: tri tile=wrong: runtime error",
        "note: tri tile=hang: timeout",
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
        list(summary_lines(View(analyze(load_run(folder)))))
        == ["note: 6 of 8 cells are not in the table and ran the default"] * told
    )


@pytest.mark.parametrize(
    ("run", "files", "words"),
    [
        ("none", {}, "nothing was measured: give the same command again"),
        ("one", {"one/run.json": {}}, "resume with: rooflens run -o {}/one --resume"),
        ("table", {"table/run.json": {"tune": {}}}, "resume with: rooflens tune -o {}/table --resume"),
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
