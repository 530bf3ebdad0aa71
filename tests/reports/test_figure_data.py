"""The numbers behind a figure: as CSV, as a link, and no more of them than a page can hold."""

import base64
import csv
import io
import math
from dataclasses import replace
from urllib.parse import unquote

import pytest
from rooflens.reports.figures.chart import Data
from rooflens.reports.model import Report, Section
from rooflens.reports.render import html
from rooflens.reports.render import html as figure_data

from .handmade import figure

ODD = Data(
    ("provider", "time_s", "note"),
    (("a,b", 1.5e-6, 'say "x"'), ("é ÷", math.nan, None), ("line\nbreak", 123456789.123, "#%&?+")),
)


def read_back(link: str) -> str:
    head, _, body = link.partition(",")
    return base64.b64decode(body).decode() if head.endswith("base64") else unquote(body)


def test_csv_round_trips_and_leaves_the_unknown_empty():
    rows = list(csv.reader(io.StringIO(ODD.csv())))
    assert rows == [
        ["provider", "time_s", "note"],
        ["a,b", "1.5e-06", 'say "x"'],
        ["é ÷", "", ""],
        ["line\nbreak", "123456789", "#%&?+"],
    ]


@pytest.mark.parametrize("data", [ODD, Data(("n",), tuple((n,) for n in range(500)))], ids=["text", "numbers"])
def test_a_link_holds_the_same_csv(data):
    link = figure_data.data_uri(data)
    assert link.startswith("data:text/csv;charset=utf-8")
    assert read_back(link) == data.csv()
    assert " " not in link
    assert '"' not in link


def test_links_stay_within_the_room_of_a_page():
    large = Data(("n",), tuple((n,) for n in range(20_000)))
    medium = Data(("n",), tuple((n,) for n in range(5_000)))
    figures = [replace(figure(f"f{n}"), data=medium) for n in range(20)] + [replace(figure("large"), data=large)]
    found = figure_data.links(figures)
    assert "large" not in found
    assert list(found) == [f"f{n}" for n in range(len(found))]  # the first ones of the page
    assert 1 < len(found) < 20
    assert sum(map(len, found.values())) <= figure_data.MOST_TOGETHER


def test_a_page_links_small_data_and_says_where_large_data_is():
    small, large = Data(("n",), ((1,), (2,))), Data(("n",), tuple((n,) for n in range(20_000)))
    figures = (
        replace(figure("small"), data=small), replace(figure("large"), data=large), replace(figure("none"), data=None),
    )  # fmt: skip
    page = html.render(Report("r", (), (Section("s", "S", figures),), "g"))
    assert page.count('download="small.csv" href="data:text/csv') == 1
    assert "(2 rows)" in page
    assert "rooflens report -o FILE.md writes them to figures/FILE-large.csv" in page
    assert "none.csv" not in page
