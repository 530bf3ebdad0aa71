"""Fleets of scripted stations, of which none is killed: nothing that they store has to be on the disk."""

import os
from collections.abc import Iterator

import pytest

from tests.plugin_fixtures import *  # noqa: F403

from .ray_nodes import RayNodes, cluster


@pytest.fixture(autouse=True)
def no_sync(monkeypatch) -> None:
    """Let no store wait for the disk: hundreds of folders are written here, and a busy disk takes 20 ms a time."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[RayNodes]:
    """Return a cluster of Ray on the loopback: a head, and two nodes with one slot of this CPU each."""
    with cluster(nodes=2) as nodes:
        yield nodes
