"""Cells as short as they can be, and columns sorted by their raw values whatever they show."""

import math

import pytest
from rooflens.reports.model import Column, Scale, Table, TableCell, Tone
from rooflens.reports.render.html_table import attributes, header_attributes, sort_kind, table_attributes


@pytest.mark.parametrize(
    "scale, cell, expected",
    [
        (Scale.DIVERGING, TableCell("8×", 8, 3.0), " class=g12"),
        (Scale.DIVERGING, TableCell("0.5×", 0.5, -1.0), " class=r4"),
        (Scale.DIVERGING, TableCell("~1.0×", 1, 0.0, tone=Tone.UNDECIDED), ' class="g0 u"'),
        (Scale.DIVERGING, TableCell("oom", tone=Tone.FAILED), " class=f"),
        (Scale.DIVERGING, TableCell("?", math.nan, math.nan), ""),
        (Scale.SEQUENTIAL, TableCell("50%", 0.5, 0.5), " class=q6"),
        (Scale.BAR, TableCell("130%", 1.3, 1.3), " class=v50"),
        (Scale.NONE, TableCell("x"), ""),
    ],
)
def test_colour_follows_the_scale_of_the_column(scale, cell, expected):
    assert str(attributes(Column("c", scale=scale), cell)) == expected


def test_alignment_is_said_once_per_table():
    columns = (Column("shape", is_text=True), Column("time"), Column("class", is_text=True))
    table = Table("t", "T", columns, ((TableCell("a"), TableCell("1"), TableCell("b")),))
    assert str(table_attributes(table)) == ' class="t0 t2"'
    assert str(attributes(columns[0], TableCell("a"), 0)) == ""
    assert str(attributes(columns[0], TableCell("x" * 29), 0)) == " class=wr"
    assert str(attributes(columns[0], TableCell("a"), 16)) == " class=lt"


def column(*cells, footer=0):
    return Table("t", "T", (Column("c"),), tuple((cell,) for cell in cells), footer=footer)


@pytest.mark.parametrize(
    "cells, expected",
    [
        ([TableCell("−2.45", -2.45), TableCell("+1.80", 1.8), TableCell("0.00", 0.0)], "n"),
        ([TableCell("950.00 µs", 950e-6), TableCell("1.234 ms", 1.234e-3), TableCell("2.50 µs", 2.5e-6)], "120"),
        ([TableCell("~1.0×", 1.04), TableCell("1.02×", 1.02), TableCell("1.03×", 1.03)], "201"),
        ([TableCell("2.0×", 2.0), TableCell("oom", tone=Tone.FAILED), TableCell("1.0×", 1.0)], "n"),
        ([TableCell("2.0×", 2.0), TableCell("3 rounds missing"), TableCell("1.0×", 1.0)], "1-0"),
        ([TableCell("2.0×", 2.0), TableCell("unknown", math.nan), TableCell("1.0×", 1.0)], "n"),
        ([TableCell("∞×", math.inf), TableCell("3.0×", 3.0), TableCell("1.0×", 1.0)], "210"),
        ([TableCell("b"), TableCell("a"), TableCell("c")], "t"),
        ([TableCell("512×2048"), TableCell("4096×4096"), TableCell("512×2048")], "t"),
        ([TableCell("same"), TableCell("same"), TableCell("same")], ""),
        ([TableCell("[2.8, 2.9] µs"), TableCell("[1.0, 1.1] ms"), TableCell("")], ""),
        ([TableCell("2.0×", 2.0), TableCell("1.0×", 1.0)], ""),
    ],
)
def test_a_column_is_sorted_by_what_it_shows_where_that_has_the_order_of_its_values(cells, expected):
    assert sort_kind(column(*cells), 0) == expected


def test_lines_that_sum_up_are_not_sorted():
    cells = [TableCell("3", 3), TableCell("1", 1), TableCell("2", 2), TableCell("40", 0.5)]
    assert sort_kind(column(*cells, footer=1), 0) == "n"
    assert sort_kind(column(*cells), 0) == "3120"


def test_ranks_are_as_long_as_each_other():
    values = [float((7 * index) % 50) for index in range(50)]
    ranks = sort_kind(column(*(TableCell("~", value) for value in values)), 0)
    assert [int(ranks[at : at + 2], 36) for at in range(0, 100, 2)] == values


def test_the_header_carries_what_its_column_is_sorted_by():
    table = column(TableCell("1", 1), TableCell("2", 2), TableCell("3", 3))
    assert str(header_attributes(table, 0)) == " data-s=n"
