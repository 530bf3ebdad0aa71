"""A sweep over several architectures on disk: its reports, how it is listed, and what names one run of it."""

import json
import re

import pytest
from rooflens.cli.main import main
from rooflens.cli.report.architectures import write_reports
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


def told(invoke, *arguments, code=0):
    return invoke(*list(arguments), code=code)


@pytest.mark.slow
def test_the_report_side_by_side_and_each_runs_own_are_written(sweep, invoke):
    folder = sweep()
    paths = told(invoke, "report", "night").out.split()
    for name in ("report.html", "sm90/report.html", "gfx950/report.md"):
        assert f"runs/night/{name}" in paths
        assert (folder / name).is_file()
    page = (folder / "report.html").read_text("utf-8")
    for architecture in ("sm90", "gfx950"):
        links = re.findall(r'href="([^#"]*)"', page)
        assert f"{architecture}/report.html" in links
    assert all((folder / link).is_file() for link in links if link.endswith(".html"))
    assert "AMD Instinct MI355X" in (folder / "gfx950" / "report.md").read_text("utf-8")
    assert "NVIDIA H200" not in (folder / "gfx950" / "report.md").read_text("utf-8")
    own = (folder / "sm90" / "report.html").read_bytes()
    told(invoke, "report", "night/sm90")
    assert (folder / "sm90" / "report.html").read_bytes() == own, "the same as of the run by itself"


@pytest.mark.slow
def test_forms_that_are_asked_for_are_all_that_is_written(sweep, tmp_path, invoke):
    folder = sweep()
    tree = json.loads(told(invoke, "report", "latest", "--json", "-").out)
    assert tree["title"] == "llm4bit-quick on sm90 and gfx950"
    assert tree["facts"]["sweep"] == "night"
    assert not list(folder.glob("**/report*"))
    assert '"link"' not in json.dumps(tree), "there is no report of a run yet"
    write_reports(folder)
    told(invoke, "report", "night", "--html", "elsewhere/a.html", "--markdown", "elsewhere/a.md", "--text", "a.txt")
    for name in ("a.html", "a.md"):
        assert "../runs/night/gfx950/report.html" in (tmp_path / "elsewhere" / name).read_text("utf-8")
    assert (tmp_path / "elsewhere" / "../runs/night/gfx950/report.html").is_file()
    digest = told(invoke, "report", "night", "--digest").out
    assert digest.isascii()
    assert max(map(len, digest.splitlines())) <= 72
    assert {"sm90 (NVIDIA H200)", "gfx950 (AMD Instinct MI355X)"} <= set(digest.splitlines())
    text = told(invoke, "report", "night", "--text", "-", "--ascii").out
    assert text.isascii()
    assert "dequant_blas / simt_4bit (time), > 1: simt_4bit is faster" in text


def test_the_sweep_may_go_on_meanwhile(sweep, invoke):
    folder = sweep("night", "sm90", "gfx950", "gfx942", begun=("sm90", "gfx942"))
    (folder / "gfx942" / "cells.csv").write_text("cell_id,round\n")
    assert not told(invoke, "report", "night").err
    page = (folder / "report.html").read_text("utf-8")
    assert "gfx950 is not in this report: its run has not begun (runs/night/gfx950 has no run.json)." in page
    assert "gfx942 is not in this report: no cell of its run is finished (runs/night/gfx942)." in page
    assert not (folder / "gfx950").exists()
    assert not (folder / "gfx942" / "report.html").exists()


