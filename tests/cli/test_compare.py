"""`rooflens compare` on stored runs whose difference is planted: words, numbers, exit codes, files."""

import hashlib
import json
import math
import re

import pytest
import rooflens
from rooflens.cli.main import main
from rooflens.cli.shared.output import plain
from rooflens.shapes.errors import UsageError
from rooflens.shapes.run_folder.columns import TUNING
from rooflens.shapes.run_folder.columns_isa import ISA

from ..analysis.planted_isa import write_isa
from ..analysis.planted_searches import searched
from ..analysis.synthetic import write_run, write_table

TABLES = ("base.csv", "base.csv")
QUIET = {"shapes": (("llama2-7b", "q/k/v/o", 4096, 4096),), "Ms": (1, 4, 16, 64), "providers": ("simt_4bit", "blas")}
NOISE = {"rounds": 8, "round_noise": 0.003, "sample_noise": 0.002}


def slower(factor, provider="simt_4bit"):
    return lambda cell: 1e-4 * cell.M * (factor if cell.provider == provider else 1.0)


@pytest.fixture
def pair(tmp_path, monkeypatch, plant_comparison):
    """Return pair(factor, ...): the folder of an interleaved comparison whose head is `factor` slower in simt_4bit."""
    monkeypatch.chdir(tmp_path)

    def write(factor=1.0, folder="both", arms=("base", "head"), both=None, **head):
        for seed, arm in enumerate(arms):
            other = head if arm == "head" else {}
            what = QUIET | NOISE | {"latency": slower(factor if arm == "head" else 1.0)} | (both or {}) | other
            write_run(tmp_path / folder / arm, run_id=arm, seed=seed, **what)
        plant_comparison(tmp_path / folder, arms, rounds=8)
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
    means = re.findall(r"^Change of time, (\w+), fwd: (~|\+5\.0)", invoke("compare", "both", code=3).out, re.M)
    assert dict(means) == {"simt_4bit": "+5.0", "blas": "~"}  # of one provider each


def declined(M=None, verdict="unsupported", reason="not any more"):
    return {"failures": lambda cell: (verdict, reason) if M in (None, cell.M) else None}


@pytest.mark.parametrize(
    ("factor", "head", "codes", "words"),
    [
        (0.9, {}, (0, 0), "verdicts  4 faster, 4 same"),
        (1.0, {"round_noise": 0.2}, (0, 4), "verdicts  8 inconclusive.*would find.*8 cases are inconclusive: more --r"),
        (1.2, declined(16, "incorrect", "SNR 3 dB"), (5, 5), "SNR 3 dB.*2 cases passed in base and no longer do in"),
        (1.0, declined(16), (0, 4), "2 cases of base could not be compared"),
        (1.0, {"both": declined(None, "oom", "3 GiB")}, (4, 4), "nothing was compared: 3 GiB"),
    ],
)
def test_what_is_found_decides_the_exit_code(pair, invoke, factor, head, codes, words):
    folder = pair(factor, **head)
    invoke("compare", folder, code=codes[0])
    assert re.search(words, "".join(invoke("compare", folder, "--strict", code=codes[1])), re.DOTALL)


def test_an_unfinished_comparison_is_incomplete(pair, invoke):
    folder = pair(1.0)
    partial = "those that both base and head have are compared"
    assert partial not in invoke("compare", folder).out
    state = json.loads((folder / "compare.json").read_text())
    (folder / "compare.json").write_text(json.dumps(state | {"done": state["done"][:5]}))
    told = invoke("compare", folder, "--strict", code=4)
    assert "the comparison is not complete" in told.err
    assert partial in told.out


