"""Every preset on runs that are not what one would like: readable and escaped, or one line that says what it lacks."""

import re

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_report
from rooflens.reports.presets import OF_A_RUN, PRESETS
from rooflens.reports.render import html, markdown
from rooflens.reports.render.html_budget import LIMIT
from rooflens.shapes.errors import RooflensError, UsageError

from .pages import Page, markdown_tables
from .planted import SMALL, report_by, synthetic, tables

SCRIPT = "<script>alert(1)</script>"
HOSTILE = (
    SCRIPT,
    "\"quoted' & <b>",
    "\u202edneb thgir",
    "שלום",
    "👩\u200d🔬🚀",
    "a|b `c` *d* [e](http://x)",
    "a b `c` *d* [e](http://x)",  # the same in an anchor
    "{baseline} $x$",
    "dequant_blas",
)
LONG = "transformer.h.0.very_long_layer_name_" * 8 + "end"
HOSTILE_SHAPES = (
    ('"><img src=x onerror=alert(1)>', LONG, 512, 2048),
    (LONG, "NA", 256, 256),
    ("${7*7}{{7*7}}", "#1 @you <!-- -->", 128, 128),
)

RUNS = {
    "hostile": {"shapes": HOSTILE_SHAPES, "providers": HOSTILE, "challengers": HOSTILE[:7], "suite": SCRIPT},
    "one cell": {"shapes": SMALL[:1], "Ms": (1,), "providers": ("dequant_blas",), "challengers": (), "rounds": 1},
    "one M": {"Ms": (16,)},
    "all failed": {"failures": lambda cell: ("crashed", "signal 11")},
    "nothing known": {
        "rounds": 1,
        "samples": 1,
        "ceilings": False,
        "columns": lambda cell, round_: dict.fromkeys(("snr_db", "relative_error", "cosine", "max_abs_error")),
    },
    "baseline failed": {"failures": lambda cell: ("oom", "too large") if cell.provider == "dequant_blas" else None},
    "challenger failed": {"failures": lambda cell: ("incorrect", "SNR 3 dB") if "simt" in cell.provider else None},
    "no baseline": {"providers": ("simt_4bit", "blas")},
    "no challenger": {"challengers": ()},
    "interrupted": {"skip": lambda cell, round_: round_ > 0},
    "a quantization": {
        "columns": lambda cell, round_: {"op": "quantize", "flops": 0, "N": 1},
        "shapes": (("toy", "rows", 1, 4096), ("toy", "columns", 1, 8192)),
    },
    "experts": {
        "columns": lambda cell, round_: (
            {"op": "moe_gemm", "E": 8, "top_k": 2, "M_total": 2 * cell.M, "M_per_expert": cell.M / 4}
            | {"flops": 2 * cell.problem.flops}
        ),
    },
    "a training pass": {"columns": lambda cell, round_: {"pass": "step", "flops": 3 * cell.problem.flops}},
}
"""What is odd, as options of a planted run of three shapes at two M."""

FIT = {
    "one cell": {"full", "flat", "branch", "side-by-side"},
    "one M": set(PRESETS) - {"crossover"},
    "all failed": {"full", "branch", "side-by-side"},
    "no baseline": set(PRESETS) - {"three-way"},
}
"""Presets that have something to say, where these are not all."""

QUICK = ("one cell", "all failed", "baseline failed")
"""Of what is odd about the others, other tests of reports look at something as well."""


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in RUNS],
)
def odd(request, tmp_path_factory):
    """What is odd, and the reports of it by preset: a report, or the error that stands in its place."""
    folder = tmp_path_factory.mktemp("odd")
    what = {"shapes": SMALL, "Ms": (1, 8)} | RUNS[request.param]
    runs = [load_run(synthetic.write_run(folder / name, **what)) for name in ("base", "head")]
    reports = {}
    for name in PRESETS:
        try:
            reports[name] = report_by(name, runs[1], runs, runs)
        except RooflensError as error:
            reports[name] = error
    return request.param, reports


def test_a_preset_has_something_to_say_or_tells_what_it_lacks(odd):
    what, reports = odd
    assert {name for name, report in reports.items() if not isinstance(report, RooflensError)} == FIT.get(
        what, set(PRESETS)
    )
    for name, report in reports.items():
        if isinstance(report, RooflensError):
            assert isinstance(report, UsageError)
            assert name in str(report)
            assert "\n" not in str(report)


def test_a_table_of_results_says_how_to_read_it(odd):
    plain = {"failed", "environment-table", "conditions-table", "workload", "protocol-table"}
    for name, report in built(odd):
        for table in tables(report).values() if name in OF_A_RUN else ():
            assert table.reading or table.how_to_read or table.id in plain, (name, table.id)


def test_pages_are_whole_and_everything_in_them_is_text(odd):
    for name, report in built(odd):
        text = html.render(report)
        page = Page(text)
        assert set(page.links) <= set(page.ids), name
        assert len(page.ids) == len(set(page.ids)), name
        assert not {"img", "b>", "iframe"} & page.tags, name
        assert text.count("<script") == 1, name
        assert not [key for key, _ in page.attributes if key.startswith("on")], name
        assert "\u202e" not in text, name
        assert not re.search(r"(?<![\w./-])(nan|None|inf|NaT)(?![\w/-])", visible_text(text)), name


def test_markdown_is_whole_and_everything_in_it_is_text(odd):
    for name, report in built(odd):
        whole = markdown.render(report, limit=10**9).text
        text = re.sub(r"^(`{3,}).*?^\1$", "", whole, flags=re.DOTALL | re.MULTILINE)  # commands are literal
        assert not re.search(r"<(script|img|b>|!--)", text), name
        assert all(len(row) == len(table[0]) for table in markdown_tables(text) for row in table), name
        assert len(markdown.render(report).text) <= markdown.LIMIT, name
        assert "\u202e" not in whole, name


def built(odd):
    return [(name, report) for name, report in odd[1].items() if not isinstance(report, RooflensError)]


def visible_text(text: str) -> str:
    """What a page shows, without its names."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", text[text.index("<body") :], flags=re.DOTALL)
    return re.sub(r"<[^>]*>", " ", body).replace("NA", "")


@pytest.fixture(scope="module")
def five_thousand(tmp_path_factory):
    """A suite of 1,250 shapes at one M."""
    shapes = tuple((f"model-{n // 8}", f"layer {n % 8}", 256 + 64 * (n // 8), 1024) for n in range(1250))
    return synthetic.write_run(tmp_path_factory.mktemp("many") / "run", shapes=shapes, Ms=(4,), rounds=1, samples=1)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["full", "decode-grid"])
def test_five_thousand_cells_stay_a_page_that_opens(five_thousand, preset):
    report = build_report(load_run(five_thousand), preset)
    text = html.render(report)
    assert len(text.encode()) <= LIMIT
    page = Page(text)
    assert set(page.links) <= set(page.ids)
    assert "model-155 layer 7" in text
    assert len(markdown.render(report).text) <= markdown.LIMIT
