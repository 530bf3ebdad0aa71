"""Axes that are not logarithmic, and drawings as large as what they hold."""

import pytest
from rooflens.reports.figures.axes import band, bands, elapsed_axis, linear_axis, position, size_axis
from rooflens.reports.figures.chart import Axis, Chart, Spacing
from rooflens.reports.figures.frames import COLUMN, LONGEST, ROW, SINGLE, frame, shortened
from rooflens.reports.formatting import tick_share


def test_a_linear_axis_has_round_ticks_and_may_reach_below_zero():
    axis = linear_axis(-0.07, 1.0, tick_share, "share")
    assert [tick.label for tick in axis.ticks] == ["0%", "50%", "100%"]
    assert position(axis, -0.07) == 0
    assert position(axis, 0.465) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "seconds, labels",
    [
        (4, ["0", "1 s", "2 s", "3 s", "4 s"]),
        (75, ["0", "10 s", "20 s", "30 s", "40 s", "50 s", "1 min", "1:10 min"]),
        (3 * 3600, ["0", "30 min", "1 h", "1:30 h", "2 h", "2:30 h", "3 h"]),
        (14 * 86400, ["0", "48 h", "96 h", "144 h", "192 h", "240 h", "288 h", "336 h"]),
    ],
)
def test_elapsed_time_has_ticks_at_whole_units(seconds, labels):
    assert [tick.label for tick in elapsed_axis(seconds, "time").ticks] == labels


def test_sizes_of_a_scan_have_ticks_at_multiples_of_a_power_of_two():
    axis = size_axis(range(2048, 6145, 64), "N")
    assert [tick.value for tick in axis.ticks] == [2048 + 512 * n for n in range(9)]
    assert position(axis, 2048) > 0


def test_bands_run_from_the_left_or_from_the_top():
    across, down = bands(["a", "b", "c"]), bands(["a", "b", "c"], down=True)
    assert [(tick.label, tick.value) for tick in across.ticks] == [("a", 0.5), ("b", 1.5), ("c", 2.5)]
    assert [(tick.label, tick.value) for tick in down.ticks] == [("a", 2.5), ("b", 1.5), ("c", 0.5)]
    assert down.bands == 3
    assert band(3, 0, down=True) == 2


def test_an_axis_that_is_empty_is_refused():
    with pytest.raises(ValueError, match="low < high"):
        Axis("x", 1.0, 1.0, (), Spacing.LINEAR)
    with pytest.raises(ValueError, match="0 < low < high"):
        Axis("time", 0.0, 1.0, ())


def test_a_map_is_as_large_as_its_bands_and_a_strip_as_low_as_it_says():
    rows, columns = bands([f"row {n}" for n in range(40)], down=True), bands(["1", "2"], "M")
    drawn = frame(Chart("map", columns, rows, ()))
    assert drawn.plot_height == 40 * ROW
    assert drawn.plot_width == pytest.approx(2 * COLUMN)
    strip = frame(Chart("strip", linear_axis(0, 1, str, ""), linear_axis(0, 1, str, ""), (), height=0.25))
    assert strip.plot_height == pytest.approx(SINGLE.plot_height / 4)
    assert strip.width == SINGLE.width


def test_long_labels_leave_room_and_are_cut_in_their_middle():
    long = "model/" + "x" * 300 + " down"
    wide = frame(Chart("map", bands(["1"]), bands([long], down=True), ()))
    assert wide.left < 300
    assert len(shortened(long)) == LONGEST
    assert shortened(long).startswith("model/xx")
    assert shortened(long).endswith("x down")
    assert shortened("short  name") == "short name"
