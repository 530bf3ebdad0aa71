"""Draws a Chart as inline SVG: text stays text, and colours are CSS variables, so light and dark are the page's choice.

Coordinates have one decimal. Marker shapes are defined once per page (`marker_definitions`) and referred to by name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from .axes import position
from .chart import Chart, Draw, Point, Series, Span
from .labels import Label, ends, point_labels, roof_labels
from .marks import COLOURS, colour_index, dashed, mark


@dataclass(frozen=True, slots=True)
class Frame:
    """Size of a drawing and the margins around its plot area, in CSS pixels at natural size."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    axis_labels: bool
    names: bool

    @property
    def plot_width(self) -> float:
        """Width of the plot area."""
        return self.width - self.left - self.right

    @property
    def plot_height(self) -> float:
        """Height of the plot area."""
        return self.height - self.top - self.bottom

    def x(self, chart: Chart, value: float) -> float:
        """Horizontal pixel of a data value."""
        return self.left + position(chart.x, value) * self.plot_width

    def y(self, chart: Chart, value: float) -> float:
        """Vertical pixel of a data value."""
        return self.height - self.bottom - position(chart.y, value) * self.plot_height


PANEL = Frame(236, 156, left=45, right=5, top=6, bottom=19, axis_labels=False, names=False)
SINGLE = Frame(920, 480, left=100, right=16, top=14, bottom=48, axis_labels=True, names=True)


def marker_definitions() -> str:
    """Return the hidden SVG that holds one marker per palette colour."""
    markers = []
    for style in range(COLOURS):
        shape = mark(style)
        kind = "mh" if shape.hollow else "mf"
        markers.append(
            f'<marker id="m{style}" class="s{style} {kind}" viewBox="-4 -4 8 8" markerWidth="7" markerHeight="7"'
            f' markerUnits="userSpaceOnUse"><path d="{shape.path}"/></marker>'
        )
    return f'<svg class="defs" aria-hidden="true" width="0" height="0"><defs>{"".join(markers)}</defs></svg>'


def swatch(style: int) -> str:
    """Return a short sample of a series line with its marker, for a legend."""
    line = f'<path class="{_classes(style)}" d="M1 5H15H29"/>'
    return f'<svg class="swatch" viewBox="0 0 30 10" aria-hidden="true">{line}</svg>'


def draw(chart: Chart, frame: Frame) -> str:
    """Return the `<svg>` element of one chart."""
    box = f"0 0 {_n(frame.width)} {_n(frame.height)}"
    parts = [
        f'<svg class="chart" viewBox="{box}" role="img" aria-label="{escape(chart.alt)}">',
        f"<title>{escape(chart.alt)}</title>",
        _axes(chart, frame),
    ]
    parts += [_span(chart, frame, span) for span in chart.spans]
    parts += _roofs(chart, frame)
    if chart.level is not None:
        y = _n(frame.y(chart, chart.level))
        parts.append(f'<path class="level" d="M{_n(frame.left)} {y}H{_n(frame.width - frame.right)}"/>')
    for series in chart.back_to_front:
        parts.append(_series(chart, frame, series))
    if frame.names:
        parts += [_label(label, frame) for label in point_labels(chart, frame.plot_width, frame.plot_height)]
        parts += [_names(chart, frame, series) for series in chart.series if not series.faint]
    return "".join(parts) + "</svg>"


def _axes(chart: Chart, frame: Frame) -> str:
    right, bottom = frame.width - frame.right, frame.height - frame.bottom
    grid, text = [], []
    for tick in chart.x.ticks:
        x = _n(frame.x(chart, tick.value))
        grid.append(f"M{x} {_n(frame.top)}V{_n(bottom)}")
        if tick.label:
            below = _n(bottom + (18 if frame.axis_labels else 13))
            text.append(f'<text class="tx" x="{x}" y="{below}">{escape(tick.label)}</text>')
    for tick in chart.y.ticks:
        y = frame.y(chart, tick.value)
        grid.append(f"M{_n(frame.left)} {_n(y)}H{_n(right)}")
        if tick.label:
            text.append(f'<text class="ty" x="{_n(frame.left - 5)}" y="{_n(y + 3.5)}">{escape(tick.label)}</text>')
    if frame.axis_labels:
        middle_x, middle_y = (frame.left + right) / 2, (frame.top + bottom) / 2
        text.append(f'<text class="tx ta" x="{_n(middle_x)}" y="{_n(frame.height - 8)}">{escape(chart.x.label)}</text>')
        text.append(
            f'<text class="tx ta" transform="translate(13 {_n(middle_y)})rotate(-90)">{escape(chart.y.label)}</text>'
        )
    axis = f"M{_n(frame.left)} {_n(frame.top)}V{_n(bottom)}H{_n(right)}"
    return f'<path class="grid" d="{"".join(grid)}"/><path class="axis" d="{axis}"/>{"".join(text)}'


