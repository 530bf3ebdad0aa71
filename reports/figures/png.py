"""Draws a Figure with matplotlib as PNG bytes, for places that show no inline SVG: same values, ticks and labels.

Everything is where the SVG has it: frames are those of `frames`, a pixel there is a hundredth of an inch here.
"""

import struct
import zlib
from collections.abc import Sequence
from math import ceil
from typing import Literal, NamedTuple

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Side
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from numpy.typing import NDArray

from .chart import Anchor, Chart, Draw, Figure, LegendEntry, Series, Spacing, Tick
from .colours import LIGHT, mix, named, text_on
from .frames import Frame, frame, shortened, titled
from .labels import Label, point_labels, roof_labels
from .marks import colour_index, mark

DPI = 110
COLUMNS = 5
WIDEST = 1240.0
"""Pixels across which charts that are narrower than a usual one stand side by side."""
PALETTE = 256
"""Colours that an image keeps: lines and text need no more, and the file shrinks by half."""

_GREY = mix(LIGHT.surface, LIGHT.ink, 0.62)
_SOFT = mix(LIGHT.surface, LIGHT.ink, 0.76)
_GRID = mix(LIGHT.surface, LIGHT.ink, 0.1)
_HALO = [patheffects.withStroke(linewidth=2.5, foreground=LIGHT.surface)]
_GAP, _EDGE, _LEGEND_ROW = 10.0, 6.0, 19.0
_LETTER = 6.6
"""Width of a letter of the legend, in pixels."""
_ALIGN: dict[Anchor, Literal["left", "center", "right"]] = {
    Anchor.START: "left",
    Anchor.MIDDLE: "center",
    Anchor.END: "right",
}


class _Place(NamedTuple):
    """Upper left corner of a chart's drawing, in pixels from that of the image."""

    x: float
    y: float


