"""`rooflens compare` on stored runs whose difference is planted: words, numbers, exit codes, files."""

import hashlib
import json
import math
import re

import pandas as pd
import pytest
from rooflens.cli.main import main
from rooflens.harness.storage.tables import fields
from rooflens.shapes.files.csv_file import csv_text
from rooflens.shapes.run_folder.columns import TUNING
from rooflens.shapes.run_folder.columns_isa import ISA

from ..analysis.synthetic import write_run, write_table

QUIET = {"shapes": (("llama2-7b", "q/k/v/o", 4096, 4096),), "Ms": (1, 4, 16, 64), "providers": ("simt_4bit", "blas")}
NOISE = {"rounds": 8, "round_noise": 0.003, "sample_noise": 0.002}


def slower(factor, provider="simt_4bit"):
    return lambda cell: 1e-4 * cell.M * (factor if cell.provider == provider else 1.0)


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """Return pair(factor, ...): the folder of an interleaved comparison whose head is `factor` slower in simt_4bit."""
    monkeypatch.chdir(tmp_path)

    def write(factor=1.0, folder="both", arms=("base", "head"), both=None, **head):
        for seed, arm in enumerate(arms):
            other = head if arm == "head" else {}
            what = QUIET | NOISE | {"latency": slower(factor if arm == "head" else 1.0)} | (both or {}) | other
            write_run(tmp_path / folder / arm, run_id=arm, seed=seed, **what)
        state = {
            "repository": str(tmp_path), "commits": dict.fromkeys(arms, "0" * 40), "suite": "tiny", "files": [],
            "options": [], "rounds": 8, "setup": "", "suite_hash": "", "tables": {}, "only": "", "searches": {},
            "done": [[number, arm] for number in range(8) for arm in arms],
        }  # fmt: skip
        (tmp_path / folder / "compare.json").write_text(json.dumps(state))
        return tmp_path / folder

    return write


def test_a_planted_regression_is_found_and_nothing_else(pair, invoke):
    out, err = invoke("compare", pair(1.05), "--json", code=3)
    found = json.loads(out)
    words = {(case["provider"], case["M"]): case["word"] for case in found["cases"]}
    assert {m: words["simt_4bit", m] for m in (1, 4, 16, 64)} == dict.fromkeys((1, 4, 16, 64), "slower")
    assert {m: words["blas", m] for m in (1, 4, 16, 64)} == dict.fromkeys((1, 4, 16, 64), "same")
    for case in found["cases"]:
        truth = math.log(1.05) if case["provider"] == "simt_4bit" else 0.0
        assert case["low"] - 0.004 < truth < case["high"] + 0.004
    assert found["order"] == "interleaved"
    assert (found["sums"], found["verdicts of sums"], found["fwd+bwd"]) == (None, None, None)  # there is one pass
    assert "4 cases are verified to be slower" in err


def test_a_mean_that_is_not_told_from_no_change_is_marked(pair, invoke):
    out = invoke("compare", pair(1.0)).out
    same, slower = (_means(text) for text in (out, invoke("compare", pair(1.05, folder="slower"), code=3).out))
    assert same.keys() == slower.keys() == {"simt_4bit, fwd", "blas, fwd"}  # of one provider each
    assert all(text.startswith("~") for text in (*same.values(), slower["blas, fwd"]))
    assert slower["simt_4bit, fwd"].startswith("+5.0")


def _means(out):
    lines = (line.removeprefix("Change of time, ").partition(": ") for line in out.splitlines())
    return {part: text for part, found, text in lines if part.endswith(", fwd") and text[:1] in "~+"}


def test_a_change_in_the_terminal_has_the_digits_of_its_interval(pair, invoke):
    out = invoke("compare", pair(1.8, round_noise=0.08), code=3).out
    rows = [line for line in out.splitlines() if line.endswith("slower")]
    assert len(rows) == 4
    for row in rows:  # two digits of a change that is known to 10 %
        assert re.search(r" \+\d\d% +\[", row)


def test_an_improvement_is_no_failure(pair, invoke):
    assert "verdicts  4 faster, 4 same" in invoke("compare", pair(0.9), "--strict").out


