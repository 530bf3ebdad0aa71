"""Tables of public repositories: of what was found wrong with them by hand, what is found, and nothing else is.

`missed` are faults that no rule finds yet; they count against the recall.
"""

import tomllib
from collections import Counter

import pytest

from .helpers import PUBLISHED, audited

TABLES = tomllib.loads((PUBLISHED / "public" / "tables.toml").read_text(encoding="utf-8"))["table"]


def findings(table):
    """Return how often each rule found something at each line of the text."""
    text = table["text"].lstrip("\n")
    result = audited(text, table.get("device", ""), dtype=table.get("dtype", ""))
    assert result.rows >= 2
    return Counter(f"{one.rule} {one.line}" for one in result.findings)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["source"])
def test_a_public_table(table):
    assert findings(table) == Counter(table["expected"]), table["why"]


def test_precision_and_recall_over_all_tables():
    found = [findings(table) for table in TABLES]
    expected = [Counter(table["expected"]) for table in TABLES]
    right = sum((one & truth).total() for one, truth in zip(found, expected, strict=True))
    precision = right / sum(one.total() for one in found)
    recall = right / (sum(truth.total() for truth in expected) + sum(len(table.get("missed", [])) for table in TABLES))
    assert precision >= 0.95
    assert recall >= 0.85
