"""Fixtures that these tests share with those of the core."""

from tests.cli.conftest import invoke, no_width, plant, refused  # noqa: F401
from tests.conftest import *  # noqa: F403
