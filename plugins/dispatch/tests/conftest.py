"""Fixtures that these tests share with those of the core."""

from tests.plugin_fixtures import *  # noqa: F403
