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
SWEEP = str(PUBLISHED / "aiter2297_deepseek_tflops.csv")
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
    assert lines[-1].startswith("18 rows in 2 tables, 16 findings (3 impossible, ")


def test_a_table_that_holds(invoke):
    out = invoke("audit", GOOD, "--device", "MI355X", "--strict").out
    assert out.splitlines()[-1] == "4 rows in 1 table, 0 findings"


@pytest.mark.parametrize("width", [80, 100])
def test_lines_fit_a_terminal(width, invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = invoke("audit", *GROUPED, "--device", "MI300X").out.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[-1].endswith(")")


def test_json(invoke):
    found = json.loads(invoke("audit", SWEEP, "--device", "MI350X", "--dtype", "bf16", "--json").out)
    assert (found["device"], found["dtype"], found["rows"]) == ("AMD Instinct MI350X", "bf16", 24)
    assert [column["role"] for column in found["tables"][0]["columns"]] == [*["size"] * 4, "rate"]
    (finding,) = found["findings"]
    assert (finding["rule"], finding["severity"], finding["line"]) == ("launch-floor", "misleading", 2)
    assert finding["evidence"]["shortest_s"] == pytest.approx(29.0e-6, abs=0.05e-6)


def test_a_review_comment(tmp_path, invoke, capsys):
    text = invoke("audit", *GROUPED, "--device", "MI300X", "--markdown", "-").out
    assert text.startswith("## Audit of the printed numbers\n\n18 rows in 2 tables, 16 findings")
    assert r"- torchao3996_forward.csv:4 \[impossible\] E=8 M=4096 N=4096 K=4096: bf16_ms" in text
    assert "### ratio-label" in text
    path = tmp_path / "review.md"
    assert main(["audit", *GROUPED, "--device", "MI300X", "--markdown", str(path)]) == 0
    assert path.read_text("utf-8") == text
    assert f"wrote {path}" in capsys.readouterr().err
    assert "choose another file" in invoke("audit", *GROUPED, "--markdown", tmp_path / "no" / "file.md", code=2).err


def test_strict_tells_what_is_wrong_from_what_is_doubtful(invoke):
    assert "1 finding in doubt" in invoke("audit", SWEEP, "--device", "MI350X", "--strict", code=4).err
    assert "cannot be right" in invoke("audit", *GROUPED, "--device", "MI300X", "--strict", code=5).err


def test_stdin_and_claims(invoke, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"M,N,K,TFLOPS\n512,512,512,2000\n")))
    text = invoke("audit", "-", "--device", "H200", "--dtype", "bf16", "--claim", "645 TFLOPS is 60% of peak").out
    assert "stdin:2 [impossible]" in text
    assert "claim 1:1 [contradiction]" in text
    assert "65 % of its bf16 peak (989.4)" in text


def test_several_files_are_one_audit(invoke):
    names = ("primus339_mi300x_top10_forward.csv", "primus339_mi300x_fwd_regressions.csv")
    out = invoke("audit", *(str(PUBLISHED / name) for name in names), "--device", "MI300X", "--json").out
    steps = [one for one in json.loads(out)["findings"] if one["rule"] == "below-resolution"]
    assert {one["row"].split()[0] for one in steps if one["where"] == names[1]} == {"34", "80", "52", "58"}


def test_a_column_that_was_taken_for_something_else(tmp_path, invoke):
    path = tmp_path / "odd.csv"
    path.write_text("M,N,K,A\n4096,4096,4096,0.01\n", "utf-8")
    assert "not used: A" in invoke("audit", path, "--device", "H200").out
    out = invoke("audit", path, "--device", "H200", "--column", "time_ms=A").out
    assert "[impossible] M=4096 N=4096 K=4096: A: the time and the sizes imply" in out


def test_without_a_device_the_other_rules_run(invoke):
    text = invoke("audit", *GROUPED).out
    assert text.startswith("no --device: rules that need its peaks are skipped")
    assert "ratio-label" in text
    assert "\nabove-peak:" not in text
    assert "not checked: above-peak, above-bandwidth, implausibly-slow; needs a device" in text


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "nothing to audit"),
        (["nowhere.csv"], "No such file"),
        ([GOOD, "--device", "MI300Y"], "did you mean"),
        ([GOOD, "--device", "gfx950"], "may be any of"),
        ([GOOD, "--device", "H200", "--dtype", "mxfp4"], "no published mxfp4 rate"),
        ([GOOD, "--op", "gem"], "did you mean gemm"),
        ([GOOD, "--pass", "forth"], "unknown pass"),
        ([GOOD, "--M-is", "both"], "known: total, per_expert"),
        ([GOOD, "--column", "us=hip_us"], "unknown role"),
        ([GOOD, "--column", "time_us=nowhere"], "unknown column"),
        ([GOOD, "--column", "time_us"], "write ROLE=NAME"),
        (["-", "-"], "read once"),
        ([WORDS], "README.md has no table with a header that can be read; write it as CSV: M,N,K,time_us"),
    ],
)
def test_errors_are_one_line_with_a_way_out(arguments, words, invoke):
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
