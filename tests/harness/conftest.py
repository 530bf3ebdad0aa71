"""Fixtures of the tests of merging: a run, and the shards that it was split into."""

import pytest

from ..analysis.synthetic import write_run
from .sharded import SMALL, split


@pytest.fixture
def whole(tmp_path):
    return write_run(tmp_path / "whole", **SMALL)


@pytest.fixture
def halves(whole, tmp_path):
    """Shards "1" and "8": the two M."""
    return split(whole, tmp_path, lambda row: row["M"])
