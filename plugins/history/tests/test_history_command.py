"""`rooflens history` on stored runs with planted trends."""

import json
import shlex

import numpy as np
import pytest
from rooflens.cli.compare.compare import compare
from rooflens.plugins.history.chapters import BARS, sparkline

SHAPES = (("tiny", "q", 64, 128), ("tiny", "v", 4096, 4096))


@pytest.fixture
def nightly(plant):
    """Ten runs of two shapes and M = 1, 16; from the seventh on, simt_4bit is 8 % slower at M = 16."""

    def latency(number):
        slower = 1.08 if number >= 6 else 1.0
        return lambda cell: 1e-4 * cell.M * (slower if cell.provider == "simt_4bit" and cell.M == 16 else 1)

    def write(runs=10, folder="n{:02}", of=lambda number: {}):
        for number in range(runs):
            source = "old" if number < 6 else "new"
            usual = {"shapes": SHAPES, "Ms": (1, 16), "providers": ("simt_4bit", "blas"), "baseline": "blas"}
            usual |= {"round_noise": 0.001, "sample_noise": 0, "samples": 3, "seed": number}
            usual["manifest"] = {"created_at": f"2026-01-{number + 1:02}T03:00:00Z"} | of(number)
            usual["columns"] = lambda cell, round_, source=source: {"source": source}
            plant(folder.format(number), **usual, latency=latency(number))
        return [f"runs/{folder.format(number)}" for number in range(runs)]

    return write


def test_a_trend_with_its_proposals_and_the_command_that_decides(nightly, invoke):
    out, err = invoke("history", *reversed(nightly()))
    first, key, *_ = out.splitlines()
    assert first == "10 runs from 2026-01-01 to 2026-01-10"
    assert key.startswith("series A: device Planted CPU @ 2.10GHz, arch x86-64-avx512, torch 2.13.0")
    rows = [line for line in out.splitlines() if line.startswith("tiny") and "10 / 10" in line]
    assert len(rows) == 8
    proposed = [line for line in rows if " 1  ▁" in line]
    assert len(proposed) == 2
    assert all("simt_4bit" in line and "  16  " in line for line in proposed)
    gap = out[out.index("between n05 (2026-01-06) and n06 (2026-01-07)") :]
    assert "source old -> new" in gap
    assert "+8." in gap or "+7.9" in gap
    assert gap.rstrip().endswith("\nrooflens compare runs/n05 runs/n06")
    assert "\n2 changes proposed; " in out
    assert "8 of 8 series hold runs without a canary" in err
    assert "of two stored runs, only large changes can be verified" in err


def test_json_has_every_point_and_every_proposal(nightly, invoke):
    found = json.loads(invoke("history", *nightly(), "--json", "--filter", "M == 16 and N == 64").out)
    assert [run["id"] for run in found["runs"]] == [f"n{number:02}" for number in range(10)]
    assert found["runs"][0]["canary_s"] is None
    assert {row["provider"]: len(row["points"]) for row in found["series"]} == {"simt_4bit": 10, "blas": 10}
    (one,) = found["proposals"]
    assert (one["before"], one["after"]) == (5, 6)
    assert one["low"] < 0.08 < one["high"]
    assert one["command"] == "rooflens compare runs/n05 runs/n06"
    assert (one["source_before"], one["source_after"]) == ("old", "new")


def test_arms_of_comparisons_are_decided_between_their_commits(nightly, tmp_path, invoke):
    """Each night compared with a release: the trend of the heads lies between commits."""
    names = nightly(folder="c{}/head")
    for number in range(10):
        state = {
            "repository": "/home/me/my kernels", "commits": {"base": "f" * 40, "head": f"{number}" * 40},
            "suite": "llm4bit-quick", "files": ["bench/k.py"], "options": ["--device", "cpu"], "rounds": 8,
            "setup": "pip install -e .", "done": [],
        }  # fmt: skip
        (tmp_path / f"runs/c{number}/compare.json").write_text(json.dumps(state))
    found = json.loads(invoke("history", *names, "--json").out)
    assert found["runs"][3]["id"] == "runs/c3/head"
    assert found["runs"][3]["commit"] == "3" * 40
    words = shlex.split(found["proposals"][0]["command"])
    head = ["rooflens", "compare", "--git", f"{'5' * 12}..{'6' * 12}", "--repo", "/home/me/my kernels"]
    assert words[: len(head)] == head
    assert words[len(head) : -1] == [
        *("--providers", "bench/k.py", "--setup", "pip install -e .", "-p", "simt_4bit"),
        *("--filter", 'layer == "q" and M == 16', "--device", "cpu"),
    ]
    assert words[-1] == "llm4bit-quick"
    (tmp_path / "runs/c5/compare.json").write_text("{")
    assert "\nrooflens compare runs/c5/head runs/c6/head\n" in invoke("history", *names).out


