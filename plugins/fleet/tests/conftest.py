"""Real nodes of Ray on this machine."""

from collections.abc import Iterator

import pytest

from tests.plugin_fixtures import *  # noqa: F403

from .ray_nodes import RayNodes, cluster


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[RayNodes]:
    """Return a cluster of Ray on the loopback: a head, and two nodes with one slot of this CPU each."""
    with cluster(nodes=2) as nodes:
        yield nodes
