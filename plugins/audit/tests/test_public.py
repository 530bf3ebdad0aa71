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
