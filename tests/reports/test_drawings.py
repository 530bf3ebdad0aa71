"""Drawings show the data where it is, and the same value always gives the same bytes."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from rooflens.reports.figures import colours, svg
from rooflens.reports.figures.axes import bands, decade_axis, linear_axis, m_axis, position, with_room
from rooflens.reports.figures.chart import Box, Chart, Draw, LegendEntry, Point, Roof, Series
from rooflens.reports.figures.labels import LINE, point_labels, roof_labels
from rooflens.reports.figures.marks import COLOURS, GREY, colour_index
from rooflens.reports.formatting import tick_time
from rooflens.reports.render import figure_file

from .handmade import chart, figure

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("frame", [svg.PANEL, svg.SINGLE], ids=["panel", "single"])
def test_svg_is_well_formed_and_says_what_it_shows(frame):
    root = ElementTree.fromstring(svg.draw(chart(), frame))
    assert root.get("role") == "img"
    assert root.get("aria-label") == root.findtext("title") == "llama2-7b gate/up: simt_4bit is faster up to M~4"


def test_points_lie_where_the_axes_say():
    axis_x, axis_y = m_axis([1, 4, 16]), decade_axis(1e-6, 1e-4, tick_time, "time")
    plain = Chart("c", axis_x, axis_y, (Series("p", 1, (Point(1, 1e-6), Point(4, 1e-5), Point(16, 1e-4))),))
    path = re.search(r'class="l s1" d="M([^"]+)"', svg.draw(plain, svg.SINGLE))
    (x0, y0), (x1, y1), (x2, y2) = (map(float, pair.split()) for pair in path[1].split("L"))
    frame = svg.SINGLE
    assert y0 == frame.height - frame.bottom
    assert y2 == frame.top
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert frame.left < x0 < x2 < frame.width - frame.right


def test_open_interval_reaches_the_edge():
    span = replace(chart().spans[0], at=None, low=4.0, high=None)
    drawn = svg.draw(replace(chart(), spans=(span,)), svg.PANEL)
    (interval,) = re.findall(r'class="interval s1" d="M([\d.]+) [\d.]+H([\d.]+)', drawn)
    assert float(interval[1]) == svg.PANEL.width - svg.PANEL.right
    assert 'class="at' not in drawn


def test_dots_and_a_single_point_are_visible():
    dots = Series("d", 2, (Point(1, 1e-5), Point(2, 2e-5)), draw=Draw.DOTS, faint=True)
    one = Series("one", 1, (Point(2, 3e-5),))
    drawn = svg.draw(replace(chart(), series=(one, dots)), svg.PANEL)
    assert len(re.findall(r"h0", drawn)) == 3
    assert drawn.index("dots s2 faint") < drawn.index('class="l s1"')


def test_a_panel_of_eight_providers_and_twelve_m_is_small():
    """40 panels must stay near 100 kB."""
    sizes = [2**power for power in range(12)]
    lines = tuple(
        Series(f"provider_{style}", style, tuple(Point(m, 1e-5 * (1 + m / 50) * (1 + style)) for m in sizes))
        for style in range(8)
    )
    panel = replace(chart(), x=m_axis(sizes), y=decade_axis(1e-5, 1e-2, tick_time, "time"), series=lines)
    assert len(svg.draw(panel, svg.PANEL)) < 3500


def test_markers_exist_for_every_style():
    defined = set(re.findall(r'id="m(\d+)"', svg.marker_definitions()))
    assert {str(colour_index(style)) for style in range(20)} <= defined
    assert len(defined) == COLOURS
    assert len({colour_index(style) for style in range(GREY)}) == GREY
    assert colour_index(GREY + 5) == GREY


@pytest.mark.parametrize("panels", [1, 3])
def test_a_file_has_titles_legend_and_colours_of_both_schemes_and_loads_nothing(panels):
    told = replace(figure(panels=panels), alt='"<&>', legend=(LegendEntry("a < b\x00\u202e", fill="r12"),))
    drawn = figure_file.draw(told)
    assert drawn == figure_file.draw(told)
    root = ElementTree.fromstring(drawn)
    assert root.get("aria-label") == told.alt
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert "a < b[U+0000][U+202E]" in texts
    assert sum(text.startswith("shape ") for text in texts) == (panels if panels > 1 else 0)
    assert len(list(root.iter(f"{SVG}g"))) >= panels + 1
    style = root.findtext(f"{SVG}style")
    for theme in colours.THEMES:
        worst = colours.diverging(theme, -colours.STEPS)
        for name, colour in (("surface", theme.surface), ("s1", theme.series[1]), ("r12", worst)):
            assert f"--{name}:{colour}" in style
    assert b"script" not in drawn
    assert drawn.count(b"http") == 1  # the name space
    assert all(link.startswith("url(#m") for link in re.findall(r"url\([^)]*", style))


def test_level_roofs_are_labelled_left_of_the_ridge_apart_from_each_other():
    roofs = (Roof("measured", 4, 2e-5, 8, 2e-5), Roof("published", 4, 2.1e-5, 8, 2.1e-5, measured=False))
    measured, published = roof_labels(replace(chart(), roofs=roofs), 800, 400)
    assert measured.y - published.y >= LINE
    assert measured.x == published.x == pytest.approx(800 * position(chart().x, 4) - 10)
    narrow = roof_labels(replace(chart(), roofs=roofs), 90, 400)
    assert all(label.x == pytest.approx(90 * position(chart().x, 8)) for label in narrow)


def test_labels_stay_inside_and_clear_of_the_names_of_roofs():
    axes = (m_axis([1, 4096]), decade_axis(1e-6, 1e-4, tick_time, "t"))
    low = tuple(Series(f"p{n}", n, (Point(2, 1.01e-6, label=f"label {n}"),)) for n in range(6))
    assert max(label.y for label in point_labels(Chart("c", *axes, low), 800, 400)) <= 394
    roof = Roof("a limit with a long name, measured", 1, 3e-5, 4096, 3e-5)
    chart = Chart("c", *axes, (Series("p", 1, (Point(600, 3.3e-5, label="p M=600"),)),), (roof,))
    (name,), (label,) = roof_labels(chart, 800, 400), point_labels(chart, 800, 400)
    start = label.x - 8 * len(label.text) if label.end else label.x
    is_beside = start >= name.x or start + 8 * len(label.text) <= name.x - 8 * len(name.text)
    assert is_beside or abs(label.y - name.y) >= LINE


def plain(series=(), **more):
    square = linear_axis(0.0, 10.0, lambda value: f"{value:g}", "")
    return Chart("c", square, square, series, **more)


def test_boxes_lie_where_the_axes_say_and_are_joined_where_nothing_tells_them_apart():
    row = [Box(x, x + 1, 4, 6, "k-dram", "D") for x in range(3)] + [Box(3, 4, 4, 6, "k-launch", "S")]
    drawn = svg.draw(plain(boxes=tuple(row)), svg.SINGLE)
    rectangles = re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H[\d.]+z", drawn)
    assert len(rectangles) == 2
    frame, (left, top, right, bottom) = svg.SINGLE, map(float, rectangles[0])
    assert left == frame.left
    assert right == pytest.approx(frame.left + 0.3 * frame.plot_width, abs=0.1)
    assert (top, bottom) == pytest.approx(
        [frame.top + 0.4 * frame.plot_height, frame.top + 0.6 * frame.plot_height], abs=0.1
    )
    assert ">DDDS</text>" in drawn  # letters of a row in one element, each at its own x


def test_bands_have_no_grid_lines_and_a_tick_at_the_right_end_is_not_cut():
    wide = linear_axis(0.0, 10.0, lambda value: "a long label" if value == 10 else "", "")
    drawn = svg.draw(replace(plain(), x=wide, y=bands(["a", "b"], down=True)), svg.PANEL)
    (grid,) = re.findall(r'class="grid" d="([^"]*)"', drawn)
    assert ("H" in grid, "V" in grid) == (False, True)
    assert 'class="ty" x="236"' in drawn


def test_what_is_named_can_be_pointed_at_and_is_escaped():
    named = Series("p", 1, (Point(1, 5, "<point>"),))
    drawn = svg.draw(plain((named,), boxes=(Box(0, 1, 0, 1, "s2", "<b>", name="<script>"),)), svg.SINGLE)
    assert [title.text for title in ElementTree.fromstring(drawn).iter("title")][1:] == ["<script>", "<point>"]
    assert "<b>" not in drawn
    assert "--f:var(--s2)" in drawn
    hostile = svg.draw(replace(chart(), alt='"><script>alert(1)</script>'), svg.PANEL)
    assert ElementTree.fromstring(hostile).findtext("title") == '"><script>alert(1)</script>'
    for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", hostile):  # and nothing is outside the frame
        assert 0 <= float(x) <= svg.PANEL.width
        assert 0 <= float(y) <= svg.PANEL.height


def test_rings_marks_and_strokes_are_told_apart():
    points = (Point(1, 1), Point(5, 5))
    kinds = (Draw.RINGS, Draw.MARKS, Draw.STROKE)
    rings, marks, stroke = (svg.draw(plain((Series("p", 1, points, draw),)), svg.SINGLE) for draw in kinds)
    assert rings.count('<circle class="ring s1"') == 2
    assert re.search(r'class="l s1 bare" d="M[\d. ]+h0M[\d. ]+h0"', marks)
    assert re.search(r'class="l s1 plain" d="M[\d. ]+L[\d. ]+"', stroke)


@pytest.mark.parametrize(
    "entry, part",
    [
        (LegendEntry("a", 1), 'class="l s1" d="M1 5H15H29"'),
        (LegendEntry("a", 1, Draw.RINGS), "<circle"),
        (LegendEntry("a", 1, Draw.MARKS), "bare"),
        (LegendEntry("a", 1, Draw.DOTS), 'class="dots s1"'),
        (LegendEntry("a", fill="k-dram"), "--f:var(--k-dram)"),
    ],
)
def test_a_legend_shows_what_is_drawn(entry, part):
    assert part in svg.swatch(entry)


def test_strips_stand_above_each_other_and_maps_beside():
    def size(*charts):
        root = ElementTree.fromstring(figure_file.draw(replace(figure(panels=1), charts=charts)))
        return float(root.get("width")), float(root.get("height"))

    low = replace(plain(), height=0.2)
    width, height = size(low, low)
    assert height < width
    narrow = replace(plain(), x=bands(["1", "2", "3"]), y=bands(["a"] * 10, down=True))
    assert size(narrow, narrow)[1] < size(narrow)[1] + 30 < 400


def slanted(*rates):
    """Roofs of `rates` through a plot of 800 x 400 pixels in which a factor of 10 is 133 pixels high."""
    roofs = tuple(Roof(f"roof of {rate:g} byte/s, measured", 1, rate, 1000, 1000 * rate) for rate in rates)
    axes = (decade_axis(1, 1000, str, ""), decade_axis(1e-6, 1e-3, tick_time, "t"))
    return roof_labels(Chart("c", *axes, (), roofs), 800, 400)


def test_roofs_that_are_near_share_a_label_and_those_apart_do_not():
    (both,) = slanted(1e-6, 1.1e-6)
    assert both.text == "roof of 1e-06 byte/s, measured · roof of 1.1e-06 byte/s, measured"
    apart = slanted(1e-6, 5e-6)
    assert [label.text for label in apart] == ["roof of 1e-06 byte/s, measured", "roof of 5e-06 byte/s, measured"]


def test_a_third_near_roof_is_named_further_along_or_not_at_all():
    labels = slanted(1e-6, 1.1e-6, 1.2e-6, 1.3e-6)
    assert 1 <= len(labels) < 4
    ends = [label.x + 7.0 * len(label.text) * np.cos(np.radians(label.turn)) for label in labels]
    assert all(end <= 800 for end in ends)
    assert all(end <= later.x for end, later in zip(ends, labels[1:], strict=False))


def test_labels_keep_the_order_of_their_points():
    """A roof is where the upper label would be, so that it moves down: the lower one must not take the room above."""
    upper = Series("u", 1, (Point(2, 2e-5, label="upper"), Point(64, 1.6e-4)))
    lower = Series("l", 2, (Point(2, 1.84e-5, label="lower"), Point(64, 1.47e-4)))
    roof = Roof("", 1.2, 9.1e-6, 2.6, 1.98e-5)
    axes = (with_room(m_axis([2, 64]), 10, 10), decade_axis(1e-6, 1e-3, tick_time, "t"))
    placed = sorted(point_labels(Chart("c", *axes, (upper, lower), (roof,)), 800, 400), key=lambda label: label.y)
    assert [label.text for label in placed] == ["upper", "lower"]
