"""The widths that the documentation promises are those of the stored runs."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))
from interval_widths import table  # noqa: E402


@pytest.mark.parametrize("run", ["cpu-llm4bit-quick", "h200-fleet", "h200-roof"])
def test_the_table_of_expected_widths_is_that_of_the_stored_run(run):
    row = table([ROOT / "docs/results" / run])[-1]
    assert row in (ROOT / "docs/measuring.md").read_text()
