"""Draws a Figure with matplotlib as PNG bytes, for places that show no inline SVG: same values, ticks and labels."""

import io
from math import ceil
from typing import Literal

from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Side
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from PIL import Image

from .chart import Axis, Chart, Draw, Figure, Series
from .colours import LIGHT, mix
from .labels import Label, point_labels, roof_labels
from .marks import colour_index, dashed, mark
from .svg import SINGLE

DPI = 110
COLUMNS = 5
PALETTE = 256
"""Colours that an image keeps: lines and text need no more, and the file shrinks by half."""

_GREY = mix(LIGHT.surface, LIGHT.ink, 0.62)
_GRID = mix(LIGHT.surface, LIGHT.ink, 0.1)
_HALO = [patheffects.withStroke(linewidth=2.5, foreground=LIGHT.surface)]


def draw(figure: Figure) -> bytes:
    """Return the figure as PNG: one chart, or a grid of panels. The same figure gives the same bytes."""
    columns = min(COLUMNS, len(figure.charts)) if figure.multiples else 1
    rows = ceil(len(figure.charts) / columns)
    size = (max(2.6 * columns, 5.2), 1.95 * rows + 0.5) if figure.multiples else (9.2, 5.2)
    canvas = Canvas(figsize=size, dpi=DPI, facecolor=LIGHT.surface, layout="constrained")
    agg = FigureCanvasAgg(canvas)
    for number, chart in enumerate(figure.charts, start=1):
        _chart(canvas.add_subplot(rows, columns, number), chart, figure.multiples)
    if figure.legend:
        handles = [_handle(entry.label, entry.style) for entry in figure.legend]
        columns = min(len(handles), 4)
        canvas.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False, fontsize=8)
    agg.draw()  # type: ignore[no-untyped-call]
    rendered = agg.buffer_rgba()  # type: ignore[no-untyped-call]
    pixels = Image.frombuffer("RGBA", agg.get_width_height(), rendered, "raw", "RGBA", 0, 1).convert("RGB")
    buffer = io.BytesIO()
    pixels.quantize(PALETTE, dither=Image.Dither.NONE).save(buffer, format="png", optimize=True)
    return buffer.getvalue()


def _colour(style: int) -> str:
    return LIGHT.series[colour_index(style)]


def _dash(style: int) -> Literal["--", "-"]:
    return "--" if dashed(style) else "-"


def _handle(label: str, style: int) -> Line2D:
    marker = mark(style).matplotlib
    return Line2D(
        [], [], color=_colour(style), marker=marker, markersize=5, linestyle=_dash(style), label=_plain(label)
    )


def _plain(text: str) -> str:
    """Keep matplotlib from reading a dollar sign as mathematics."""
    return text.replace("$", r"\$")


def _chart(axes: Axes, chart: Chart, panel: bool) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    _axis(axes.xaxis, chart.x)
    _axis(axes.yaxis, chart.y)
    axes.set_xlim(chart.x.low, chart.x.high)
    axes.set_ylim(chart.y.low, chart.y.high)
    axes.tick_params(labelsize=6.5 if panel else 8.5, colors=_GREY, length=2)
    axes.grid(color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if panel:
        axes.set_title(f"{_plain(chart.title)}\n{_plain(chart.corner)}", fontsize=6.8, loc="left", pad=3)
    else:
        axes.set_xlabel(_plain(chart.x.label), fontsize=9)
        axes.set_ylabel(_plain(chart.y.label), fontsize=9)
    _furniture(axes, chart)
    for series in chart.back_to_front:
        _series(axes, series, panel)
    if not panel:
        for label in point_labels(chart, SINGLE.plot_width, SINGLE.plot_height):
            _label(axes, label)


def _axis(side: Side, axis: Axis) -> None:
    side.set_major_locator(FixedLocator([tick.value for tick in axis.ticks]))
    side.set_major_formatter(FixedFormatter([tick.label for tick in axis.ticks]))
    side.set_minor_locator(NullLocator())


def _furniture(axes: Axes, chart: Chart) -> None:
    if chart.level is not None:
        axes.axhline(chart.level, color=LIGHT.ink, linewidth=0.9)
    for span in chart.spans:
        if span.low is not None or span.high is not None:
            low, high = span.low or chart.x.low, span.high or chart.x.high
            axes.axvspan(low, high, color=_colour(span.style), alpha=0.13, linewidth=0)
        if span.at is not None:
            axes.axvline(span.at, color=_colour(span.style), linewidth=0.9, linestyle=":")
    for roof in chart.roofs:
        colour, style = (LIGHT.ink, "-") if roof.measured else (_GREY, "--")
        axes.plot([roof.x0, roof.x1], [roof.y0, roof.y1], color=colour, linewidth=1.2, linestyle=style)
    for label in roof_labels(chart, SINGLE.plot_width, SINGLE.plot_height):
        _label(axes, label)


def _label(axes: Axes, label: Label) -> None:
    """Draw a label at its place, which is measured in a plot area of the SVG's size."""
    axes.text(
        label.x / SINGLE.plot_width,
        1 - label.y / SINGLE.plot_height,
        _plain(label.text),
        transform=axes.transAxes,
        ha="right" if label.end else "left",
        va="bottom" if label.turn else "center",
        rotation=-label.turn,
        rotation_mode="anchor",
        fontsize=7.5,
        color=LIGHT.ink if label.style is None else _colour(label.style),
        path_effects=_HALO,
    )


def _series(axes: Axes, series: Series, panel: bool) -> None:
    x, y = [point.x for point in series.points], [point.y for point in series.points]
    colour = _colour(series.style)
    if series.draw is Draw.DOTS:
        axes.plot(x, y, ".", color=colour, markersize=3, alpha=0.3 if series.faint else 1, markeredgewidth=0)
        return
    if series.band:
        at, low, high = zip(*series.band, strict=True)
        axes.fill_between(at, low, high, color=colour, alpha=0.14, linewidth=0)
    axes.plot(
        x,
        y,
        color=colour,
        marker=mark(series.style).matplotlib,
        markersize=2.6 if panel else 5,
        linewidth=1 if panel else 1.6,
        linestyle=_dash(series.style),
        markeredgewidth=0,
    )
