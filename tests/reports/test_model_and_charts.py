"""The report tree refuses what no renderer could show, and numbers its footnotes once."""

import pytest
from rooflens.reports.figures.axes import decade_axis, m_axis, octave_axis, position, time_axis
from rooflens.reports.figures.chart import Data
from rooflens.reports.formatting import tick_ratio, tick_time
from rooflens.reports.model import Column, Report, Section, Table, TableCell, Text, explained

from .handmade import OOM, TIE, report


def test_notes_are_numbered_once_in_order_of_first_use():
    tree = report()
    assert tree.notes == {TIE: 1, OOM: 2}
    assert [*tree.notes_of(tree.sections[1])] == [1, 2]
    assert tree.notes_of(tree.sections[2]) == {}


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="a row of 1 cells under 2 columns"):
        Table("t", "T", (Column("a"), Column("b")), ((TableCell("1"),),))
    with pytest.raises(ValueError, match="a row of 1 values under the columns a, b"):
        Data(("a", "b"), ((1,),))


def test_an_anchor_stands_once():
    twice = (Section("same", "A", (Text("x"),)), Section("other", "B", (), (Section("same", "C"),)))
    with pytest.raises(ValueError, match="anchor 'same' appears twice"):
        Report("r", (), twice, "g")


def test_m_axis_ticks_every_m_and_labels_few_of_them_the_last_included():
    axis = m_axis([1, 2, 4, 8, 16, 32, 64, 128, 256])
    assert [tick.value for tick in axis.ticks] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert [tick.label for tick in axis.ticks if tick.label] == ["1", "4", "16", "64", "256"]
    assert m_axis([7]).low < 7 < m_axis([7]).high
    assert position(m_axis([7]), 7) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "low, high, labels",
    [
        (1e-6, 1e-3, ["1 µs", "10 µs", "100 µs", "1 ms"]),
        (8e-6, 60e-6, ["10 µs", "20 µs", "30 µs", "50 µs"]),
        (8e-6, 90e-6, ["10 µs", "20 µs", "50 µs"]),
        (30e-6, 45e-6, ["30 µs", "40 µs"]),
    ],
)
def test_decade_axis_labels(low, high, labels):
    assert [tick.label for tick in decade_axis(low, high, tick_time, "t").ticks] == labels


def test_panels_share_the_height_of_a_decade():
    narrow, wide = time_axis(10e-6, 20e-6, 2.0), time_axis(1e-3, 90e-3, 2.0)
    assert position(narrow, 1e-4) - position(narrow, 1e-5) == pytest.approx(position(wide, 1e-2) - position(wide, 1e-3))


def test_octave_axis_has_powers_of_two():
    assert [tick.label for tick in octave_axis(0.2, 5, tick_ratio, "r").ticks] == ["1/4×", "1/2×", "1×", "2×", "4×"]


def test_definitions_say_which_tables_they_are_of_where_tables_of_one_title_differ():
    def table(title, how):
        return Table("t", title, (), (), how_to_read=how)

    def leads(*sections):
        parts = tuple(Section(name, name, tuple(tables)) for name, tables in sections)
        (block,) = explained(Section("all", "All", (), parts)).blocks
        return [item.rpartition(": ")[0] for item in block.items]

    assert leads(("fwd", [table("a", "2 M N K")]), ("bwd", [table("a", "2 M N K")])) == [""]
    assert leads(("fwd", [table("a", "times"), table("b", "ratios")])) == ["a", "b"]
    found = leads(
        ("fwd", [table("a", "2 M N K"), table("b", "2 M N K")]), ("bwd", [table("a", "6 M N K"), table("b", "6 M N K")])
    )
    assert found == ["fwd, a; fwd, b", "bwd, a; bwd, b"]