def test_noise_is_inconclusive_and_strict_says_so(pair, invoke):
    folder = str(pair(1.0, round_noise=0.2))
    assert main(["compare", folder]) == 0
    out, err = invoke("compare", folder, "--strict", code=4)
    assert "verdicts  8 inconclusive" in out
    assert "would find" in out
    assert "8 cases are inconclusive: more --rounds would decide" in err


def test_a_wrong_output_outranks_a_slow_one(pair, invoke):
    folder = pair(1.2, failures=lambda cell: ("incorrect", "SNR 3 dB") if cell.M == 16 else None)
    out, err = invoke("compare", folder, code=5)
    assert "2 cases passed in base and no longer do in head" in err
    assert "SNR 3 dB" in out
    assert re.search(r"^not compared +2 broken$", out, re.MULTILINE)


def test_a_null_arm_shows_what_the_same_code_looks_like(pair, invoke):
    out = invoke("compare", pair(1.05, arms=("base", "head", "null")), code=3).out
    assert "A second copy of base was called different from it in 0 of 8 cases" in out


def test_nothing_compared_is_not_fine(pair, invoke):
    failing = {"failures": lambda cell: ("oom", "out of memory: 3 GiB")}
    folder = pair(1.0, **failing)
    write_run(folder / "base", run_id="base", **QUIET, **NOISE, latency=slower(1.0), **failing)
    assert "nothing was compared: out of memory: 3 GiB" in invoke("compare", folder, code=4).err


def test_what_head_declines_is_no_success_under_strict(pair, invoke):
    folder = str(pair(1.0, failures=lambda cell: ("unsupported", "not any more") if cell.M == 16 else None))
    assert main(["compare", folder]) == 0
    assert "2 cases of base could not be compared" in invoke("compare", folder, "--strict", code=4).err


def test_an_unfinished_comparison_is_incomplete(pair, invoke):
    folder = pair(1.0)
    state = json.loads((folder / "compare.json").read_text())
    (folder / "compare.json").write_text(json.dumps(state | {"done": state["done"][:5]}))
    assert "the comparison is not complete" in invoke("compare", folder, "--strict", code=4).err


def test_two_stored_runs_are_sequential_and_judged_with_a_wider_margin(pair, invoke):
    folder, far = pair(1.02), pair(1.3, folder="far")
    found = json.loads(invoke("compare", folder / "base", pair(1.02, folder="other") / "head", "--json").out)
    assert found["order"] == "sequential"
    assert {case["margin"] for case in found["cases"]} == {0.03}
    assert "one after the other" in " ".join(found["notes"])
    assert main(["compare", str(folder / "base"), str(far / "head")]) == 3


def test_two_arms_of_one_comparison_are_compared_in_the_order_of_it(pair, invoke):
    folder = pair(1.02, arms=("base", "head", "null"))
    whole = json.loads(invoke("compare", folder, "--json", code=3).out)
    assert json.loads(invoke("compare", folder / "base", folder / "head", "--json", code=3).out) == whole
    other = json.loads(invoke("compare", folder / "null", folder / "head", "--json", code=3).out)
    assert (whole["order"], other["order"]) == ("interleaved", "interleaved")
    words = {case["word"] for case in other["cases"] if case["provider"] == "simt_4bit"}
    assert words == {"slower"}


def readings(*gemm_s):
    """Rows of canary.csv, a minute apart."""
    return [
        {"at": f"2026-01-02T03:{minute:02d}:00Z", "process": 0, "gemm_s": one, "copy_s": 2e-3}
        for minute, one in enumerate(gemm_s)
    ]


def sequential(pair, factor, both=None, **head):
    """Arguments that compare two stored runs, of which one was measured after the other."""
    later = pair(factor, folder=f"{factor}", both=both, **head) / "head"
    return ["compare", str(pair(1.0, both=both) / "base"), str(later)]


