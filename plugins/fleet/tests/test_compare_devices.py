"""What a fleet is asked to do for a comparison, without one."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rooflens.harness.compare.replay import COORDINATES
from rooflens.harness.compare.spec import CompareSpec, suite_hash
from rooflens.plugins.fleet import compare as devices_module
from rooflens.plugins.fleet.compare import devices
from rooflens.plugins.fleet.engine.jobs import problems
from rooflens.plugins.fleet.run import FleetTarget
from rooflens.shapes.errors import UsageError
from rooflens.shapes.request import Request

from tests.harness.repositories import repository

WHAT = CompareSpec(
    repository="/nowhere", commits={"base": "a" * 40, "head": "b" * 40}, suite="llm4bit-quick", files=("k.py",),
    request={"axes": ["M=1,2,4"], "providers": ["mine"]}, rounds=4, setup="", suite_hash=suite_hash("llm4bit-quick"),
)  # fmt: skip


@pytest.fixture
def fleet(monkeypatch, tmp_path):
    """Return `fleet(what, most, offered)`: who measures, on at most so many of the devices that a cluster offers."""

    def call(what=WHAT, most=None, offered=4):
        @contextmanager
        def opened(target, device, folder):
            yield SimpleNamespace(offered=lambda: {"sm90": offered}), "sm90"

        monkeypatch.setattr(FleetTarget, "opened", opened)
        request = Request(address="auto", on=f"sm90={most}" if most else None)
        with devices(request, tmp_path / "both", what, None, None) as found:
            return found

    return call


@pytest.mark.parametrize(("most", "axes", "chunks"), [(None, "M=1,2,4", 8), (2, "M=1,2,4", 4), (1, "M=1", 2)])
def test_the_first_call_divides_by_its_devices_and_later_ones_keep_that(fleet, most, axes, chunks):
    what = replace(WHAT, request={"axes": [axes], "providers": ["mine"]})
    divided = fleet(what, most).what
    assert divided.chunks == chunks
    assert fleet(divided, 1, 100).what == divided


def test_there_are_no_more_parts_than_problems(fleet):
    rows = devices_module._rows(WHAT, devices_module._suite(WHAT))
    assert fleet(offered=1000).what.chunks == problems(rows)


@pytest.mark.parametrize(
    ("expression", "sizes"), [("M <= 2", {1, 2}), ("M <= 2 and provider == 'mine'", {1, 2, 4}), ("", {1, 2, 4})]
)
def test_a_filter_that_speaks_of_providers_is_left_to_the_arms(expression, sizes):
    """The plan has the providers of the suite; those of the repository are known to its checkouts alone."""
    what = replace(WHAT, request=WHAT.request | {"filter_expression": expression})
    rows = devices_module._rows(what, devices_module._suite(what))
    assert {row[COORDINATES.index("M")] for row in rows} == sizes


def test_the_device_is_that_of_the_place_and_not_of_the_option(fleet, tmp_path):
    settings = {"threads": 2, "llc_bytes": "1MiB"}
    what = replace(WHAT, request=WHAT.request | {"device": "cuda:3", "protocol": settings}, chunks=2)
    spec = fleet(what)._spec(tmp_path / "both", what, devices_module._suite(what))
    assert spec.what.request == what.request | {"device": "cuda"}
    assert (spec.setup.device, spec.setup.protocol.threads, spec.setup.protocol.llc_bytes) == ("cuda", 2, 1 << 20)
    assert spec.manifest.protocol.rounds == 4
    assert spec.manifest.request is None


def test_a_suite_that_has_changed_is_refused(fleet, tmp_path):
    repository(tmp_path / "repo", {"k.py": ""})
    what = replace(WHAT, suite_hash="0", chunks=2, repository=str(tmp_path / "repo"))
    with pytest.raises(UsageError, match="has changed since the comparison began"):
        fleet(what).measure(tmp_path / "both", what, lambda: False)
