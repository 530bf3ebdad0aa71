"""Weights from a histogram of M."""

import pandas as pd
import pytest
from rooflens.plugins.dispatch.weights import parse_histogram, weigh
from rooflens.shapes.errors import UsageError

from .planted import plant_timings


def totals(table, column):
    return pd.Series(table.weights).groupby(table.cases[column]).sum().to_dict()


def test_an_M_counts_as_the_next_measured_one_and_the_rest_as_the_largest():
    table = plant_timings(lambda case, arm: 1e-5, Ms=(1, 4, 16))
    weighed = weigh(table, {1: 2.0, 2: 1.0, 4: 1.0, 5: 3.0, 16: 1.0, 17: 1.0, 4096: 1.0})
    assert totals(weighed, "M") == pytest.approx({1: 0.2, 4: 0.2, 16: 0.6})
    assert weighed.notes == ("20% of the histogram's weight is at M above the largest measured, and counts as that",)
    assert totals(table, "M") == pytest.approx({1: 1 / 3, 4: 1 / 3, 16: 1 / 3})


def test_every_shape_weighs_the_same_however_many_M_it_has():
    def seconds(case, arm):
        return float("nan") if case["N"] == 512 and case["M"] > 1 else 1e-5

    weighed = weigh(plant_timings(seconds, Ms=(1, 4, 16)), {1: 1.0, 16: 1.0})
    assert totals(weighed, "shape") == pytest.approx(dict.fromkeys(range(8), 1 / 8))


def test_a_histogram_is_read():
    content = b"\xef\xbb\xbfM,weight,remark\n1,0.5,decode\n8,2,\n1,0.5,\n"
    assert parse_histogram(content, "w.csv") == {1: 1.0, 8: 2.0}


@pytest.mark.parametrize(
    "content, words",
    [
        (b"m,weight\n1,1\n", "w.csv line 1: column 'M' is missing"),
        (b"M,weight\n1,1\n2,x\n", "w.csv line 3: '2','x'"),
        (b"M,weight\n0,1\n", "M must be 1 or more"),
        (b"M,weight\n1,-1\n", "the weight 0 or more"),
        (b"M,weight\n1,inf\n", "line 2"),
        (b"M,weight\n1\n", "line 2"),
        (b"M,weight\n1,0\n", "no row has a weight above 0"),
        (b"\xff\xfe", "not a text file"),
        (b"", "column 'M' is missing"),
    ],
)
def test_a_broken_histogram_is_a_usage_error(content, words):
    with pytest.raises(UsageError, match=words):
        parse_histogram(content, "w.csv")
