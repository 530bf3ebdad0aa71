"""Fixtures of the tests of the commands and of pages, for those of plugins."""

from tests.cli.conftest import here, invoke, no_width, place, plant, refused  # noqa: F401
from tests.conftest import *  # noqa: F403
from tests.kernels.conftest import builder, builds  # noqa: F401
from tests.reports.conftest import browser, open_page  # noqa: F401
