"""What the tests of kernels share: builds ahead of time."""

import pytest

from .ahead_of_time import Builder


@pytest.fixture(scope="session")
def builder(request, tmp_path_factory):
    """Compiler of all tests; what it builds stays in pytest's cache, for other workers and for the next session."""
    made = Builder(request.config.cache.mkdir("builds"), tmp_path_factory.mktemp("triton"))
    yield made
    made.stop()
