"""The widths that the documentation promises are those of the stored runs."""

from pathlib import Path

import pytest
from interval_widths import table

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("run", ["cpu-llm4bit-quick", "h200-llm4bit-quick", "h200-w4a16-models", "h200-ao-grouped"])
def test_the_table_of_expected_widths_is_that_of_the_stored_run(run):
    row = table([ROOT / "docs/results" / run])[-1]
    assert row in (ROOT / "docs/statistics.md").read_text()