def test_arms_of_one_comparison_took_turns_and_runs_of_two_did_not(pair, invoke):
    folder = pair(1.02, arms=("base", "head", "null"))
    whole = invoke("compare", folder, "--json", code=3)
    assert "A second copy of base was called different from it in 0 of 8 cases" in whole.out
    assert invoke("compare", folder / "base", folder / "head", "--json", code=3).out == whole.out
    other = json.loads(invoke("compare", folder / "null", folder / "head", "--json", code=3).out)
    assert (other["order"], other["verdicts"]["slower"]) == ("interleaved", 4)
    found = json.loads(invoke("compare", folder / "base", pair(1.02, folder="other") / "head", "--json").out)
    assert (found["order"], {case["margin"] for case in found["cases"]}) == ("sequential", {0.03})
    assert main(["compare", str(folder / "base"), str(pair(1.3, folder="far") / "head")]) == 3


def test_python_compares_what_the_command_line_does(pair, invoke):
    folder = pair(1.05)
    printed = json.loads(invoke("compare", folder, "--json", code=3).out)["cases"]
    for targets in ([folder], [rooflens.load(folder / arm) for arm in ("base", "head")]):
        two = rooflens.compare(*targets)
        assert plain(two.verdicts.to_dict("records")) == printed
        assert (two.complete, str(two.error())) == (True, "4 cases are verified to be slower")


@pytest.mark.parametrize(
    ("targets", "how", "words"),
    [
        (({"old": print, "new": print},), {}, r"rooflens\.bench\(calls\)"),
        (("one", "two"), {"rounds": 8}, "^--rounds is for measuring: name two commits with --git"),
        (("llm4bit-quick",), {"versions": ["main", "HEAD"], "rounds": 1}, "^--rounds 1: a verdict takes 2"),
        (("llm4bit-quick",), {"versions": "a..b", "columns": {"M": "m"}}, "^--column is for tables"),
        ((), {"versions": "a..b"}, "^--git measures one suite"),
    ],
)
def test_what_python_cannot_compare_is_one_line(tmp_path, monkeypatch, targets, how, words):
    monkeypatch.chdir(tmp_path)
    table(tmp_path, "base.csv", 1.0)
    with pytest.raises(UsageError, match=words):
        rooflens.compare(*targets, **how)


def readings(*gemm_s):
    """Rows of canary.csv, a minute apart."""
    return [
        {"at": f"2026-01-02T03:{minute:02d}:00Z", "process": 0, "gemm_s": one, "copy_s": 2e-3}
        for minute, one in enumerate(gemm_s)
    ]


def test_the_canary_withholds_what_its_change_between_two_runs_could_explain(pair, invoke):
    before = {"canary": readings(1e-3, 1.02e-3, 1e-3)}
    told = "the device changed (gemm canary +200% in head)"
    base, other = (pair(factor, str(factor), both=before, canary=readings(3e-3, 5e-3, 2e-3)) for factor in (2.8, 19.0))
    found = json.loads(invoke("compare", base / "base", other / "head", "--json", code=3).out)
    assert found["withheld"] == ""
    assert {(case["provider"], case["word"], case["withheld"]) for case in found["cases"]} == {
        ("simt_4bit", "slower", ""), ("blas", "inconclusive", told),
    }  # fmt: skip
    arguments = ("compare", other / "base", base / "head")
    found = json.loads(invoke(*arguments, "--json").out)
    assert found["verdicts"] == dict.fromkeys(found["verdicts"], 0) | {"inconclusive": 8}
    assert (found["withheld"], {case["withheld"] for case in found["cases"]}) == (told, {told})
    printed = invoke(*arguments, "--strict", code=4)
    assert f"No result: {told}" in printed.out.splitlines()
    assert told in printed.err


STEADY = [1e-3 * (1 + 0.01 * (number % 3)) for number in range(12)]


