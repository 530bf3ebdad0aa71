"""A tuning table that was written and read back."""

import pytest
from rooflens.analysis.frames.tables import parse_table
from rooflens.shapes.run_folder.columns import TUNING

from ..synthetic import write_table


@pytest.fixture
def frame(tmp_path):
    """Return `frame(*found)`: the table of these rows, or lists of rows, written and read back as the command does."""

    def call(*found):
        write_table(tmp_path, TUNING, [row for one in found for row in (one if isinstance(one, list) else [one])])
        path = tmp_path / TUNING.file
        return parse_table(path.read_bytes(), TUNING, str(path))

    return call
