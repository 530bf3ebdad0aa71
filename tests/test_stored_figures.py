"""The figures of the docs that follow from stored runs are what a script computes from them."""

from pathlib import Path

import pytest
from stored_figures import figures
from stored_timers import rows

ROOT = Path(__file__).parents[1]

FACTS = ROOT / "docs" / "measured-facts.md"


@pytest.mark.slow
def test_the_docs_say_what_the_stored_runs_say():
    text = " ".join(FACTS.read_text("utf-8").split())
    found = list(figures())
    assert len(found) >= 21
    assert [figure for figure in found if figure not in text] == []


def test_the_tables_on_timers_are_what_the_benchmarks_printed():
    text = FACTS.read_text("utf-8").splitlines()
    found = list(rows())
    assert len(found) == 11 + 5 + 6 + 8 + 7
    assert [row for row in found if row not in text] == []
