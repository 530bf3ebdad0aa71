"""The figures of the docs that follow from stored runs are what a script computes from them."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
from stored_figures import figures  # noqa: E402

FACTS = ROOT / "docs" / "measured-facts.md"


@pytest.mark.slow
def test_the_docs_say_what_the_stored_runs_say():
    text = " ".join(FACTS.read_text("utf-8").split())
    found = list(figures())
    assert len(found) >= 21
    assert [figure for figure in found if figure not in text] == []