def test_the_canary_withholds_what_its_change_between_two_runs_could_explain(pair, invoke):
    before = {"canary": readings(1e-3, 1.02e-3, 1e-3)}
    steady = sequential(pair, 2.5, both=before, canary=readings(1.02e-3, 1e-3, 1.01e-3))
    assert json.loads(invoke(*steady, "--json", code=3).out)["verdicts"]["slower"] == 4
    much = sequential(pair, 19.0, both=before, canary=readings(3e-3, 5e-3, 2e-3))
    found = json.loads(invoke(*much, "--json", code=3).out)
    assert found["verdicts"] == dict.fromkeys(found["verdicts"], 0) | {"slower": 4, "inconclusive": 4}
    assert found["withheld"] == ""
    told = "the device changed (gemm canary +200% in head)"
    assert {(case["word"], case["withheld"]) for case in found["cases"]} == {("slower", ""), ("inconclusive", told)}
    assert "that could be 4 of 8 verdicts" in found["notes"][0]
    slow = sequential(pair, 2.8, both=before, canary=readings(3e-3, 5e-3, 2e-3))
    found = json.loads(invoke(*slow, "--json").out)
    assert found["verdicts"] == dict.fromkeys(found["verdicts"], 0) | {"inconclusive": 8}
    reason = "the device changed (gemm canary +200% in head)"
    assert found["withheld"] == reason
    assert {case["withheld"] for case in found["cases"]} == {reason}
    assert "Measure both versions again on an idle device." in found["notes"][0]
    printed = invoke(*slow, "--strict", code=4)
    assert f"No result: {reason}" in printed.out.splitlines()
    assert reason in printed.err


@pytest.mark.parametrize(
    ("factor", "exit_code"), [(1.0, 3), (1.05, 3), (1.3, 0)], ids=["same", "within what a CPU moves", "slower"]
)
def test_a_canary_of_versions_that_took_turns_withholds_verdicts_beyond_chance_and_margin(pair, factor, exit_code):
    steady = [1e-3 * (1 + 0.01 * (number % 3)) for number in range(12)]
    canaries = readings(*steady), readings(*(factor * one for one in steady))
    assert main(["compare", str(pair(1.2, both={"canary": canaries[0]}, canary=canaries[1]))]) == exit_code


def test_a_canary_that_scatters_withholds_nothing_from_versions_that_took_turns(pair):
    base, head = readings(1e-3, 2e-3, 1.2e-3, 1.9e-3), readings(1.9e-3, 1e-3, 2e-3, 1.4e-3)
    assert main(["compare", str(pair(1.2, both={"canary": base}, canary=head))]) == 3


def binary(source):
    """Columns of a round whose compiled code and configuration are always the same."""
    return {"columns": lambda cell, round_: {"artifact": "a" * 16, "config": {}, "source": source}}


def test_nothing_is_verified_where_unchanged_code_differs_between_the_versions(pair, invoke):
    found = json.loads(invoke("compare", pair(1.2, both=binary("same")), "--json").out)
    reason = "unchanged code (same source, binary and configuration) differs in 4 of 8 cases"
    assert (found["withheld"], found["verdicts"]["inconclusive"], found["controls"]["called"]) == (reason, 8, 4)
    assert main(["compare", str(pair(1.0, both=binary("same"))), "--strict"]) == 0
    assert main(["compare", str(pair(1.2, both=binary("one"), **binary("another")))]) == 3


