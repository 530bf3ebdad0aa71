"""Renders a Report as one self-contained HTML file: no network, no library, light and dark by the reader's setting.

Without scripts it is complete. A script of the page's own adds sorting and filtering of tables; the page's security
policy names it, and the style sheet, by their hashes.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from ..figures import colours, svg
from ..figures.chart import Chart, Data, Figure
from ..figures.frames import frame
from ..formatting import plural
from ..model import OPEN_REMARKS, Block, Report, Section, Table
from .html_budget import LIMIT, RESERVE, left_out, sentence
from .html_style import policy, script, stylesheet, template
from .html_table import attributes, header_attributes, is_heat, table_attributes
from .visible import visible


def files(report: Report, path: Path, ascii_only: bool) -> dict[Path, bytes]:
    """Render the page for `path`; `ascii_only` is not for a page, which declares its encoding."""
    return {path: render(report).encode("utf-8")}


def render(report: Report, limit: int = LIMIT) -> str:
    """Return the page as one string, of at most `limit` bytes if leaving out tables and figures can achieve that."""
    anchors = _note_anchors(report)
    shared = {
        "report": report,
        "anchor": lambda text: f"note-{report.notes[text]}",
        "own_anchor": lambda section, number: anchors[number] == section.id,
    }
    pieces = list(_draw_blocks(report, shared))
    shell = len(_page(shared, {}, {}).encode())
    sizes = [
        (len(markup.encode()), folded or getattr(block, "detail", False), isinstance(block, Table | Figure))
        for block, _, markup, folded in pieces
    ]
    gone = left_out(sizes, limit - shell - RESERVE)
    kept: dict[int, Markup] = {}
    lost: dict[str, list[str]] = {}
    for index, (block, section, markup, _) in enumerate(pieces):
        if index not in gone:
            kept[id(block)] = markup
        elif isinstance(block, Table | Figure):
            lost.setdefault(section, []).append(block.title)
    return _page(shared, kept, lost)


def _draw_blocks(report: Report, shared: dict[str, object]) -> Iterator[tuple[Block, str, Markup, bool]]:
    """Yield every block with the id of its section, its markup, and whether it is folded."""
    figures = (block for section in report.walk() for block in section.blocks if isinstance(block, Figure))
    names = {**shared, "figure_links": links(figures)}
    block_of = _environment().get_template("blocks.html.j2").make_module(names).block  # type: ignore[attr-defined]

    def walk(section: Section, level: int, folded: bool) -> Iterator[tuple[Block, str, Markup, bool]]:
        for block in section.blocks:
            yield block, section.id, Markup(block_of(block, level)), folded
        for child in section.sections:
            yield from walk(child, level + 1, folded or child.folded)

    for section in report.sections:
        yield from walk(section, 3, section.folded)


def _page(shared: dict[str, object], kept: dict[int, Markup], lost: dict[str, list[str]]) -> str:
    styles, scripts = stylesheet(), script()
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            **shared,
            drawn=lambda block: kept.get(id(block), ""),
            lost=lambda section: sentence(lost[section.id]) if section.id in lost else "",
            style=Markup(styles),
            script=Markup(scripts),
            policy=Markup(policy(styles, scripts)),
            marker_definitions=Markup(svg.marker_definitions()),
        )
    )
    return visible(page)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        attributes=attributes,
        draw=_draw,
        header_attributes=header_attributes,
        key_steps=_key_steps,
        open_remarks=OPEN_REMARKS,
        kind_of=lambda block: type(block).__name__,
        nav_title=_nav_title,
        is_heat=is_heat,
        rows_of=lambda data: plural(len(data.rows), "row"),
        swatch=lambda entry: Markup(svg.swatch(entry)),
        table_attributes=table_attributes,
    )
    return environment


def _note_anchors(report: Report) -> dict[int, str]:
    """Each note is the target of its links where it stands first; further copies have no anchor."""
    first: dict[int, str] = {}
    for section in report.walk():
        for number in report.notes_of(section):
            first.setdefault(number, section.id)
    return first


def _draw(chart: Chart, panel: bool) -> Markup:
    return Markup(svg.draw(chart, frame(chart, panel)))


def _nav_title(section: Section) -> str:
    """Title of a section without the name of a provider, for which the list of contents is too narrow."""
    title, _, over = section.title.partition(" over ")
    return section.title if over == "time" else title


def _key_steps() -> list[tuple[str, str]]:
    """Steps of the diverging scale for its key, with the ratio written on those that are whole octaves."""
    labels = {-12: "≤1/8×", -8: "1/4×", -4: "1/2×", 0: "1×", 4: "2×", 8: "4×", 12: "≥8×"}
    steps = range(-colours.STEPS, colours.STEPS + 1, 2)
    return [(colours.step_name(index), labels.get(index, "")) for index in steps]


MOST_EACH, MOST_TOGETHER = 40_000, 160_000
"""Characters of a link, and of all links of a page."""


def links(figures: Iterable[Figure]) -> Mapping[str, str]:
    """Return figure id -> data URI of its CSV, the first figures of the page first, as far as there is room."""
    found: dict[str, str] = {}
    left = MOST_TOGETHER
    for figure in figures:
        if figure.data is None:
            continue
        link = data_uri(figure.data)
        if len(link) <= min(MOST_EACH, left):
            found[figure.id] = link
            left -= len(link)
    return found


def data_uri(data: Data) -> str:
    """Write a table as a link that holds its CSV, in the shorter of two encodings."""
    text = data.csv()
    plain = f"data:text/csv;charset=utf-8,{quote(text, safe=',./:;()=+*~!@')}"
    encoded = f"data:text/csv;charset=utf-8;base64,{b64encode(text.encode()).decode()}"
    return min(plain, encoded, key=len)
