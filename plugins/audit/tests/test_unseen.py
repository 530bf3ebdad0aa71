"""Public tables that the audit was not run on before their faults were written down: how many it finds today.

A finding is right if it names a fault at its line, and neither at the `open` lines, for the reason in `why`.
"""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from .helpers import PUBLISHED, audited

TODAY = {
    "first": (26, 26, 19, 29),
    "second": (14, 14, 9, 13),
    "third": (11, 11, 9, 10),
    "fourth": (8, 8, 6, 8),
    "fifth": (25, 25, 18, 32),
    "sixth": (14, 14, 11, 15),
    "seventh": (22, 22, 9, 9),
    "eighth": (4, 4, 3, 6),
    "ninth": (36, 36, 23, 32),
    "tenth": (32, 32, 24, 43),
    "eleventh": (78, 81, 35, 72),
}
"""Set: findings that are right, all findings; faults that are found, all faults."""

FIGURE = {"above-bandwidth", "above-peak", "does-not-follow", "pattern", "percent-of-peak", "ratio-label"}

SHOWN_BY = (FIGURE, {"pattern", "does-not-follow", "repeated-rows", "copied-numbers"})
"""Rules that name a wrong figure, and those that name a duplicate."""

PAGE = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def score(name):
    """Audit every table and every copy with a planted mistake.

    Of a copy only the mistake counts, and the findings that the table itself does not have.
    """
    total = [0, 0, 0, 0]
    for table in tomllib.loads((PUBLISHED / "unseen" / f"{name}.toml").read_text(encoding="utf-8"))["table"]:
        text = table["text"].lstrip("\n")
        own = findings(table, text)
        judge(total, table, own, table["faults"])
        for mistake in table.get("planted", []):
            assert text.count(mistake["was"]) == 1, mistake
            judge(total, table, findings(table, text.replace(mistake["was"], mistake["now"])) - own, [mistake])
    return tuple(total)


def findings(table, text):
    result = audited(text, table.get("device", ""), dtype=table.get("dtype", ""))
    return Counter((finding.line, finding.rule, finding.message) for finding in result.findings)


def judge(total, table, found, faults):
    def shown(line, rule):
        return [fault for fault in faults if line in fault["lines"] and rule in SHOWN_BY[fault["kind"] == "duplicate"]]

    told = {(line, rule): shown(line, rule) for line, rule, _ in found}
    counted = [told[line, rule] for line, rule, _ in found.elements()]
    open_ = [
        not fits and line in table.get("open", []) for (line, *_), fits in zip(found.elements(), counted, strict=True)
    ]
    total[0] += sum(map(bool, counted))
    total[1] += len(counted) - sum(open_)
    total[2] += sum(any(fault in fits for fits in counted) for fault in faults)
    total[3] += len(faults)


@pytest.mark.parametrize("name", TODAY)
def test_what_is_found_in_unseen_tables(name):
    assert score(name) == TODAY[name]


def test_the_page_says_what_is_found_today():
    rows = re.findall(r"^\| (\w+) \| .*\| (\d+) of (\d+) \| (\d+) of (\d+) \|$", PAGE, re.MULTILINE)
    assert {name: tuple(map(int, counts)) for name, *counts in rows} == TODAY