def _classes(style: int) -> str:
    return f"l s{colour_index(style)}" + " dash" * dashed(style)


def _series(chart: Chart, frame: Frame, series: Series) -> str:
    at = [(frame.x(chart, point.x), frame.y(chart, point.y)) for point in series.points]
    if series.draw is Draw.DOTS:
        path = "".join(f"M{_n(x)} {_n(y)}h0" for x, y in at)
        return f'<path class="dots s{colour_index(series.style)}{" faint" * series.faint}" d="{path}"/>'
    band = ""
    if series.band:
        upper = [(frame.x(chart, x), frame.y(chart, high)) for x, _, high in series.band]
        lower = [(frame.x(chart, x), frame.y(chart, low)) for x, low, _ in reversed(series.band)]
        band = f'<path class="band s{colour_index(series.style)}" d="{_polyline([*upper, *lower])}z"/>'
    if not at:
        return band
    path = _polyline(at) if len(at) > 1 else f"{_polyline(at)}h0"
    return f'{band}<path class="{_classes(series.style)}" d="{path}"/>'


def _polyline(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)


def _span(chart: Chart, frame: Frame, span: Span) -> str:
    top, bottom = frame.top, frame.height - frame.bottom
    left_end, right_end = frame.left, frame.width - frame.right
    style = f"s{colour_index(span.style)}"
    parts = []
    if span.low is not None or span.high is not None:
        low = left_end if span.low is None else max(left_end, frame.x(chart, span.low))
        high = right_end if span.high is None else min(right_end, frame.x(chart, span.high))
        parts.append(f'<path class="interval {style}" d="M{_n(low)} {_n(top)}H{_n(high)}V{_n(bottom)}H{_n(low)}z"/>')
    if span.at is not None and left_end <= frame.x(chart, span.at) <= right_end:
        parts.append(f'<path class="at {style}" d="M{_n(frame.x(chart, span.at))} {_n(top)}V{_n(bottom)}"/>')
    return "".join(parts)


def _roofs(chart: Chart, frame: Frame) -> list[str]:
    """Draw the limits, then their labels, so that no line runs through a label."""
    lines = []
    for roof in chart.roofs:
        x0, y0, x1, y1 = ends(chart, roof, frame.plot_width, frame.plot_height)
        kind = "roof" if roof.measured else "roof spec"
        start, end = (f"{_n(frame.left + x)} {_n(frame.top + y)}" for x, y in ((x0, y0), (x1, y1)))
        lines.append(f'<path class="{kind}" d="M{start}L{end}"/>')
    return [*lines, *(_label(label, frame) for label in roof_labels(chart, frame.plot_width, frame.plot_height))]


def _label(label: Label, frame: Frame) -> str:
    kind = "roof-label" if label.style is None else f"point s{colour_index(label.style)}"
    end = " end" * label.end
    x, y = frame.left + label.x, frame.top + label.y
    if label.turn:
        place = f'transform="translate({_n(x)} {_n(y)})rotate({_n(label.turn)})" y="-5"'
    else:
        place = f'x="{_n(x)}" y="{_n(y + 4)}"'
    return f'<text class="{kind}{end}" {place}>{escape(label.text)}</text>'


def _names(chart: Chart, frame: Frame, series: Series) -> str:
    """Draw invisible discs that tell the name of the point under the pointer."""
    return "".join(
        _name(frame.x(chart, point.x), frame.y(chart, point.y), point) for point in series.points if point.name
    )


def _name(x: float, y: float, point: Point) -> str:
    return f'<circle class="hit" cx="{_n(x)}" cy="{_n(y)}" r="7"><title>{escape(point.name)}</title></circle>'


def _n(value: float) -> str:
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"
