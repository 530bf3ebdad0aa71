"""Chapters that several presets share: limitations, open items, the tally and where the numbers come from."""

import hashlib

import pytest
from rooflens.reports.render import markdown, markdown_blocks
from rooflens.reports.sections.conditions.context import reproduce
from rooflens.reports.sections.summary.correctness import bar_text, correctness, floor_of
from rooflens.reports.sections.summary.known_limitations import known_limitations
from rooflens.reports.sections.summary.open_items import open_items

from .planted import PLAIN, SMALL, chapters_of, exact, tables, texts, view_of, words


def test_limitations_say_where_a_challenger_cannot_run_and_where_it_loses(tmp_path):
    view = view_of(
        tmp_path / "run",
        shapes=SMALL,
        Ms=(1, 8, 64),
        **exact(simt_4bit=lambda cell: 1e-3 * cell.M, dequant_blas=lambda _: 4e-3),
        failures=lambda cell: (
            ("unsupported", "M=64: made for up to 16 rows") if (cell.provider, cell.M) == ("simt_4bit", 64) else None
        ),
    )
    rows = texts(tables(chapters_of(view, known_limitations))["limitations-table"])[1:]
    assert rows[0] == [
        "simt_4bit cannot run",
        "3 cells of toy up, toy down, toy square; M=64",
        "made for up to 16 rows",
        "dispatch to another provider there",
    ]
    assert rows[1][0] == "simt_4bit is verified slower than dequant_blas at 3 / 6 cells"
    assert rows[1][1].startswith(
        "3 cells of toy up, toy down, toy square; M=8; most at toy up 512×2048, M=8, bf16, cold: 0.50×"
    )
    assert rows[1][3] == f"dispatch to dequant_blas there: rooflens dispatch {view.run_path}"


def test_open_items_of_an_unfinished_run(tmp_path):
    def failures(cell):
        if cell.provider != "simt_4bit" or cell.M == 1:
            return None
        return ("incorrect", "SNR 3 dB below 40 dB") if cell.layer == "up" else ("timeout", "120 s")

    view = view_of(
        tmp_path / "run",
        shapes=SMALL,
        Ms=(1, 8),
        **PLAIN,
        failures=failures,
        skip=lambda cell, round_: cell.provider == "blas" and round_ == 2,
    )
    (block,) = open_items(view).blocks
    done = dict(zip(block.items, block.checked, strict=True))
    assert not any(done[text] for text in done if not text.startswith("all"))
    wrong = "simt_4bit fails (incorrect): do not use it there; correct it, then rooflens run again"
    assert wrong in done
    assert any(text.startswith("simt_4bit fails (timeout): give it more time") for text in done)
    (left,) = [text for text in done if "6 / 54 rounds to do" in text]
    assert f"rooflens run --resume -o {view.run_path}" in left
    assert (
        f"6 of 54 rounds are missing: resume the run: rooflens run --resume -o {view.run_path}"
        in view.analysis.warnings
    )
    text = markdown.render(chapters_of(view, open_items)).text
    assert f"- [ ] {markdown_blocks.escape(wrong)}\n" in text
    assert "- [x] all " not in text.partition("- [ ]")[0]
    assert list(done.values()) == sorted(done.values())


def test_correctness_has_the_bar_of_each_scheme_and_the_reasons(tmp_path):
    def failures(cell):
        if cell.provider == "blas":
            return ("unsupported", f"M={cell.M}: needs a GPU")
        return ("incorrect", "SNR 3 dB") if (cell.provider, cell.M, cell.layer) == ("simt_4bit", 8, "up") else None

    view = view_of(tmp_path / "run", shapes=SMALL, Ms=(1, 8), **PLAIN, failures=failures)
    found = chapters_of(view, correctness)
    assert words(found)[0].startswith("Cells: 11 / 12 timed; 1 failed; 6 more cannot run here.")
    row = texts(tables(found)["accuracy"])[1]
    assert row[:6] == ["simt_4bit", "nf4-g64", "bf16", "6", "1", "≥ 40.0 dB (relative error ≤ 0.010)"]
    assert sorted(texts(tables(found)["failed"])[1:]) == [
        ["blas", "skipped", "6", "bf16", "cold", "1, 8", "toy up, toy down, toy square", "needs a GPU"],
        ["simt_4bit", "incorrect", "1", "bf16", "cold", "8", "toy up", "SNR 3 dB"],
    ]


def test_bars_of_schemes_are_theirs():
    assert bar_text(floor_of("fp8-quant-row", "bf16")) == "every bit equal"
    assert bar_text(floor_of("nf4-g64", "fp32")) == "≥ 100.0 dB (relative error ≤ 0.000010)"
    assert floor_of("of-another-package", "bf16") is None
    assert bar_text(None) == "unknown"
    assert 10 ** (-floor_of("nf4-g64", "bf16") / 20) == pytest.approx(0.01)


def test_provenance_has_the_checksums_of_the_files(tmp_path):
    start = {"process": 0, "gemm_s": 1e-3, "copy_s": 2e-3}
    canary = [start | {"at": f"2025-01-02T03:00:0{second}Z"} for second in (0, 1, 2)]  # before the first time
    view = view_of(tmp_path / "run", shapes=SMALL, Ms=(1,), ceilings=False, canary=canary, **PLAIN)
    assert known_limitations(view) is None  # a run without limits has no chapter of them
    rows = {row[0].text: row for row in tables(chapters_of(view, reproduce))["files"].rows}
    for name in ("cells.csv", "samples.csv", "run.json"):
        whole = hashlib.sha256((tmp_path / "run" / name).read_bytes()).hexdigest()
        assert (rows[name][3].text, rows[name][3].value) == (whole[:16], whole)
    assert rows["samples.csv"][2].value == len(view.run.samples)
    assert rows["canary.csv"][2].value == len(canary)
    assert "telemetry.csv" not in rows
