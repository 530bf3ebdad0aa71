"""The summary of a GitHub Actions job: one file under its limit, with the findings of the figures and no images."""

from rooflens.reports.model import Report, Section, Table, number_columns, text_columns, texts
from rooflens.reports.render.job_summary import LIMIT, render

from .planted import report_of


def test_figures_are_replaced_by_their_findings(tmp_path):
    report = report_of(tmp_path / "run")
    text = render(report)
    assert "![" not in text
    assert "figures/" not in text
    assert "Left out for length" not in text


def test_a_longer_one_is_cut_below_the_limit_and_closes_what_it_folds():
    rows = tuple(texts("é" * 100, number) for number in range(20_000))
    columns = (*text_columns("name"), *number_columns("number"))
    table = Table("long", "A long table", columns, rows)
    sections = (Section("first", "First"), Section("second", "Second", (table,)))
    text = render(Report("A report", (), sections, "rooflens"))
    assert LIMIT / 8 < len(text.encode("utf-8")) <= LIMIT
    assert text.count("<details>") == text.count("</details>") == 1
    assert text.endswith("the HTML report has all of it.*\n")
