"""Regimes over M: stretches of one class, where they change, and which single cells are merged."""

from itertools import pairwise

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.roofline.bounds import SERIES, Bound
from rooflens.analysis.roofline.regimes import regime_texts, regimes

from ..planted_frames import cell

MS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


def curve(classes, **what) -> pd.DataFrame:
    rows = [cell(1e-3, M=M, **what) | {"bound_class": name} for M, name in zip(MS, classes, strict=False)]
    return pd.DataFrame(rows)


def stretches(classes, **what):
    found = regimes(curve(classes, **what))
    return list(found[["bound_class", "first_M", "last_M", "cells", "merged"]].itertuples(index=False, name=None))


def test_the_curve_of_a_textbook():
    classes = ["launch"] * 4 + ["dram"] * 5 + ["compute"] * 3
    found = regimes(curve(classes))
    assert found["bound_class"].tolist() == ["launch", "dram", "compute"]
    assert found["last_M"].tolist() == [8, 256, 2048]
    assert found["changes_after_M"].tolist()[1:] == [8, 256]
    assert found["changes_by_M"].tolist()[1:] == [16, 512]
    assert found.loc[0, ["changes_after_M", "changes_by_M"]].isna().all()
    (text,) = regime_texts(found)["text"]
    assert text == "launch to M=8, dram to 256, compute from 512"


@pytest.mark.parametrize(
    "classes, text",
    [
        (["dram"] * 3, "dram throughout"),
        (["dram"], "dram at M=1"),
        (["dram", "compute"], "dram to M=1, compute from 2"),
    ],
)
def test_short_curves(classes, text):
    assert regime_texts(regimes(curve(classes)))["text"].tolist() == [text]


def test_a_flicker_joins_the_stretches_around_it_and_is_counted():
    assert stretches(["dram", "dram", "balanced", "dram"]) == [("dram", 1, 8, 4, 1)]
    assert stretches(["dram", "balanced", "dram", "dram"]) == [("dram", 1, 8, 4, 1)]


@pytest.mark.parametrize("outlier", ["unexplained", "impossible"])
def test_an_outlier_is_no_flicker(outlier):
    assert len(stretches(["dram", "dram", outlier, "dram", "dram"])) == 3


@pytest.mark.parametrize(
    "classes, count",
    [
        (["dram", "balanced", "dram"], 3),  # three single cells: which of them flickers is not to be told
        (["dram", "dram", "launch", "compute"], 3),  # between different stretches
        (["launch", "dram", "dram"], 2),  # at an end
        (["dram", "dram", "launch"], 2),
        (["dram", "dram", "l2", "l2", "dram", "dram"], 3),  # two cells are a stretch
        (["dram", "compute"] * 4, 8),
    ],
)
def test_what_is_not_merged(classes, count):
    assert len(stretches(classes)) == count


def test_curves_are_kept_apart_and_sorted_by_M():
    first, second = curve(["dram", "dram", "compute"]), curve(["launch", "dram"], provider="another")
    warm = curve(["llc", "llc"], cache="warm")
    mixed = pd.concat([first, second, warm]).sample(frac=1, random_state=1)
    texts = regime_texts(regimes(mixed)).set_index(["provider", "cache"])["text"].to_dict()
    assert texts == {
        ("simt_4bit", "cold"): "dram to M=2, compute from 4",
        ("another", "cold"): "launch to M=1, dram from 2",
        ("simt_4bit", "warm"): "llc throughout",
    }


def test_cells_without_a_class_are_left_out():
    assert stretches(["dram", "", "dram", "compute"]) == [("dram", 1, 4, 2, 0), ("compute", 8, 8, 1, 0)]
    assert regimes(curve(["", ""])).empty
    assert regime_texts(regimes(curve([""]))).empty


CLASSES = st.lists(st.sampled_from([*map(str, Bound)][:8]), min_size=1, max_size=len(MS))


@given(CLASSES)
def test_stretches_cover_the_curve_and_reading_it_backwards_changes_nothing(classes):
    found = stretches(classes)
    assert sum(row[3] for row in found) == len(classes)
    assert found[0][1] == 1
    assert found[-1][2] == MS[len(classes) - 1]
    assert all(later[1] == MS[MS.index(earlier[2]) + 1] for earlier, later in pairwise(found))
    backwards = stretches(classes[::-1])
    assert [(row[0], row[3], row[4]) for row in backwards] == [(row[0], row[3], row[4]) for row in found[::-1]]


def test_a_curve_is_told_by_the_columns_of_its_series():
    found = regime_texts(regimes(curve(["dram"])))
    assert found.columns.tolist() == [*SERIES, "role", "M_min", "M_max", "text"]
