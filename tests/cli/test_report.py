"""`rooflens report`: which files come where, what goes to stdout, and that a mistake is one line."""

import json
import re

import pytest
from rooflens.cli.main import main

from .pseudo_terminal import on_terminal

QUIET = {"shapes": (("toy", "up", 512, 2048), ("toy", "down", 2048, 512)), "Ms": (1, 16), "samples": 4}
PROVIDERS = ("simt_4bit", "dequant_blas", "mma_4bit")


@pytest.fixture
def planted(plant):
    return plant("planted", providers=PROVIDERS, **QUIET)


def named(folder):
    return {path.name for path in folder.iterdir() if path.name.startswith("report")}


def test_page_and_markdown_go_into_the_run_folder_or_where_they_are_told(planted, tmp_path, invoke):
    out = invoke("report", "planted").out.split()
    assert {"runs/planted/report.html", "runs/planted/report.md"} <= set(out)
    assert "toy up" in (planted / "report.html").read_text("utf-8")

    invoke("report", "latest", "-o", "here.md")
    told = (tmp_path / "here.md").read_text("utf-8")
    assert told.replace("(figures/here-", "(figures/") == (planted / "report.md").read_text("utf-8")
    assert not (tmp_path / "report.html").exists()


def test_another_preset_leaves_the_runs_own_report_alone(planted):
    assert main(["report", "planted", "--preset", "flat"]) == 0
    assert named(planted) == {"report-flat.html", "report-flat.md"}
    text = (planted / "report-flat.md").read_text("utf-8")
    assert "rooflens report runs/planted --preset flat -o report.html" in text


def test_text_and_json_on_stdout_are_alone_there(planted, invoke):
    out, err = invoke("report", "planted", "-o", "json=-", "-o", "a.md")
    assert json.loads(out)["facts"]["run"] == "planted"
    assert "a.md" in err
    out, err = invoke("report", "planted", "-o", "text=-", "--ascii")
    assert out.isascii()
    assert "Speedup of simt_4bit over dequant_blas" in out
    assert max(len(line) for line in out.splitlines() if "  " not in line) <= 100  # tables are as wide as they are
    assert err == ""


def test_other_sides_of_any_role(planted, invoke):
    out = invoke("report", "planted", "--preset", "crossover", "--challenger", "mma_4bit", "-o", "json=-").out
    assert json.loads(out)["facts"]["challenger"] == "mma_4bit"
    sides = ["--baseline", "mma_4bit", "--challenger", "dequant_blas"]
    tree = json.loads(invoke("report", "planted", "--preset", "decode-grid", *sides, "-o", "json=-").out)
    assert (tree["facts"]["baseline"], tree["facts"]["challenger"]) == ("mma_4bit", "dequant_blas")
    written = json.dumps(tree["sections"], ensure_ascii=False)
    assert "Speedup of dequant_blas over mma_4bit" in written
    assert "--baseline mma_4bit --challenger dequant_blas" in written


def test_two_runs_are_two_versions(plant, planted, invoke):
    slow = plant("slow", providers=PROVIDERS, seed=1, drift=lambda round_: 1.5, **QUIET)
    out = invoke("report", "slow", "planted", "-o", "digest=-").out
    assert "planted -> slow" in out
    assert re.search(r"simt_4bit, fwd *: .*\(\+50\.\d+%\)", out)
    assert main(["report", "slow", "planted"]) == 0
    assert named(slow) == {"report-branch.html", "report-branch.md"}
    assert named(planted) == set()


def test_the_folder_of_a_comparison_is_a_report_of_two_versions(plant, plant_comparison, tmp_path, invoke):
    arms = ("base", "head")
    for seed, arm in enumerate(arms):
        plant(f"both/{arm}", run_id=arm, providers=PROVIDERS, seed=seed, **QUIET)
    plant_comparison(tmp_path / "runs" / "both", arms, rounds=3)
    tree = json.loads(invoke("report", "runs/both", "-o", "json=-").out)
    assert tree["facts"]["measured"] == "in turn, every round of every version in a fresh process"
    assert "holds both versions: leave planted out" in invoke("report", "runs/both", "planted", code=2).err


SHORT = {"shapes": QUIET["shapes"][:1], "samples": 2, "rounds": 1, "Ms": (1, 2), "providers": PROVIDERS}

LACKING = {
    "planted": {},
    "two": {"providers": PROVIDERS[:2]},
    "one": {"Ms": (1,)},
    "alone": {"providers": ("dequant_blas",)},
    "failed": {"failures": lambda cell: ("oom", "no memory")},
}


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["planted", "--preset", "branch"], "name the BASE too"),
        (["planted", "planted", "--preset", "flat"], "is of one run: leave BASE out"),
        (["planted", "planted", "--challenger", "mma_4bit"], "--challenger is for the report of one run"),
        (["planted", "--challenger", "dequant_blas"], "the baseline of planted; name another one with"),
        (["planted", "-o", "text=-", "-o", "json=-"], "only one of text=- and json=- can be printed"),
        (["planted", "-o", "html=-"], "-o html=-: it cannot be printed; give it a FILE"),
        (["planted", "--text", "-"], "--text is no longer an option: write -o FILE.txt, or -o text=-"),
        (["planted", "--digest"], "--digest is no longer an option: write -o digest=FILE, or -o digest=-"),
        (["planted", "--markdown", "x"], "--markdown is no longer an option: write -o FILE.md;"),
        (["two", "--preset", "three-way"], "needs three providers with a time (old, new, reference), the run has 2"),
        (["one", "--preset", "crossover"], "needs two or more M at a shape"),
        (["alone", "--preset", "decode-grid"], "needs two providers with a time for the same cell"),
        (["failed", "--preset", "flat"], "needs a cell with a time"),
    ],
)
def test_what_cannot_be_said_is_one_line(plant, refused, arguments, words):
    plant(arguments[0], **SHORT | LACKING[arguments[0]])
    assert words in refused("report", *arguments)


def test_on_a_terminal_the_text_is_as_wide_and_coloured_unless_asked_not_to(planted, tmp_path):
    arguments = ("-m", "rooflens.cli", "report", "runs/planted", "--preset", "decode-grid", "-o", "text=-")
    there = {"columns": 72, "cwd": tmp_path, "TERM": "xterm"}
    coloured = on_terminal(*arguments, **there)
    bare = on_terminal(*arguments, **there, NO_COLOR="1")
    assert "\x1b[34m" in coloured
    assert "\x1b" not in bare
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == bare
    assert max(len(line) for line in bare.splitlines() if "  " not in line) <= 72
