"""What the tests of kernels share: builds ahead of time, and bitsandbytes without its compiler."""

import pytest
from rooflens.kernels import aot, registry

from .ahead_of_time import Builder, Made
from .planted_files import forgotten


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their markers
def pytest_collection_modifyitems(items):
    for item in items:
        if "builder" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.compile)


@pytest.fixture(scope="session")
def builder(request, tmp_path_factory):
    """Compiler of all tests; what it builds stays in pytest's cache, for other workers and for the next session."""
    made = Builder(request.config.cache.mkdir("builds"), tmp_path_factory.mktemp("triton"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def builds(builder, request):
    """{arch: builds} of what `requests(arch)` of the test's module lists."""
    return Made(aot.ARCHES, lambda arch: builder.builds(arch, request.module.requests(arch)))


@pytest.fixture(params=registry.BUILTIN)
def provider(request):
    """Every shipped provider."""
    return registry.load([request.param])[request.param]


@pytest.fixture
def eager():
    """The portable fallbacks of bitsandbytes compile on first use, for a minute; eager they compute the same."""
    import torch

    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.fixture
def clean_imports():
    with forgotten():
        yield
