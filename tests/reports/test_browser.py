"""The page in a real browser: nothing leaves the file, everything shows, fits and is legible, in light and dark."""

from functools import partial
from pathlib import Path
from urllib.parse import urlparse

import pytest
from rooflens.reports.figures import colours
from rooflens.reports.render import html, markdown
from rooflens.reports.write import write_bytes

from .browsing import OPEN_ALL, as_hex
from .measured import WATCHED
from .planted import report_of, synthetic

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A report with two slices, failures, undecided and disturbed cells, twelve M: everything that a page can hold."""

    def failures(cell):
        return ("oom", "3 GiB asked") if cell.provider == "blas" and cell.M == 2048 else None

    folder = tmp_path_factory.mktemp("page")
    report = report_of(
        folder / "run",
        Ms=tuple(2**power for power in range(12)),
        dtypes=("bf16", "fp32"),
        providers=("simt_4bit", "gemv_4bit", "mma_4bit", "dequant_blas", "blas"),
        machine=synthetic.H200,
        failures=failures,
        samples=4,
        **WATCHED,
    )
    (folder / "report.html").write_text(html.render(report), encoding="utf-8")
    for path, content in markdown.files(report, folder / "report.md", ascii_only=False).items():
        write_bytes(path, content)
    return (folder / "report.html").as_uri()


@pytest.fixture
def visit(open_page, address):
    """Open the page at a width and in a colour scheme."""
    return partial(open_page, address)


def test_wide_tables_scroll_in_their_own_box(visit):
    page = visit(400)
    box = "document.querySelector('#speedup-bf16-nf4-g64-cold-simt-4bit .scroll')"
    assert page.evaluate(f"{box}.scrollWidth > {box}.clientWidth + 100")
    page.evaluate(f"{box}.scrollLeft = 200")
    label = page.locator("#speedup-bf16-nf4-g64-cold-simt-4bit tbody th").first.bounding_box()
    assert 0 <= label["x"] < 40  # the shape's name stays in view


def test_figures_are_drawn(visit):
    page = visit()
    page.evaluate(OPEN_ALL)
    size = "(chart => { const box = chart.getBoundingClientRect(); return [box.width, box.height] })"
    panels = page.evaluate(f"[...document.querySelectorAll('[id^=panels-] .panel svg.chart')].map({size})")
    assert len(panels) == 2 * 6
    assert all(width > 150 and height > 100 for width, height in panels)
    others = page.evaluate(f"[...document.querySelectorAll('.single svg.chart')].map({size})")
    assert len(others) >= 2 * 2
    assert all(width > 150 and height > 30 for width, height in others)
    lines = page.evaluate(
        "[...document.querySelectorAll('svg.chart path.l:not(.bare):not(.plain)')]"
        ".map(e => { const s = getComputedStyle(e);"
        " return [s.stroke, s.markerMid, e.getTotalLength()] })"
    )
    assert all(stroke.startswith("rgb") and "#m" in marker and length > 10 for stroke, marker, length in lines)
    assert len({stroke for stroke, *_ in lines}) == 5
    ids = set(page.evaluate("[...document.querySelectorAll('marker')].map(e => e.id)"))
    assert {marker.split("#")[1].split('"')[0] for _, marker, _ in lines} <= ids


OUTSIDE = """selector => [...document.querySelectorAll(selector)].flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const inner = text.getBoundingClientRect();
    return inner.left < box.left - 1 || inner.right > box.right + 1
      || inner.top < box.top - 1 || inner.bottom > box.bottom + 1;
  }).map(text => text.textContent);
})"""


def test_text_inside_charts_stays_inside(visit):
    page = visit()
    page.evaluate(OPEN_ALL)
    assert page.evaluate(OUTSIDE, "svg.chart") == []


COVERED = """() => {
  const texts = [...document.querySelectorAll('.title, .key')];
  const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], at) => boxes.slice(at + 1).filter(([, b]) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom).map(([other]) => [one, other]));
}"""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_beside_the_markdown_are_legible_and_whole(open_page, address, scheme):
    theme = {"light": colours.LIGHT, "dark": colours.DARK}[scheme]
    figures = sorted(Path(urlparse(address).path).parent.glob("figures/*.svg"))
    assert len(figures) == 8
    for figure in figures:
        page = open_page(figure.as_uri(), 1400, scheme)
        assert page.evaluate(OUTSIDE, "svg") == [], figure.name
        assert page.evaluate(COVERED) == [], figure.name
        surface = page.evaluate("getComputedStyle(document.querySelector('.surface')).fill")
        assert as_hex(surface) == theme.surface
        inks = page.evaluate(
            "[...new Set([...document.querySelectorAll('text:not(.bt)')].map(e => getComputedStyle(e).fill))]"
        )
        assert min(colours.contrast(as_hex(ink), theme.surface) for ink in inks) >= 4.5, figure.name


def test_a_link_into_a_folded_part_unfolds_it(visit):
    page = visit()
    folded = page.locator("#speedup-fp32-nf4-g64-cold")
    assert folded.get_attribute("open") is None
    page.goto(page.url.partition("#")[0] + "#speedup-fp32-nf4-g64-cold-simt-4bit")
    assert page.locator("#speedup-fp32-nf4-g64-cold-simt-4bit table").is_visible()
    folded.locator("summary").first.click()
    assert not page.locator("#speedup-fp32-nf4-g64-cold-simt-4bit").is_visible()


GRID = "#speedup-bf16-nf4-g64-cold-simt-4bit"


def column(page, index, table=GRID):
    return page.locator(f"{table} tbody tr:not(.sum) > :nth-child({index})").all_inner_texts()


def test_times_of_different_units_are_sorted_as_times(visit):
    page = visit()
    page.evaluate(OPEN_ALL)
    table = "#cells-bf16-nf4-g64-cold-simt-4bit"
    place = page.locator(f"{table} thead th").all_inner_texts().index("time") + 1
    page.locator(f"{table} th button", has_text="time").first.click()
    shown = column(page, place, table)
    scale = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}
    units = [text.split()[1].rstrip("0123456789") for text in shown]  # a footnote's number follows the unit
    times = [float(text.split()[0]) * scale[unit] for text, unit in zip(shown, units, strict=True)]
    assert set(units) >= {"µs", "ms"}
    assert times == sorted(times, reverse=True)


def test_what_failed_goes_to_the_end_both_ways(visit):
    page = visit()
    table = "#speedup-bf16-nf4-g64-cold-blas"
    button = page.locator(f"{table} th button", has_text="M=2048")
    assert button.count() == 0  # none of them has a ratio there
    table = "#whole-bf16-nf4-g64-cold"
    page.evaluate(OPEN_ALL)
    orders = set()
    for _ in range(2):
        page.locator(f"{table} th button", has_text="M=2048").click()
        *others, last = column(page, 1, table)
        assert last == "blas"
        orders.add(tuple(others))
    assert len(orders) == 2


def test_the_filter_reaches_grids_and_panels_and_names_what_is_left(visit):
    page = visit()
    page.locator(".tools input").fill("llama2-7b SIMT_4bit bf16")
    visible = page.locator(f"{GRID} tbody tr:not(.sum):visible")
    assert visible.count() == 1
    assert visible.first.inner_text().startswith("llama2-7b q/k/v/o")
    assert not page.locator("#speedup-bf16-nf4-g64-cold-blas").is_visible()
    assert page.locator("#panels-bf16-nf4-g64-cold .panel:visible").count() == 1
    assert "Means are of all." in page.locator("[role=status]").inner_text()
    page.locator(".tools input").fill("no such shape")
    assert page.locator("[role=status]").inner_text() == "No row matches."
    page.locator(".tools input").press("Escape")
    assert page.locator("#speedup-bf16-nf4-g64-cold-blas").is_visible()
    assert page.locator("#panels-bf16-nf4-g64-cold .panel:visible").count() == 6


def test_a_long_table_has_a_filter_of_its_own(visit):
    page = visit()
    page.evaluate(OPEN_ALL)
    table = page.locator("#cells-bf16-nf4-g64-cold-blas")
    every = table.locator("tbody tr").count()
    table.locator("input").fill("gpt-oss")
    shown = table.locator("tbody tr:visible").all_inner_texts()
    assert 0 < len(shown) < every
    assert all("gpt-oss" in text for text in shown)
    assert table.locator(".tool span").inner_text() == f"{len(shown)} of {every} rows"
    page.locator(".tools button").click()
    assert table.locator("tbody tr:visible").count() == every
    assert table.locator("input").input_value() == ""
