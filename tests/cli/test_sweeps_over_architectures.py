"""A sweep over several architectures on disk: how it is listed, and what names one run of it."""

import json

import pytest
from rooflens.cli.main import main
from rooflens.cli.run.end_of_run import conclude
from rooflens.cli.shared.runs import find_run, read_sweep, stored_runs
from rooflens.shapes.errors import UsageError

from ..analysis.synthetic import H200

QUIET = {
    "shapes": (("toy", "up", 512, 2048),), "Ms": (1, 16), "samples": 2, "rounds": 2,
    "providers": ("simt_4bit", "dequant_blas"),
}  # fmt: skip
MI355X = {"name": "AMD Instinct MI355X", "vendor": "AMD", "arch": "gfx950"}


@pytest.fixture
def sweep(plant, tmp_path):
    """Return `sweep(name, *architectures, begun=...)`: runs/NAME with fleet.json and the runs that have begun."""

    def write(name="night", *architectures, begun=("sm90", "gfx950"), created_at="2026-03-01T00:00:00Z"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        for number, architecture in enumerate(begun):
            device = H200.device | (MI355X if architecture == "gfx950" else {})
            plant(
                f"{name}/{architecture}",
                machine=H200,
                seed=number,
                manifest={"device": device, "device_spec": None},
                **QUIET,
            )
        listed = list(architectures or ("sm90", "gfx950"))
        about = {"id": name, "suite": "llm4bit-quick", "created_at": created_at, "architectures": listed}
        (folder / "fleet.json").write_text(json.dumps(about))
        return folder

    return write


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["report", "night"], "holds runs of several architectures: name one, runs/night/sm90 or runs/night/gfx950"),
        (["report", "night", "night/sm90"], "holds runs of several architectures: name one, runs/night/sm90 or"),
        (["roofline", "night"], "runs/night holds runs of several architectures: name one, runs/night/sm90 or"),
        (["crossover", "runs/night"], "runs/night holds runs of several architectures: name one, runs/night/sm90 or"),
        (["validate", "latest"], "latest is runs/night, which holds runs of several architectures: name one, runs/"),
        (["compare", "night", "night"], "holds runs of several architectures: name one"),
        (["report", "nigth"], "unknown run 'nigth': did you mean night?"),
    ],
)
def test_what_needs_one_run_names_them(sweep, invoke, arguments, words):
    folder = sweep()
    assert find_run("night/gfx950").resolve() == folder / "gfx950"
    out, err = invoke(*arguments, code=2)
    assert words in err
    assert err.count("\n") == 1
    assert out == ""


@pytest.mark.slow
def test_every_run_of_a_sweep_gets_its_report_at_the_end(sweep, capsys):
    """One run is not finished yet: it has no report, and the other has."""
    folder = sweep()
    (folder / "sm90" / "cells.csv").write_text("cell_id,round\n")
    conclude(folder, complete=False, report=True, strict=False)
    out, err = capsys.readouterr()
    assert f"report        {folder}/gfx950/report.html" in out
    assert "NVIDIA H200" not in (folder / "gfx950" / "report.md").read_text("utf-8")
    assert sorted(path.name for path in folder.glob("**/report.*")) == ["report.html", "report.md"]
    assert f"{folder}/sm90 --resume" in err


def test_sweeps_are_listed_with_their_architectures(sweep, plant, invoke):
    plant("older", **QUIET)
    sweep()
    sweep("alone", "sm90", begun=("sm90",), created_at="2026-01-01T00:00:00Z")
    with pytest.raises(UsageError, match=r"holds the run of one architecture: name it, runs/alone/sm90$"):
        find_run("alone")
    sweep("begins", "sm90", "gfx950", begun=("sm90",), created_at="2026-04-01T00:00:00Z")
    assert [run.id for run in stored_runs() if run.id != "alone"] == ["begins", "night", "older"]
    begins, night, older, *_ = json.loads(invoke("list", "runs", "--json").out)
    assert night["architectures"] == ["sm90", "gfx950"]
    assert night["device"] == "sm90: NVIDIA H200, gfx950: AMD Instinct MI355X"
    assert night["rows"] == 2 * 2 * 2 * 2, "two architectures, providers, M and rounds"
    assert begins["device"] == "sm90: NVIDIA H200, gfx950: not begun"
    assert begins["rows"] == night["rows"] // 2
    assert older["architectures"] == []
    assert "gfx950: AMD Instinct MI355X" in invoke("list", "runs").out


@pytest.mark.parametrize(
    "content, words",
    [
        ("{", "fleet.json line 1, column 2: .*restore the file from a copy"),
        ('{"id": "a", "suite": 3, "created_at": "", "architectures": ["sm90"]}', "suite = 3 must be a text"),
        ('{"id": "a", "suite": "s", "created_at": "", "architectures": []}', r"architectures = \[\] must be a list"),
        ('{"id": "a", "suite": "s", "created_at": "", "architectures": "sm90"}', "architectures = 'sm90' must be"),
        ('{"id": "a", "suite": "s", "created_at": "", "architectures": ["../x"]}', "names of folders beside it"),
    ],
)
def test_a_broken_fleet_json_is_told_and_not_listed(tmp_path, monkeypatch, content, words):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "night"
    folder.mkdir(parents=True)
    (folder / "fleet.json").write_text(content)
    with pytest.raises(UsageError, match=words):
        read_sweep(folder)
    assert stored_runs() == []
    assert main(["report", "runs/night"]) == 2
