"""`rooflens audit`: what it prints, its exit codes, and its errors."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rooflens.cli.main import main

from tests.cli.test_terminal import CONTROLS, TEXT

PUBLISHED = Path(__file__).parents[3] / "tests" / "data" / "published"
GROUPED = [str(PUBLISHED / f"torchao3996_{name}.csv") for name in ("forward", "kernel")]
WORDS = str(PUBLISHED.parent / "README.md")
GOOD = str(PUBLISHED / "aiter3783_absolute_us.csv")


def test_findings_stand_under_their_rule_with_line_and_numbers(invoke):
    lines = invoke("audit", *GROUPED, "--device", "MI300X").out.splitlines()
    assert lines[0].startswith("compared with AMD Instinct MI300X: fp8 2614.9 TFLOPS dense")
    assert "M is per expert" in lines[1]
    start = next(at for at, line in enumerate(lines) if line.startswith("above-peak: "))
    assert lines[start + 1].startswith("  torchao3996_forward.csv:4 [impossible] E=8 M=4096 N=4096 K=4096: bf16_ms: ")
    assert "1328 TFLOPS" in lines[start + 1]
    assert lines[start + 4].startswith("  -> check what M counts")
    assert lines[-1] == "8 of 9 rules could run on 18 rows in 2 tables, 5 findings (3 impossible, 2 question)"


def test_lines_fit_a_terminal(invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke("audit", *GROUPED, "--device", "MI300X").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith(")")


def test_json(invoke):
    found = json.loads(invoke("audit", GROUPED[0], "--device", "MI300X", "--dtype", "bf16", "--json").out)
    assert (found["device"], found["dtype"], found["rows"]) == ("AMD Instinct MI300X", "bf16", 9)
    roles = [column["role"] for column in found["tables"][0]["columns"]]
    assert roles == [*["size"] * 4, *["time"] * 3, *["ratio"] * 2]
    first = found["findings"][0]
    assert (first["rule"], first["severity"], first["line"]) == ("above-peak", "question", 4)
    assert first["evidence"]["flops_per_s"] == pytest.approx(1328e12, rel=1e-3)
    assert "percent-of-peak" in found["not_checked"]


def test_a_review_comment(tmp_path, invoke, capsys):
    text = invoke("audit", *GROUPED, "--device", "MI300X", "--markdown", "-").out
    assert text.startswith(
        "## Audit of the printed numbers\n\n8 of 9 rules could run on 18 rows in 2 tables, 5 findings"
    )
    assert r"- torchao3996_forward.csv:4 \[impossible\] E=8 M=4096 N=4096 K=4096: bf16_ms" in text
    assert "### ratio-label" in text
    path = tmp_path / "review.md"
    assert main(["audit", *GROUPED, "--device", "MI300X", "--markdown", str(path)]) == 0
    assert path.read_text("utf-8") == text
    assert f"wrote {path}" in capsys.readouterr().err
    assert "choose another file" in invoke("audit", *GROUPED, "--markdown", tmp_path / "no" / "file.md", code=2).err


def test_strict_tells_what_is_wrong_from_what_is_doubtful(invoke):
    assert "5 findings in doubt" in invoke("audit", GROUPED[0], "--device", "MI300X", "--strict", code=4).err
    assert "cannot be right" in invoke("audit", *GROUPED, "--device", "MI300X", "--strict", code=5).err


def test_stdin(invoke, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"M,N,K,TFLOPS\n512,512,512,2000\n")))
    assert "stdin:2 [impossible]" in invoke("audit", "-", "--device", "H200", "--dtype", "bf16").out


def test_a_column_that_was_taken_for_something_else(tmp_path, invoke):
    path = tmp_path / "odd.csv"
    path.write_text("M,N,K,A\n4096,4096,4096,0.01\n", "utf-8")
    assert "not used: A" in invoke("audit", path, "--device", "H200").out
    out = invoke("audit", path, "--device", "H200", "--column", "time_ms=A").out
    assert "[impossible] M=4096 N=4096 K=4096: A: the time and the sizes imply" in out


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "nothing to audit"),
        (["wide.csv"], "has 101 columns, and at most 100 are read"),
        (["nowhere.csv"], "No such file"),
        ([GOOD, "--device", "MI300Y"], "did you mean"),
        ([GOOD, "--device", "H200", "--dtype", "mxfp4"], "no published mxfp4 rate"),
        ([GOOD, "--op", "gem"], "did you mean gemm"),
        ([GOOD, "--pass", "forth"], "unknown pass"),
        ([GOOD, "--M-is", "both"], "known: total, per_expert"),
        (["-", "-"], "read once"),
        ([WORDS], "README.md has no table with a header that can be read; write it as CSV: M,N,K,provider,time_us"),
    ],
)
def test_errors_are_one_line_with_a_way_out(arguments, words, invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wide.csv").write_text(f"ms{',ms' * 100}\n1{',1' * 100}\n")
    error = invoke("audit", *arguments, code=2).err
    assert words in error
    assert error.count("\n") == 1


def test_nothing_is_written_to_a_review_comment_that_a_terminal_obeys(tmp_path):
    (tmp_path / "evil.md").write_text(TEXT)
    main(["audit", str(tmp_path / "evil.md"), "--markdown", str(tmp_path / "comment.md")])
    assert not CONTROLS.search((tmp_path / "comment.md").read_text())


def test_a_command_that_is_terminated_says_so(tmp_path):
    pipe = tmp_path / "table.md"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "rooflens.cli", "audit", pipe]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process, pipe.open("w"):  # once it reads
        process.terminate()
        assert process.communicate()[1].strip() == "rooflens: error: interrupted"
    assert process.returncode == 130


def test_what_could_not_be_checked_is_said_and_why(tmp_path, invoke):
    """A100: 311.9 TFLOPS of fp16, 623.7 of int8."""
    (tmp_path / "t.md").write_text("| kernel | speed |\n|---|---|\n| a | 12.5 |\n| b | 13.5 |\n")
    output = " ".join(invoke("audit", tmp_path / "t.md").out.split())
    assert "not checked: repeated-rows; needs rows with M, N or K" in output
    assert output.endswith("0 of 9 rules could run on 2 rows in 1 table, 0 findings")
    (tmp_path / "t.md").write_text("| case | rate |\n|---|---|\n| M=1, N=4096, K=4096 | 2,750 TFLOPS |\n")
    found = json.loads(invoke("audit", tmp_path / "t.md", "--device", "A100", "--json").out)
    assert [(one["rule"], one["row"]) for one in found["findings"]] == [("above-peak", "M=1 N=4096 K=4096")]
    assert "above-peak" not in found["not_checked"]


def test_a_table_without_rows_does_not_stop_the_others(tmp_path, invoke):
    (tmp_path / "empty.csv").write_text("M,N,K,us\n")
    said = invoke("audit", tmp_path / "empty.csv", GOOD, "--device", "MI355X", "--strict")
    assert said.out.splitlines()[-1] == "6 of 9 rules could run on 4 rows in 2 tables, 0 findings"
    assert invoke("audit", tmp_path / "empty.csv").out.splitlines()[-1].startswith("0 of 9 rules could run on 0 rows")
