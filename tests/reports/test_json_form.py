"""JSON: raw values beside shown texts, no NaN, keys in one order, everything that the page shows."""

import json
import math
from dataclasses import replace

from rooflens.reports.figures.chart import Data
from rooflens.reports.model import Column, Report, Section, Table, TableCell, Text
from rooflens.reports.render import json_form

from .handmade import figure, report


def blocks(tree, kind):
    """All blocks of a kind in reading order."""

    def walk(sections):
        for section in sections:
            yield from (block for block in section["blocks"] if block["kind"] == kind)
            yield from walk(section["sections"])

    return list(walk(tree["sections"]))


def test_a_figure_has_its_finding_and_its_data():
    data = Data(("M", "time_s"), ((1, 1e-5), (8, math.nan), (9, math.inf), (10, None)))
    tree = Report("r", (), (Section("s", "S", (replace(figure(), data=data), figure("bare"))),), "g")
    told, bare = blocks(json.loads(json_form.render(tree)), "figure")
    assert told["finding"] == "simt_4bit is faster at small M"
    assert told["data"] == {"columns": ["M", "time_s"], "rows": [[1, 1e-5], [8, None], [9, None], [10, None]]}
    assert bare["data"] is None


def test_nothing_that_is_not_json():
    cells = tuple(TableCell(text, value) for text, value in (("", math.nan), ("> 32", math.inf), ("< 1", -math.inf)))
    table = Table("t", "T", tuple(Column(str(number)) for number in range(3)), (cells,))
    tree = Report("r", (), (Section("s", "S", (table, Text("\ud800 half"))),), "g")
    written = json_form.render(tree)

    def refuse(constant):
        raise AssertionError(constant)

    (found,) = blocks(json.loads(written.encode("utf-8"), parse_constant=refuse), "table")
    assert [cell["value"] for cell in found["rows"][0]] == [None, None, None]
    assert [cell["text"] for cell in found["rows"][0]] == ["", "> 32", "< 1"]


def test_a_row_is_a_line_and_keys_stand_in_one_order():
    written = json_form.render(report())
    assert sum(line.lstrip().startswith('[{"text": ') for line in written.splitlines()) == 6
    assert json_form.render(report()) == written
    assert list(json.loads(written)) == [
        *("form", "title", "facts", "coverage", "generator", "source", "notes", "sections")
    ]


def test_ascii_is_ascii_and_says_the_same():
    assert json_form.render(report(), ascii_only=True).isascii()
    assert json.loads(json_form.render(report(), ascii_only=True)) == json.loads(json_form.render(report()))
