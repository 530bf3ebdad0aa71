"""What could not be checked is said, and why; and what can be checked is not said to be missing."""

from rooflens.cli.main import main
from rooflens.plugins.audit.rules.registry import RULES

from .helpers import audited, rules

PLAIN = "| kernel | speed |\n|---|---|\n| a | 12.5 |\n| b | 13.5 |\n"


def test_a_table_without_anything_known_is_checked_for_nothing():
    result = audited(PLAIN)
    assert not result.findings
    assert set(result.skipped) == {rule.name for rule in RULES}
    assert "a device (--device" in result.skipped["above-peak"]
    assert "rates" in result.skipped["above-peak"]


def test_what_is_there_is_not_missing():
    text = "It is fast.\n\nM,N,K,old (us),new (us),speedup\n1,64,64,4.0,2.0,2.0x\n"
    assert set(audited(text, "H200").skipped) == {
        *("m-convention", "percent-of-peak", "contradictory-changes", "launch-floor", "pattern", "counts"),
    }
    without = audited(text).skipped
    assert set(without) - set(audited(text, "H200").skipped) == {"above-peak", "above-bandwidth", "implausibly-slow"}
    assert without["above-peak"] == "a device (--device, or a column, header or title that names it)"
    assert "above-peak" not in audited(text.replace("It is fast.", "### H200")).skipped


def test_sizes_and_units_inside_cells_make_a_check_possible():
    """A100: 311.9 TFLOPS of fp16, 623.7 of int8."""
    text = "| case | rate |\n|---|---|\n| M=1, N=4096, K=4096 | 2,750 TFLOPS |\n"
    result = audited(text, "A100")
    assert rules(result) == {"above-peak"}
    assert result.findings[0].row == "M=1 N=4096 K=4096"
    assert str(result.findings[0].severity) == "impossible"


def test_the_last_lines_name_what_was_not_checked(tmp_path, capsys):
    path = tmp_path / "t.md"
    path.write_text(PLAIN)
    assert main(["audit", str(path)]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "not checked: repeated-rows; needs rows with M, N or K" in output
    assert output.endswith("2 rows in 1 table, 0 findings")
