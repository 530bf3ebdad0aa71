"""Draws a Chart as SVG: text stays text, and colours are CSS variables of the page or file around it.

Coordinates have one decimal. Marker shapes are defined once per page (`marker_definitions`) and referred to by name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from itertools import groupby

from .chart import Box, Chart, CrossoverSpan, Draw, LegendEntry, Remark, Series
from .frames import PANEL, SINGLE, Frame, shortened
from .labels import Label, ends, point_labels, roof_labels
from .marks import MARKS, colour_index

SHRUNK = 0.85
"""How much smaller than its natural size a chart of bands may get, so that two fit beside each other."""


def marker_definitions() -> str:
    """Return the hidden SVG that holds one marker per palette colour."""
    markers = []
    for style, (path, hollow) in enumerate(MARKS):
        kind = "mh" if hollow else "mf"
        markers.append(
            f'<marker id="m{style}" class="s{style} {kind}" viewBox="-4 -4 8 8" markerWidth="7" markerHeight="7"'
            f' markerUnits="userSpaceOnUse"><path d="{path}"/></marker>'
        )
    return f'<svg class="defs" aria-hidden="true" width="0" height="0"><defs>{"".join(markers)}</defs></svg>'


def swatch(entry: LegendEntry) -> str:
    """Return a short sample of what a legend entry stands for."""
    if entry.fill:
        inside = f'<g style="{_fill(entry.fill)}"><path class="b" d="M8 0h14v10h-14z"/></g>'
    elif entry.draw is Draw.RINGS:
        inside = f'<circle class="ring s{colour_index(entry.style)}" cx="15" cy="5" r="4"/>'
    elif entry.draw is Draw.DOTS:
        inside = f'<path class="dots s{colour_index(entry.style)}" d="M9 5h0M15 5h0M21 5h0"/>'
    elif entry.draw is Draw.MARKS:
        inside = f'<path class="{_classes(entry.style)} bare" d="M15 5h0"/>'
    else:
        plain = " plain" * (entry.draw is Draw.STROKE)
        inside = f'<path class="{_classes(entry.style)}{plain}" d="M1 5H15H29"/>'
    return f'<svg class="swatch" width="30" height="10" viewBox="0 0 30 10" aria-hidden="true">{inside}</svg>'


def draw(chart: Chart, frame: Frame) -> str:
    """Return the `<svg>` element of one chart."""
    box = f"0 0 {_n(frame.width)} {_n(frame.height)}"
    usual = frame.width in (PANEL.width, SINGLE.width)
    width = "" if usual else f' style="min-width:{_n(SHRUNK * frame.width)}px;max-width:{_n(frame.width)}px"'
    alt = escape(chart.alt)
    opened = f'<svg class="chart" viewBox="{box}"{width} role="img" aria-label="{alt}"><title>{alt}</title>'
    return f"{opened}{inside(chart, frame)}</svg>"


def inside(chart: Chart, frame: Frame) -> str:
    """Return what the `<svg>` element of one chart contains."""
    parts = [_axes(chart, frame)]
    parts += [_span(chart, frame, span) for span in chart.spans]
    parts += _boxes(chart, frame)
    parts += _roofs(chart, frame)
    if chart.level is not None:
        y = _n(frame.y(chart, chart.level))
        parts.append(f'<path class="level" d="M{_n(frame.left)} {y}H{_n(frame.width - frame.right)}"/>')
    for series in chart.back_to_front:
        parts.append(_series(chart, frame, series))
    parts += [_remark(chart, frame, remark) for remark in chart.remarks]
    if frame.labelled:
        parts += [_label(label, frame) for label in point_labels(chart, frame.plot_width, frame.plot_height)]
        parts += [_names(chart, frame, series) for series in chart.series if not series.faint]
    return "".join(parts)


def _fill(name: str) -> str:
    """Tell the colour of a box and of the text on it, as variables of the style sheet."""
    return f"--f:var(--{name});--t:var(--{name}t)"


def _boxes(chart: Chart, frame: Frame) -> list[str]:
    """Draw boxes, one path per colour but for those with a name of their own; then their texts, one element per row."""
    ordered = sorted(chart.boxes, key=lambda box: box.fill)
    parts, texts = [], []
    for fill, group in groupby(ordered, key=lambda box: box.fill):
        boxes = list(group)
        plain = "".join(_rectangle(chart, frame, box) for box in _merged(boxes) if not box.name)
        drawn = f'<path class="b" d="{plain}"/>' if plain else ""
        for box in boxes:
            if box.name:
                drawn += f'<path class="b" d="{_rectangle(chart, frame, box)}"><title>{escape(box.name)}</title></path>'
        parts.append(f'<g style="{_fill(fill)}">{drawn}</g>')
        if not fill.startswith("k-"):
            texts.append(f'<g style="{_fill(fill)}">{"".join(_box_texts(chart, frame, boxes))}</g>')
    # All bound classes bear black, so that letters of a row share an element.
    classes = [box for box in ordered if box.fill.startswith("k-")]
    texts.append(f'<g style="--t:#000">{"".join(_box_texts(chart, frame, classes))}</g>' if classes else "")
    return parts + texts


def _merged(boxes: Sequence[Box]) -> list[Box]:
    """Join nameless boxes of one colour that follow each other in a row."""
    found: list[Box] = []
    for box in boxes:
        last = found[-1] if found else None
        if last and not (last.name or box.name) and (last.x1, last.y0, last.y1) == (box.x0, box.y0, box.y1):
            found[-1] = replace(last, x1=box.x1)
        else:
            found.append(box)
    return found


def _rectangle(chart: Chart, frame: Frame, box: Box) -> str:
    left, right = frame.x(chart, box.x0), frame.x(chart, box.x1)
    top, bottom = frame.y(chart, box.y1), frame.y(chart, box.y0)
    return f"M{_n(left)} {_n(top)}H{_n(right)}V{_n(bottom)}H{_n(left)}z"


def _box_texts(chart: Chart, frame: Frame, boxes: Sequence[Box]) -> Iterable[str]:
    """Write the texts of boxes; single characters of one row share an element, each with its own x."""
    places = [
        (_n(frame.y(chart, (box.y0 + box.y1) / 2) + 4), frame.x(chart, (box.x0 + box.x1) / 2), box.text)
        for box in boxes
        if box.text
    ]
    for y, row in groupby(sorted(places, key=lambda place: (float(place[0]), place[1])), key=lambda place: place[0]):
        texts = list(row)
        if all(len(text) == 1 for _, _, text in texts):
            letters = escape("".join(text for _, _, text in texts))
            yield f'<text class="bt" x="{" ".join(f"{x:.0f}" for _, x, _ in texts)}" y="{y}">{letters}</text>'
        else:
            yield from (f'<text class="bt" x="{_n(x)}" y="{y}">{escape(text)}</text>' for _, x, text in texts)


def _remark(chart: Chart, frame: Frame, remark: Remark) -> str:
    x, y = _n(frame.x(chart, remark.x)), _n(frame.y(chart, remark.y) + 3.7)
    end = " end" * remark.end
    return f'<text class="re{end}" x="{x}" y="{y}">{escape(remark.text)}</text>'


def _axes(chart: Chart, frame: Frame) -> str:
    right, bottom = frame.width - frame.right, frame.height - frame.bottom
    grid, text = [], []
    for tick in frame.ticks(chart):
        x = _n(frame.x(chart, tick.value))
        if not chart.x.bands:
            grid.append(f"M{x} {_n(frame.top)}V{_n(bottom)}")
        if tick.label:
            below = _n(bottom + (18 if frame.labelled else 13))
            # A label at the very end would be cut by the edge of the drawing.
            cut = frame.x(chart, tick.value) + frame.letter * len(tick.label) / 2 > frame.width
            anchor, at = ("ty", _n(frame.width)) if cut else ("tx", x)
            text.append(f'<text class="{anchor}" x="{at}" y="{below}">{escape(tick.label)}</text>')
    for tick in chart.y.ticks:
        y = frame.y(chart, tick.value)
        if not chart.y.bands:
            grid.append(f"M{_n(frame.left)} {_n(y)}H{_n(right)}")
        if tick.label:
            label = escape(shortened(tick.label))
            text.append(f'<text class="ty" x="{_n(frame.left - 5)}" y="{_n(y + 3.5)}">{label}</text>')
    if frame.labelled and chart.x.label:
        middle = (frame.left + right) / 2
        text.append(f'<text class="tx ta" x="{_n(middle)}" y="{_n(frame.height - 8)}">{escape(chart.x.label)}</text>')
    if frame.labelled and chart.y.label:
        middle_y = (frame.top + bottom) / 2
        text.append(
            f'<text class="tx ta" transform="translate(13 {_n(middle_y)})rotate(-90)">{escape(chart.y.label)}</text>'
        )
    axis = f"M{_n(frame.left)} {_n(frame.top)}V{_n(bottom)}H{_n(right)}"
    return f'<path class="grid" d="{"".join(grid)}"/><path class="axis" d="{axis}"/>{"".join(text)}'


def _classes(style: int) -> str:
    return f"l s{colour_index(style)}"


def _series(chart: Chart, frame: Frame, series: Series) -> str:
    at = [(frame.x(chart, point.x), frame.y(chart, point.y)) for point in series.points]
    if series.draw is Draw.DOTS:
        # Of the many dots of the background none is looked at closely: whole pixels will do.
        path = "".join(f"M{x:.0f} {y:.0f}h0" if series.faint else f"M{_n(x)} {_n(y)}h0" for x, y in at)
        return f'<path class="dots s{colour_index(series.style)}{" faint" * series.faint}" d="{path}"/>'
    band = ""
    if series.band:
        upper = [(frame.x(chart, x), frame.y(chart, high)) for x, _, high in series.band]
        lower = [(frame.x(chart, x), frame.y(chart, low)) for x, low, _ in reversed(series.band)]
        band = f'<path class="band s{colour_index(series.style)}" d="{_polyline([*upper, *lower])}z"/>'
    if not at:
        return band
    if series.draw is Draw.RINGS:
        ring = f'<circle class="ring s{colour_index(series.style)}"'
        return band + "".join(f'{ring} cx="{_n(x)}" cy="{_n(y)}" r="6"/>' for x, y in at)
    if series.draw is Draw.MARKS:
        path = "".join(f"M{_n(x)} {_n(y)}h0" for x, y in at)
        return f'{band}<path class="{_classes(series.style)} bare" d="{path}"/>'
    path = _polyline(at) if len(at) > 1 else f"{_polyline(at)}h0"
    plain = " plain" * (series.draw is Draw.STROKE)
    return f'{band}<path class="{_classes(series.style)}{plain}" d="{path}"/>'


def _polyline(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)


def _span(chart: Chart, frame: Frame, span: CrossoverSpan) -> str:
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
        kind = "roof" if roof.measured else "roof clocked" if roof.observed else "roof spec"
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
    discs = []
    for point in series.points:
        if point.name:
            x, y, name = _n(frame.x(chart, point.x)), _n(frame.y(chart, point.y)), escape(point.name)
            discs.append(f'<circle class="hit" cx="{x}" cy="{y}" r="7"><title>{name}</title></circle>')
    return "".join(discs)


def _n(value: float) -> str:
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"
