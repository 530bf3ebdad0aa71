"""Fixtures that the tests of every plugin share with those of the core."""

from .cli.conftest import here, invoke, no_width, place, plant, refused  # noqa: F401
from .conftest import *  # noqa: F403
from .kernels.conftest import builder, builds  # noqa: F401
from .reports.conftest import browser, open_page  # noqa: F401
