"""A run.json that says less than a worker does: what cannot be compared is refused in one line."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from rooflens.harness.storage.manifest import describe
from rooflens.shapes.device import Device
from rooflens.shapes.errors import UsageError
from rooflens.shapes.run_folder.manifest import Manifest, StoredProvider

MINE = StoredProvider(role="candidate", source="1a2b", file="m.py")
READY = SimpleNamespace(
    device=Device("cpu", 0, "a CPU", "", "x86", 2, 1, 1, 1), environment={"torch": "2.13.0"}, providers={"mine": MINE},
    timer="host", cold_by="flush", tuning="default", threads=2, telemetry="",
)  # fmt: skip


@pytest.fixture
def stored():
    manifest = Manifest()
    describe(manifest, READY)
    return manifest


def test_the_first_worker_says_what_is_measured(stored):
    assert (stored.device.name, stored.device.llc_bytes, stored.timer, stored.threads) == ("a CPU", 1, "host", 2)
    assert stored.providers == {"mine": MINE}


def test_the_same_may_be_resumed_and_new_providers_are_added(stored):
    earlier = replace(stored, providers={})
    describe(earlier, READY)
    assert earlier.providers == stored.providers


@pytest.mark.parametrize(
    "change, says",
    [
        ({"environment": {}}, "torch was unknown and is 2.13.0 now"),
        ({"timer": ""}, "timer was unknown and is host now"),
        ({"providers": {"mine": StoredProvider(source="ffff")}}, "source of provider mine was ffff and is 1a2b now"),
    ],
)
def test_what_differs_is_refused_by_name(stored, change, says):
    with pytest.raises(UsageError, match=says):
        describe(replace(stored, **change), READY)
