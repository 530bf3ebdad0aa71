"""Names that somebody may have meant."""

import pytest
from rooflens.shapes import suite
from rooflens.shapes.errors import nearest, unknown_name


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("llm4bit-qick", ["llm4bit-quick"]),
        ("llm5bit", ["llm4bit"]),
        ("ao-linear-quik", ["ao-linear-quick"]),
        ("mxfp8-moe-weigted", ["mxfp8-moe-weighted", "mxfp8-moe-weighted-quick"]),
        ("zebra", []),
    ],
)
def test_only_what_is_close_is_suggested(typed, meant):
    assert nearest(typed, suite.names()) == meant


def test_names_that_are_equally_close_are_all_suggested():
    assert sorted(nearest("runs", ["run1", "run2", "other"])) == ["run1", "run2"]


def test_without_a_close_one_all_are_named():
    assert str(unknown_name("suite", "zebra", ["a", "b"])) == "unknown suite 'zebra': known: a, b"


def test_where_all_are_too_many_they_are_pointed_to():
    known = [f"name_{number}" for number in range(60)]
    assert str(unknown_name("provider", "zebra", known, "see the list")) == "unknown provider 'zebra': see the list"
    assert str(unknown_name("provider", "nam_7", known, "see the list")).startswith("unknown provider 'nam_7': did you")
