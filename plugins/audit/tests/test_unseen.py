"""Public tables that the audit was not run on before their faults were written down: how many it finds today."""

import re
from pathlib import Path

import pytest

from .unseen import knowable, score

TODAY = {
    "first": (28, 28, 21, 29),
    "second": (18, 18, 11, 15),
    "third": (11, 11, 9, 12),
    "fourth": (8, 8, 6, 8),
    "fifth": (34, 34, 28, 37),
    "sixth": (17, 17, 13, 17),
    "seventh": (22, 22, 9, 14),
    "eighth": (6, 6, 4, 8),
    "ninth": (38, 41, 25, 58),
    "tenth": (36, 37, 27, 59),
    "eleventh": (89, 100, 42, 98),
}
"""Set: findings that are right, all findings; faults that are found, all faults."""

PAGE = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TODAY)
def test_what_is_found_in_unseen_tables(name):
    assert score(name).counts == TODAY[name]


def test_the_page_says_what_is_found_today():
    rows = re.findall(r"^\| (\w+): .*\| (\d+) of (\d+), (\d+) of (\d+) \|$", PAGE, re.MULTILINE)
    assert {name: tuple(map(int, counts)) for name, *counts in rows} == TODAY


def test_the_page_says_what_can_be_found():
    for name in ("ninth", "tenth", "eleventh"):
        assert f"{knowable(name)} of the {TODAY[name][3]}" in PAGE