def test_nothing_is_verified_where_a_second_copy_of_base_differs_from_it(pair, invoke):
    folder = pair(1.2, arms=("base", "head", "null"))
    write_run(folder / "null", run_id="null", seed=9, **QUIET, **NOISE, latency=slower(0.8))
    said = invoke("compare", folder).out.splitlines()
    assert "No result: a second copy of base differs from it beyond chance in 4 of 8 cases" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name two runs or tables to compare"),
        (["one"], "name two runs or tables to compare"),
        (["--resume"], "--resume needs -o DIR"),
        (["-o", "nowhere", "--resume"], "no comparison to resume"),
        (["--git", "main", "tiny"], "unknown suite"),
        (["--git", "a..b", "--repo", "nowhere", "llm4bit-quick"], "--repo nowhere: no such folder"),
        (["--git", "a..b", "llm4bit-quick"], "not a git repository"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, refused, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert words in refused("compare", *arguments)


def test_the_markdown_of_a_pull_request(pair, tmp_path):
    assert main(["compare", str(pair(1.05)), "--markdown", "pr.md", "--html", "pr.html"]) == 3
    text = (tmp_path / "pr.md").read_text()
    for words in ("- Slower, verified: **4**", "slowest change first", "<summary>The suite<", "| blas | fwd |"):
        assert words in text, words
    assert "<title>" in (tmp_path / "pr.html").read_text()


def table(tmp_path, name, factor):
    rows = "".join(f"mine,{m},4096,4096,{0.5 * m * (factor if m > 4 else 1):.6f}\n" for m in (1, 4, 16, 64))
    (tmp_path / name).write_text(f"kernel,m,n,k,Latency (ms)\n{rows}")


def test_tables_of_ones_own_are_ranked_and_not_verified(tmp_path, monkeypatch, invoke):
    monkeypatch.chdir(tmp_path)
    table(tmp_path, "base.csv", 1.0)
    table(tmp_path, "head.csv", 1.2)
    mapped = ["--columns", "time_ms='Latency (ms)',M=m,N=n,K=k,provider=kernel"]
    found = json.loads(invoke("compare", "base.csv", "head.csv", *mapped, "--json").out)
    assert found["order"] == "imported"
    assert found["ranked"] == 2
    assert {case["word"] for case in found["cases"]} == {"unverified"}
    out = invoke("compare", "base.csv", "head.csv", *mapped, "--markdown", "pr.md").out
    assert "Beyond the bounds of the tables: 2" in out
    assert "none verified" in (tmp_path / "pr.md").read_text()
    assert "nothing in them is verified" in invoke("compare", "base.csv", "head.csv", *mapped, "--strict", code=4).err


@pytest.mark.parametrize(
    ("mapped", "words"),
    [
        ("M", "write name=column"),
        ("M='m", "No closing quotation"),
        ("M=m,time_ms=nothing", "nothing"),
    ],
)
def test_wrong_maps_of_columns_are_told(tmp_path, monkeypatch, refused, mapped, words):
    monkeypatch.chdir(tmp_path)
    table(tmp_path, "base.csv", 1.0)
    assert words in refused("compare", "base.csv", "base.csv", "--columns", mapped)


def two_passes(folder, change):
    """Make cold cells fwd and warm ones bwd, one GEMM in two passes; head's times are `change(M, pass, round)` longer.

    What a round adds to fwd it takes from bwd: each pass by itself is noisy, and their sum is not.
    """
    for arm in ("base", "head"):
        cells, samples = (pd.read_csv(folder / arm / name, dtype=str) for name in ("cells.csv", "samples.csv"))
        cells["pass"] = cells["cache"].map({"cold": "fwd", "warm": "bwd"})
        cells["cache"], cells["cold_by"] = "cold", "flush"
        cells.to_csv(folder / arm / "cells.csv", index=False)
        which = cells.drop_duplicates("cell_id").set_index("cell_id")
        for number, row in samples.iterrows():
            cell, round_ = which.loc[row["cell_id"]], int(row["round"])
            longer = change(int(cell["M"]), cell["pass"], round_) if arm == "head" else 0.0
            samples.loc[number, "time_s"] = repr(1e-3 * (1 + longer))
        samples.to_csv(folder / arm / "samples.csv", index=False)
    return str(folder)


def opposed(pass_, round_):
    """Noise that two passes share with opposite signs."""
    return (0.1 if pass_ == "fwd" else -0.1) * (-1) ** (round_ // 2 % 2 + round_)


TWO = {"caches": ("cold", "warm"), "Ms": (1, 16), "providers": ("simt_4bit",)}


def test_a_verified_slower_sum_is_a_regression_though_no_case_is(pair, tmp_path, invoke):
    folder = two_passes(pair(both=TWO), lambda M, pass_, round_: opposed(pass_, round_) + (0.05 if M == 16 else 0))
    out, err = invoke("compare", folder, "--markdown", "pr.md", code=3)
    assert "verdicts  4 inconclusive" in out
    assert "sums of fwd+bwd: 1 slower, 0 faster" in out
    assert "error: 1 sum of fwd+bwd is verified to be slower" in err
    text = (tmp_path / "pr.md").read_text()
    assert "- Slower, verified: **0**" in text
    assert "sums of fwd+bwd: 1 slower, 0 faster" in text
    assert "| **slower** |" not in text  # bold is for what is best
    rows = [line for line in text.splitlines() if line.startswith("| llama2-7b q/k/v/o | 2 | 16 |")]
    assert [line.endswith(" | slower |") for line in rows if "| fwd+bwd |" in line] == [True]


def test_cases_and_sums_are_counted_apart(pair, invoke):
    folder = two_passes(pair(both=TWO), lambda M, pass_, round_: 0.05 if M == 16 else 0.0)
    out, err = invoke("compare", folder, "--json", code=3)
    found = json.loads(out)
    assert found["verdicts"] | {"unverified": 0} == {
        "faster": 0, "slower": 2, "same": 2, "inconclusive": 0, "unverified": 0,
    }  # fmt: skip
    assert sum(found["verdicts"].values()) == len(found["cases"])
    assert {name: found["verdicts of sums"][name] for name in ("slower", "same")} == {"slower": 1, "same": 1}
    assert [(case["M"], case["pass"], case["word"]) for case in found["sums"]] == [
        (1, "fwd+bwd", "same"),
        (16, "fwd+bwd", "slower"),
    ]
    assert "2 cases and 1 sum of fwd+bwd are verified to be slower" in err


def test_under_strict_an_inconclusive_sum_is_one(pair, invoke):
    def noisy_together(M, pass_, round_):
        return opposed("fwd", round_)

    folder = two_passes(pair(both=TWO), noisy_together)
    err = invoke("compare", folder, "--strict", code=4).err
    assert "4 cases and 2 sums of fwd+bwd are inconclusive: more --rounds would decide" in err


def test_what_was_noted_of_commits_searches_and_machine_code_is_reported(pair, tmp_path, invoke):
    folder = pair(1.05, columns=lambda cell, round_: {"artifact": "k2", "config": {"stages": 3}})
    state = json.loads((folder / "compare.json").read_text())
    state["identity"] = {
        "base": {"name": "main", "commit": "0" * 40, "subject": "Add a format"},
        "head": {"name": "faster", "commit": "0" * 40, "subject": "opt: faster"},
        "commits": 1,
        "files": [["kernels/a.py", 450, 27]],
    }
    (folder / "compare.json").write_text(json.dumps(state))
    for side, candidates in (("base", 2), ("head", 3)):
        write_tuning(folder / "tuned" / side, candidates)
        write_isa(folder / side, side)
    assert "base      base (0000000 Add a format)" in invoke("compare", folder, "--markdown", "pr.md", code=3).out
    text = (tmp_path / "pr.md").read_text()
    assert "| base | main &#64; 000000000000 (Add a format) |" in text
    assert "| kernels/a.py | +450 | −27 |" in text
    assert "| simt_4bit | fwd | 1 → 1 | 2 → 3 (1.50×) | 2.000 s → 3.000 s (1.50×) |" in text
    assert "0 / 1 binaries of both versions are identical" in text
    assert "| kernel_of_it | store_short | 1 | 64 | 0 |" in text
    digest = hashlib.sha256((folder / "head" / "samples.csv").read_bytes()).hexdigest()[:16]
    assert digest in text


def write_tuning(folder, candidates):
    """One search of that many candidates, a second each."""
    folder.mkdir(parents=True)
    rows = [
        {
            "cell_id": "c", "search": 0, "candidate": number, "arch": "x", "compute_units": 2, "op": "gemm",
            "pass": "fwd", "B": 1, "E": 1, "top_k": 1, "M": 1, "N": 4096, "K": 4096, "dtype": "bf16",
            "scheme": "nf4-g64", "provider": "simt_4bit", "cache": "cold", "config": {"stages": number},
            "verdict": "passed", "time_s": 1e-3, "winner": not number, "near_tie": False, "candidates": candidates,
            "search_s": float(candidates), "source": "s",
        }
        for number in range(candidates)
    ]  # fmt: skip
    write_table(folder, TUNING, rows)


def write_isa(folder, side):
    """One binary, whose stores of 2 bytes head has lost."""
    row = {
        "arch": "x", "provider": "simt_4bit", "op": "gemm", "pass": "fwd", "dtype": "bf16", "scheme": "nf4-g64",
        "B": 1, "E": 1, "top_k": 1, "M": 1, "N": 4096, "K": 4096, "problems": 1, "config": {}, "default": True,
        "triton": "3.9.0",
        "kernel": "kernel_of_it", "verdict": "passed", "store_short": 64 if side == "base" else 0, "code": side,
    }  # fmt: skip
    (folder / ISA.file).write_text(csv_text(ISA.names, [fields(ISA, row)]))