def test_a_sweep_without_any_cell_is_one_line(sweep, invoke):
    sweep(begun=())
    error = told(invoke, "report", "night", code=2).err
    assert error == "rooflens: error: runs/night: no architecture of this sweep has a finished cell yet\n"


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["report", "night", "--preset", "flat"], "name one for the preset flat, runs/night/sm90 or runs/night/gfx950"),
        (["report", "night", "--preset", "branch"], "name one for the preset branch, runs/night/sm90 or"),
        (["report", "night", "--preset", "flatt"], "did you mean flat?"),
        (["report", "night", "--challenger", "simt_4bit"], "name one, runs/night/sm90 or runs/night/gfx950"),
        (["report", "night", "night/sm90"], "holds runs of several architectures: name one, runs/night/sm90 or"),
        (["roofline", "night"], "runs/night holds runs of several architectures: name one, runs/night/sm90 or"),
        (["crossover", "runs/night"], "runs/night holds runs of several architectures: name one, runs/night/sm90 or"),
        (["validate", "latest"], "latest is runs/night, which holds runs of several architectures: name one, runs/"),
        (["compare", "night", "night"], "holds runs of several architectures: name one"),
        (["report", "nigth"], "unknown run 'nigth': did you mean night?"),
    ],
)
def test_what_needs_one_run_names_them(sweep, invoke, arguments, words):
    sweep()
    out, err = told(invoke, *arguments, code=2)
    assert words in err
    assert err.count("\n") == 1
    assert out == ""


@pytest.mark.slow
def test_the_default_preset_by_name_is_the_default(sweep, invoke):
    folder = sweep()
    told(invoke, "report", "night", "--preset", "full")
    assert (folder / "report.html").is_file()
    assert (folder / "gfx950" / "report.html").is_file()


def test_a_sweep_over_one_architecture(sweep, invoke):
    sweep("night", "sm90", begun=("sm90",))
    with pytest.raises(UsageError, match=r"holds the run of one architecture: name it, runs/night/sm90$"):
        find_run("night")
    assert "runs/night/report.html" in told(invoke, "report", "night").out


def test_runs_of_a_sweep_are_runs(sweep, tmp_path, invoke):
    folder = sweep()
    assert find_run("night/gfx950").resolve() == folder / "gfx950"
    assert "simt_4bit" in told(invoke, "roofline", "runs/night/sm90").out


def test_sweeps_are_listed_with_their_architectures(sweep, plant, invoke):
    plant("older", **QUIET)
    sweep()
    sweep("begins", "sm90", "gfx950", begun=("sm90",), created_at="2026-04-01T00:00:00Z")
    assert [run.id for run in stored_runs()] == ["begins", "night", "older"]
    begins, night, older = json.loads(told(invoke, "list", "runs", "--json").out)
    assert night["architectures"] == ["sm90", "gfx950"]
    assert night["device"] == "sm90: NVIDIA H200, gfx950: AMD Instinct MI355X"
    assert night["rows"] == 2 * 2 * 2 * 2, "two architectures, providers, M and rounds"
    assert begins["device"] == "sm90: NVIDIA H200, gfx950: not begun"
    assert begins["rows"] == night["rows"] // 2
    assert older["architectures"] == []
    assert "gfx950: AMD Instinct MI355X" in told(invoke, "list", "runs").out


@pytest.mark.parametrize(
    "content, words",
    [
        ("{", "fleet.json line 1, column 2: .*restore the file from a copy"),
        ("[]", "a JSON object is expected"),
        ('{"id": "a", "suite": 3, "created_at": "", "architectures": ["sm90"]}', "suite = 3 must be a text"),
        ('{"id": "a", "suite": "s", "created_at": "", "architectures": []}', r"architectures = \[\] must be a list"),
        ('{"id": "a", "suite": "s", "created_at": "", "architectures": "sm90"}', "architectures = 'sm90' must be"),
        ('{"id": "a", "suite": "s", "created_at": "", "architectures": ["../x"]}', "names of folders beside it"),
        ('{"id": "a", "suite": "s", "created_at": "", "architectures": ["a", "a"]}', "names of folders beside it"),
        ('{"id": "a", "suite": "s", "created_at": ""}', "architectures = None must be"),
        (
            f'{{"id": "a", "suite": "s", "created_at": "", "architectures": ["{"x" * 9000}"]}}',
            "names of folders beside",
        ),
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
