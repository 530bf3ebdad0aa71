"""A Figure as an SVG file, for markdown: the drawings of the page with titles, legend and style sheet of their own.

Shown as an image, it loads nothing and runs no script. It follows the reader's light or dark scheme on a surface of its
own, so that it stays legible where the page around it does not.
"""

import re
from collections.abc import Sequence
from html import escape

from ..figures import svg
from ..figures.chart import Chart, Figure, LegendEntry
from ..figures.colours import THEMES
from ..figures.frames import Frame, frame, shortened, titled
from .html_style import declared, drawing_rules, variables
from .visible import visible

WIDEST = 1000.0
"""Pixels across which charts stand side by side: about what GitHub has for a text."""

_LEAST = 520.0
_GAP, _EDGE, _LEGEND_ROW = 10.0, 6.0, 19.0
_LETTER = 7.2
"""Width of a letter of titles and legend, in pixels."""

_RULES = """svg{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",Arial,sans-serif}
.surface{fill:var(--surface)}
.title,.key{fill:var(--soft);font-size:12px}
.name{fill:var(--ink);font-weight:600}"""


def draw(figure: Figure) -> bytes:
    """Return the file: one chart, or rows of charts under the legend. The same figure gives the same bytes."""
    frames = [frame(chart, figure.multiples) for chart in figure.charts]
    wide = max(one.width for one in frames)
    columns = min(len(frames), max(1, int((WIDEST + _GAP) // (wide + _GAP))))
    width = max(_LEAST, columns * (wide + _GAP) - _GAP)
    title = 0.0 if not titled(figure) else 30.0 if figure.multiples else 19.0
    legend, y = _legend(figure.legend, width)
    charts = []
    for first in range(0, len(frames), columns):
        row = range(first, min(first + columns, len(frames)))
        for column, index in enumerate(row):
            x = column * (wide + _GAP)
            if title:
                charts.append(_title(figure.charts[index], x, y, wide, figure.multiples))
            charts.append(_chart(figure.charts[index], frames[index], x, y + title))
        y += max(frames[index].height for index in row) + title + (_GAP if title else 0.0)
    body = "".join((svg.marker_definitions(), *legend, *charts))
    return visible(_document(figure, body, width, y)).encode("utf-8")


def _document(figure: Figure, body: str, width: float, height: float) -> str:
    rules = f"{_RULES}\n{drawing_rules()}"
    used = set(re.findall(r"var\(--([\w-]+)\)", rules + body))
    light, dark = (
        declared({name: colour for name, colour in variables(theme).items() if name in used}) for theme in THEMES
    )
    whole = f"{width + 2 * _EDGE:.0f}", f"{height + 2 * _EDGE:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{"panel" if figure.multiples else "single"}"'
        f' width="{whole[0]}" height="{whole[1]}" viewBox="{-_EDGE:.0f} {-_EDGE:.0f} {whole[0]} {whole[1]}"'
        f' role="img" aria-label="{escape(figure.alt)}">\n<style>\n'
        f":root{{color-scheme:light dark;{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f'{rules}\n</style>\n<rect class="surface" x="{-_EDGE:.0f}" y="{-_EDGE:.0f}" width="100%" height="100%"/>\n'
        f"{body}\n</svg>\n"
    )


def _legend(entries: Sequence[LegendEntry], width: float) -> tuple[list[str], float]:
    """Return the entries in rows, and the height of all rows."""
    parts, x, y = [], 0.0, 0.0
    for entry in entries:
        extent = 52 + _LETTER * len(entry.label)
        if x and x + extent > width:
            x, y = 0.0, y + _LEGEND_ROW
        label = f'<text class="key" x="36" y="9">{escape(entry.label)}</text>'
        parts.append(f'<g transform="translate({x:.0f} {y + 3:.0f})">{svg.swatch(entry)}{label}</g>')
        x += extent
    return parts, y + _LEGEND_ROW + 3 if entries else 0.0


def _title(chart: Chart, x: float, y: float, width: float, panel: bool) -> str:
    """Write the title of a chart and the remark in its corner, which has a line of its own in a panel."""
    name, corner = (escape(shortened(text, int(width / _LETTER))) for text in (chart.title, chart.corner))
    place = f'x="{x:.0f}" dy="14"' if panel else 'dx="8"'
    return (
        f'<text class="title" x="{x:.0f}" y="{y + 12:.0f}"><tspan class="name">{name}</tspan>'
        f"<tspan {place}>{corner}</tspan></text>"
    )


def _chart(chart: Chart, size: Frame, x: float, y: float) -> str:
    return f'<g class="chart" transform="translate({x:.0f} {y:.0f})">{svg.inside(chart, size)}</g>\n'