@pytest.mark.parametrize(
    ("base", "head", "exit_code"),
    [
        *((STEADY, [factor * one for one in STEADY], code) for factor, code in ((1.0, 3), (1.05, 3), (1.3, 0))),
        ([1e-3, 2e-3, 1.2e-3, 1.9e-3], [1.9e-3, 1e-3, 2e-3, 1.4e-3], 3),
    ],
    ids=["same", "within what a CPU moves", "slower", "scatters"],
)
def test_a_canary_of_versions_that_took_turns_withholds_verdicts_beyond_chance_and_margin(pair, base, head, exit_code):
    assert main(["compare", str(pair(1.2, both={"canary": readings(*base)}, canary=readings(*head)))]) == exit_code


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
        (["--git", "main", "tiny"], "unknown suite"),
        (["--git", "a..b", "--repo", "nowhere", "llm4bit-quick"], "--repo nowhere: no such folder"),
        (["--git", "a..b", "llm4bit-quick"], "not a git repository"),
        ([*TABLES, "--column=M"], "write ROLE=NAME"),
        ([*TABLES, "--column=M=m", "--column=M=n"], "--column names a role twice"),
        ([*TABLES, "--column=rows=m"], "unknown role of --column 'rows'"),
        ([*TABLES, "--column=time_ms:old=ms"], "a comparison has no sides"),
        ([*TABLES, "--column=speedup=m"], "unknown role of --column in a comparison 'speedup'"),
        ([*TABLES, "--columns=M=m,time_ms=ms"], "--columns is no longer an option: write --column ROLE=NAME"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, refused, arguments, words):
    monkeypatch.chdir(tmp_path)
    table(tmp_path, "base.csv", 1.0)
    assert words in refused("compare", *arguments)


def table(tmp_path, name, factor):
    rows = "".join(f"mine,{m},4096,4096,{0.5 * m * (factor if m > 4 else 1):.6f}\n" for m in (1, 4, 16, 64))
    (tmp_path / name).write_text(f"kernel,m,n,k,Latency (ms)\n{rows}")


def test_tables_of_ones_own_are_ranked_and_not_verified(tmp_path, monkeypatch, invoke):
    monkeypatch.chdir(tmp_path)
    table(tmp_path, "base.csv", 1.0)
    table(tmp_path, "head.csv", 1.2)
    mapped = [f"--column={column}" for column in ("time_ms=Latency (ms)", "M=m", "N=n", "K=k", "provider=kernel")]
    found = json.loads(invoke("compare", "base.csv", "head.csv", *mapped, "--json").out)
    assert found["order"] == "imported"
    assert found["ranked"] == 2
    assert {case["word"] for case in found["cases"]} == {"unverified"}
    out = invoke("compare", "base.csv", "head.csv", *mapped, "--markdown", "pr.md").out
    assert "Beyond the bounds of the tables: 2" in out
    assert "none verified" in (tmp_path / "pr.md").read_text()
    assert "nothing in them is verified" in invoke("compare", "base.csv", "head.csv", *mapped, "--strict", code=4).err


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
        found = searched(0, dict.fromkeys(range(candidates), 1e-3), 0, provider="simt_4bit", search_s=float(candidates))
        (folder / "tuned" / side).mkdir(parents=True)
        write_table(folder / "tuned" / side, TUNING, found)
        mine = {"provider": "simt_4bit", "pass": "fwd", "scheme": "nf4-g64", "M": 1, "N": 4096, "K": 4096}
        stores = {"kernel": "kernel_of_it", "store_short": 64 if side == "base" else 0, "code": side}  # of 2 bytes
        write_isa(folder / side / ISA.file, mine | stores)
    assert "base      base (0000000 Add a format)" in invoke("compare", folder, "--markdown", "pr.md", code=3).out
    text = (tmp_path / "pr.md").read_text()
    assert "| base | main &#64; 000000000000 (Add a format) |" in text
    assert "| kernels/a.py | +450 | −27 |" in text
    assert "| simt_4bit | fwd | 1 → 1 | 2 → 3 (1.50×) | 2.000 s → 3.000 s (1.50×) |" in text
    assert "0 / 1 binaries of both versions are identical" in text
    assert "| kernel_of_it | store_short | 1 | 64 | 0 |" in text
    digest = hashlib.sha256((folder / "head" / "samples.csv").read_bytes()).hexdigest()[:16]
    assert digest in text
