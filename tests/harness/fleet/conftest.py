"""Fleets of scripted stations, of which none is killed: nothing that they store has to be on the disk."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_sync(monkeypatch) -> None:
    """Let no store wait for the disk: hundreds of folders are written here, and a busy disk takes 20 ms a time."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
