"""The page of every kind of report in a browser: quiet, whole at any width and on paper, told to who does not see."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_report
from rooflens.reports.figures import colours
from rooflens.reports.presets import PRESETS
from rooflens.reports.render import html

from .browsing import CUT_OFF, HEADINGS, INKS, MOVING, NAMELESS, OPEN_ALL, OVERFLOW, as_hex
from .measured import WATCHED
from .planted import report_by, synthetic

pytestmark = pytest.mark.browser

RESULTS = Path(__file__).parents[2] / "docs/results"

PROVIDERS = ("simt_4bit", "gemv_4bit", "dequant_blas", "blas")
PAPER = {"width": 980, "height": 700}
"""A sheet of letter paper, landscape, within margins of 10 mm, in CSS pixels; A4 is wider."""


def out_of_memory(cell):
    return ("oom", "3 GiB asked") if cell.provider == "blas" and cell.M == 1024 else None


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of the page of a preset: two slices, twelve M, failures; for two versions, a change of some cells."""
    folder = tmp_path_factory.mktemp("presets")
    usual = {"machine": synthetic.H200, "samples": 2, "failures": out_of_memory, "providers": PROVIDERS}
    every_m = tuple(2**n for n in range(12))
    slices = {"Ms": every_m, "dtypes": ("bf16", "fp32"), "rounds": 2}
    run = load_run(synthetic.write_run(folder / "run", **slices, **usual, **WATCHED))
    times = synthetic.modelled_latency(synthetic.H200)
    versions = {"Ms": (1, 16, 1024), "rounds": 5, **usual}
    base = synthetic.write_run(folder / "base", seed=1, **versions)
    head = synthetic.write_run(
        folder / "head",
        latency=lambda cell: times(cell) * (0.8 if cell.provider == "simt_4bit" and cell.M < 16 else 1.0),
        **versions,
    )
    both = [load_run(base), load_run(head)]

    @cache
    def written(name):
        path = folder / f"{name}.html"
        path.write_text(html.render(report_by(name, run, both, both)), encoding="utf-8")
        return path.as_uri()

    return written


KINDS = [pytest.param(name, marks=() if name == "full" else pytest.mark.slow) for name in PRESETS]


@pytest.fixture(params=KINDS)
def page(request, open_page, address):
    """The page of a preset."""
    return open_page(address(request.param), 1600)


def test_nothing_stands_out_of_the_page(page):
    for width in (1600, 1400, 1000, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for _ in ("as it opens", "with everything unfolded"):
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(OVERFLOW) == []
            page.evaluate(OPEN_ALL)


def test_a_page_opens_with_what_was_asked_and_grids_side_by_side(open_page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(html.render(build_report(load_run(RESULTS / "h200-llm4bit-quick"))), encoding="utf-8")
    page = open_page(path.as_uri(), 1400)
    assert len(page.evaluate("document.body.innerText").split()) <= 2500  # without what is folded
    assert page.locator("main > section").count() <= 8
    first, second = page.locator(".grid").all()[:2]
    assert first.bounding_box()["y"] == second.bounding_box()["y"]
    page.set_viewport_size({"width": 420, "height": 900})
    assert first.bounding_box()["y"] < second.bounding_box()["y"]
    assert not page.locator("nav li").first.is_visible()


def test_wrapped_texts_have_room(page):
    """A sentence in a column of a few letters would make its row as high as a paragraph."""
    for width in (1600, 1000, 400):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(OPEN_ALL)
        widths = page.evaluate("[...document.querySelectorAll('.wr:not(:first-child)')].map(e => e.offsetWidth)")
        assert min(widths, default=150) >= 150


def test_everything_has_words_and_headings_have_no_gaps(page):
    assert page.evaluate(NAMELESS) == []
    levels = page.evaluate(HEADINGS)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.evaluate(MOVING) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_legible(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.evaluate(OPEN_ALL)
    shown = page.evaluate(INKS)
    assert len(shown) > 5
    for ink, under, sample in shown:
        assert colours.contrast(as_hex(ink), as_hex(under)) >= 4.5, (sample, ink, under)


def test_paper_shows_every_column_and_every_row(page):
    rows = page.evaluate("document.querySelectorAll('tbody tr').length")
    page.set_viewport_size(PAPER)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(CUT_OFF) == []
    assert not page.locator("nav").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PAPER["width"]
    shown = "[...document.querySelectorAll('tbody tr')].filter(row => row.getBoundingClientRect().height > 4).length"
    assert page.evaluate(shown) == rows
    assert as_hex(page.evaluate("getComputedStyle(document.body).backgroundColor")) == colours.LIGHT.surface
    assert page.pdf(prefer_css_page_size=True)[:5] == b"%PDF-"


def test_the_keyboard_reaches_and_shows_what_can_be_done(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.localName") == "main"
    folded = page.locator("main details:not([open]) > summary").first
    if folded.count():
        folded.focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.parentElement.open")
    for selector in ("nav a", ".tools input", "th button", "summary", ".scroll[tabindex]"):
        element = page.locator(selector).first
        if element.count() and element.is_visible():
            page.keyboard.press("Tab")  # so that the focus counts as one of the keyboard
            element.focus()
            style = element.evaluate("e => { const s = getComputedStyle(e); return [s.outlineStyle, s.outlineWidth] }")
            assert style == ["solid", "2px"], selector


def test_every_table_can_be_sorted_there_and_back(page):
    changed = page.evaluate("""() => {
      const faults = [];
      let sorted = 0;
      for (const table of document.querySelectorAll('table')) {
        const order = () => [...table.tBodies[0].rows].map(row => row.textContent).join('\\n');
        const before = order(), sums = table.querySelectorAll('tr.sum').length;
        for (const button of table.querySelectorAll('th button')) {
          const head = button.closest('th'), seen = [];
          for (let press = 0; press < 3; press++) { button.click(); seen.push(head.getAttribute('aria-sort')); }
          if (order() !== before) faults.push('not restored: ' + table.caption.textContent);
          if (seen[2] !== null || new Set(seen).size !== 3) faults.push('states: ' + seen);
          button.click();
          const last = [...table.tBodies[0].rows].slice(table.tBodies[0].rows.length - sums);
          if (!last.every(row => row.classList.contains('sum'))) faults.push('sums: ' + table.caption.textContent);
          sorted += order() !== before;
        }
      }
      return [faults, sorted];
    }""")
    faults, sorted_columns = changed
    assert faults == []
    assert sorted_columns > 3


@pytest.mark.parametrize("name", KINDS)
def test_without_scripts_everything_is_there_and_nothing_idle(browser, address, name):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1000, "height": 900})
    page = context.new_page()
    page.goto(address(name))
    assert page.locator("main table").count() > 0
    assert page.locator("th button, input, .tools, .tool").count() == 0
    folded = page.locator("details > summary")
    if folded.count():
        before = page.locator("details[open]").count()
        folded.first.click()
        assert page.locator("details[open]").count() == before + 1
    context.close()
