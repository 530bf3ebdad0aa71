"""What the tests of kernels share: builds ahead of time, and bitsandbytes without its compiler."""

import pytest

from .ahead_of_time import Builder


@pytest.fixture(scope="session")
def builder(request, tmp_path_factory):
    """Compiler of all tests; what it builds stays in pytest's cache, for other workers and for the next session."""
    made = Builder(request.config.cache.mkdir("builds"), tmp_path_factory.mktemp("triton"))
    yield made
    made.stop()


@pytest.fixture
def eager():
    """The portable fallbacks of bitsandbytes compile on first use, for a minute; eager they compute the same."""
    import torch

    with torch.compiler.set_stance("force_eager"):
        yield