def draw(figure: Figure) -> bytes:
    """Return the figure as PNG: one chart, or a grid of them. The same figure gives the same bytes."""
    frames = [frame(chart, figure.multiples) for chart in figure.charts]
    title = 0.0 if not titled(figure) else 28.0 if figure.multiples else 17.0
    across = max(1, int(WIDEST // (max(one.width for one in frames) + _GAP)))
    columns = min(COLUMNS if figure.multiples else across, len(frames))
    places, width, height = _grid(frames, columns, title)
    width = max(width, 520.0)
    entries = _per_row(figure.legend, width)
    top = _EDGE + _LEGEND_ROW * (ceil(len(figure.legend) / entries) if figure.legend else 0)
    height += top + _EDGE
    canvas = Canvas(figsize=(width / 100, height / 100), dpi=DPI, facecolor=LIGHT.surface)
    agg = FigureCanvasAgg(canvas)
    for chart, one, place in zip(figure.charts, frames, places, strict=True):
        below = height - top - place.y - one.height + one.bottom
        rectangle = ((place.x + one.left) / width, below / height, one.plot_width / width, one.plot_height / height)
        _chart(canvas.add_axes(rectangle), chart, one, titled(figure), figure.multiples)
    if figure.legend:
        handles = [_handle(entry) for entry in figure.legend]
        canvas.legend(
            handles=handles, loc="upper center", ncols=entries, frameon=False, fontsize=8, borderaxespad=0.2,
            labelspacing=0.35, columnspacing=1.6, handlelength=2.2,
        )  # fmt: skip
    agg.draw()  # type: ignore[no-untyped-call]
    return encode(np.asarray(agg.buffer_rgba())[:, :, :3])  # type: ignore[no-untyped-call]


def encode(pixels: NDArray[np.uint8]) -> bytes:
    """Return an image [height, width, 3] as a PNG of its commonest colours, each other one as the nearest of them.

    Matplotlib writes four bytes per pixel, which makes a file of lines and text three times as large as one with a
    palette. Chunks as in the PNG specification (W3C, 2003): 8 bits, colour type 3, rows unfiltered.
    """
    height, width, _ = pixels.shape
    packed = pixels.astype(np.int32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.int32)
    found, place, counts = np.unique(packed, return_inverse=True, return_counts=True)
    colours = np.stack([found >> 16, found >> 8 & 255, found & 255], axis=1)
    palette = colours[np.argsort(-counts, kind="stable")[:PALETTE]]
    squares = (palette**2).sum(axis=1) - 2 * colours @ palette.T  # distance, less what is the same for all of a row
    index = squares.argmin(axis=1).astype(np.uint8)[place].reshape(height, width)
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each begins with the number of its filter: none
    rows[:, 1:] = index
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def _grid(frames: Sequence[Frame], columns: int, title: float) -> tuple[list[_Place], float, float]:
    """Place the charts in rows of `columns`, each row as high as its highest; return width and height of all."""
    wide = max(one.width for one in frames)
    places, y = [], 0.0
    for first in range(0, len(frames), columns):
        row = frames[first : first + columns]
        places += [_Place(number * (wide + _GAP), y + title) for number in range(len(row))]
        y += max(one.height for one in row) + title + (_GAP if title else 0.0)
    return places, columns * wide + (columns - 1) * _GAP, y


def _per_row(legend: Sequence[LegendEntry], width: float) -> int:
    longest = max((len(entry.label) for entry in legend), default=0)
    return max(1, min(len(legend), int(width // (longest * _LETTER + 52))))


def _colour(style: int) -> str:
    return LIGHT.series[colour_index(style)]


def _handle(entry: LegendEntry) -> Line2D | Patch:
    label = _plain(entry.label)
    if entry.fill:
        return Patch(facecolor=named(LIGHT, entry.fill), label=label)
    colour, shape = _colour(entry.style), mark(entry.style).matplotlib
    if entry.draw is Draw.RINGS:
        return Line2D([], [], color=colour, marker="o", markersize=7, fillstyle="none", linestyle="", label=label)
    if entry.draw is Draw.DOTS:
        return Line2D([], [], color=colour, marker="o", markersize=4, linestyle="", label=label)
    return Line2D(
        [], [], color=colour, marker="" if entry.draw is Draw.STROKE else shape, markersize=5,
        linestyle="" if entry.draw is Draw.MARKS else "-", label=label,
    )  # fmt: skip


def _plain(text: str) -> str:
    """Keep matplotlib from reading a dollar sign as mathematics."""
    return text.replace("$", r"\$")


def _chart(axes: Axes, chart: Chart, one: Frame, has_title: bool, panel: bool) -> None:
    for axis, scale in ((chart.x, axes.set_xscale), (chart.y, axes.set_yscale)):
        scale("log" if axis.spacing is Spacing.LOG else "linear")
    _axis(axes.xaxis, one.ticks(chart))
    _axis(axes.yaxis, chart.y.ticks)
    axes.set_xlim(chart.x.low, chart.x.high)
    axes.set_ylim(chart.y.low, chart.y.high)
    axes.tick_params(labelsize=6.5 if panel else 8.3, colors=_GREY, length=2)
    for axis, side in ((chart.x, axes.xaxis), (chart.y, axes.yaxis)):
        if not axis.bands:
            side.grid(color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for name in ("top", "right"):
        axes.spines[name].set_visible(False)
    if has_title:
        start = 0.0 if panel else -(one.left - 4) / one.plot_width
        between = "\n" if panel else "   " if chart.corner else ""
        text = f"{shortened(chart.title, 44)}{between}{chart.corner}"
        axes.set_title(_plain(text), fontsize=6.8 if panel else 8.3, loc="left", pad=3, x=start)
    if not panel:
        axes.set_xlabel(_plain(chart.x.label), fontsize=8.6)
        axes.set_ylabel(_plain(chart.y.label), fontsize=8.6)
        axes.yaxis.set_label_coords(-(one.left - 11) / one.plot_width, 0.5)
        axes.yaxis.label.set_verticalalignment("center")
    _furniture(axes, chart)
    for series in chart.back_to_front:
        _series(axes, series, panel)
    _remarks(axes, chart, panel)
    if not panel:
        for label in point_labels(chart, one.plot_width, one.plot_height):
            _label(axes, label, one)
        for label in roof_labels(chart, one.plot_width, one.plot_height):
            _label(axes, label, one)


def _axis(side: Side, ticks: Sequence[Tick]) -> None:
    side.set_major_locator(FixedLocator([tick.value for tick in ticks]))
    side.set_major_formatter(FixedFormatter([_plain(shortened(tick.label)) for tick in ticks]))
    side.set_minor_locator(NullLocator())


def _furniture(axes: Axes, chart: Chart) -> None:
    if chart.level is not None:
        axes.axhline(chart.level, color=LIGHT.ink, linewidth=0.9)
    for span in chart.spans:
        if span.low is not None or span.high is not None:
            low = chart.x.low if span.low is None else span.low
            high = chart.x.high if span.high is None else span.high
            axes.axvspan(low, high, color=_colour(span.style), alpha=0.13, linewidth=0)
        if span.at is not None:
            axes.axvline(span.at, color=_colour(span.style), linewidth=0.9, linestyle=":")
    _boxes(axes, chart)
    for roof in chart.roofs:
        colour, style = (LIGHT.ink, "-") if roof.measured else (_SOFT, ":") if roof.observed else (_GREY, "--")
        axes.plot([roof.x0, roof.x1], [roof.y0, roof.y1], color=colour, linewidth=1.2, linestyle=style)


def _boxes(axes: Axes, chart: Chart) -> None:
    if not chart.boxes:
        return
    corners = [((b.x0, b.y0), (b.x1, b.y0), (b.x1, b.y1), (b.x0, b.y1)) for b in chart.boxes]
    colours = [named(LIGHT, box.fill) for box in chart.boxes]
    axes.add_collection(
        PolyCollection(corners, facecolors=colours, edgecolors=LIGHT.surface, linewidths=0.8), autolim=False
    )
    for box, colour in zip(chart.boxes, colours, strict=True):
        if box.text:
            axes.text(
                (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2, _plain(box.text), ha="center", va="center",
                fontsize=7.2, color=text_on(colour),
            )  # fmt: skip


def _remarks(axes: Axes, chart: Chart, panel: bool) -> None:
    for remark in chart.remarks:
        axes.text(
            remark.x, remark.y, _plain(remark.text), ha=_ALIGN[remark.anchor], va="center",
            fontsize=6.5 if panel else 8, color=_SOFT, path_effects=_HALO, clip_on=False,
        )  # fmt: skip


def _label(axes: Axes, label: Label, one: Frame) -> None:
    axes.text(
        label.x / one.plot_width,
        1 - label.y / one.plot_height,
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
        size, alpha = (3.0, 0.3) if series.faint else (4.5, 1.0)
        axes.plot(x, y, ".", color=colour, markersize=size, alpha=alpha, markeredgewidth=0)
        return
    if series.draw is Draw.RINGS:
        axes.plot(x, y, "o", color=colour, markersize=8, fillstyle="none", markeredgewidth=1.3)
        return
    if series.band:
        at, low, high = zip(*series.band, strict=True)
        axes.fill_between(at, low, high, color=colour, alpha=0.14, linewidth=0)
    axes.plot(
        x,
        y,
        color=colour,
        marker="" if series.draw is Draw.STROKE else mark(series.style).matplotlib,
        markersize=2.6 if panel else 5,
        linewidth=1 if panel else 1.6,
        linestyle="" if series.draw is Draw.MARKS else "-",
        markeredgewidth=0,
    )