def of_commit(repo, number, dirty=False, **request):
    """What run.json of a run of bench/k.py says beside the usual."""
    options = {"suite": "llm4bit-quick", "files": [f"{repo}/bench/k.py"], "providers": [], "device": "cpu", "axes": []}
    code = {"top": repo, "commit": f"{number}" * 40, "branch": "main", "subject": f"<b>{number}</b>", "dirty": dirty}
    return {"repository": code, "request": options | request}


def test_runs_that_know_their_commits_are_decided_between_these(nightly, invoke):
    names = nightly(of=lambda number: of_commit("/home/me/kernels", number, axes=["M=16"], filter_expression=""))
    out, err = invoke("history", *names, "--filter", "M == 16")
    assert f"between n05 (2026-01-06, {'5' * 12} on main) and n06 (2026-01-07, {'6' * 12} on main)" in out
    (line,) = [line for line in out.splitlines() if line.startswith("rooflens compare ")]
    words = shlex.split(line)
    assert words == [
        *("rooflens", "compare", "--git", f"{'5' * 12}..{'6' * 12}", "--repo", "/home/me/kernels"),
        *("--providers", "bench/k.py", "-p", "simt_4bit", "--axis", "M=16", "--device", "cpu", "llm4bit-quick"),
    ]
    assert compare.make_context("compare", words[2:]).params["axes"] == ("M=16",)  # it takes these options
    assert "only large changes" not in err


@pytest.mark.parametrize(
    "at_six, words",
    [
        ({"dirty": True}, "n06 was measured with uncommitted changes"),
        ({"files": []}, "only large changes"),
        pytest.param({"files": ["/elsewhere/k.py"]}, "only large changes", marks=pytest.mark.slow),
        pytest.param({"tuned": "/home/me/tuned"}, "only large changes", marks=pytest.mark.slow),
    ],
)
def test_commits_that_do_not_hold_what_was_measured_decide_nothing(nightly, invoke, at_six, words):
    names = nightly(of=lambda number: of_commit("/home/me/kernels", number, **(at_six if number == 6 else {})))
    out, err = invoke("history", *names)
    assert "\nrooflens compare runs/n05 runs/n06\n" in out
    assert words in err


def test_another_driver_begins_another_series_and_is_said(nightly, plant, invoke):
    names = nightly()
    environment = {"torch": "2.14.0", "triton": "3.9.0"}
    usual = {"shapes": SHAPES, "Ms": (1, 16), "providers": ("simt_4bit",)}
    for number in (11, 12):
        manifest = {"created_at": f"2026-01-{number}T03:00:00Z", "environment": environment}
        plant(f"n{number}", **usual, manifest=manifest)
        names.append(f"runs/n{number}")
    out, err = invoke("history", *names, "-p", "simt_4bit")
    assert "series B: torch 2.13.0 -> 2.14.0 since A: 2 runs from n11 on" in out.splitlines()
    assert "4 of 8 series have fewer than 4 runs: no changes are looked for in them" in err
    assert "blas" not in out


def test_lines_keep_to_the_width_and_lose_nothing(nightly, invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke("history", *nightly()).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "tiny v (4096x4096)" in lines


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "Missing argument"),
        (["runs/n00", "runs/n01", "--html", "trends"], "write the file of a page, such as trends.html"),
        (["runs/n00", "n00"], "1 run is no history"),
        (["runs/n00", "runs/n99"], "unknown run 'runs/n99'"),
        (["runs/n00", "runs/n01", "-p", "simt"], "did you mean simt_4bit"),
        (["runs/n00", "runs/n01", "--filter", "M >"], "--filter 'M >'"),
        (["runs/n00", "runs/n01", "--filter", "M > 99"], "--filter 'M > 99' leaves no cell"),
    ],
)
def test_what_goes_wrong_is_one_line(nightly, refused, arguments, words):
    nightly(runs=2)
    assert words in refused("history", *arguments)


def test_a_trend_shows_steps_gaps_and_no_noise():
    assert sparkline([1, 1, None, 2, 2]) == "▁▁·██"
    assert set(sparkline([1, 1.001, 0.999])) <= set("▄▅")
    assert sparkline([1.0]) in BARS
    many = sparkline(np.repeat([1.0, 2.0], 100).tolist())
    assert many == "▁" * 20 + "█" * 20
