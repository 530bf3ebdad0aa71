"""What a fleet is asked to do for a comparison, without one."""

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rooflens.harness.compare.replay import COORDINATES
from rooflens.harness.compare.spec import CompareSpec, suite_hash, write_state
from rooflens.plugins.fleet import compare as devices_module
from rooflens.plugins.fleet.compare import devices
from rooflens.plugins.fleet.engine.jobs import problems
from rooflens.plugins.fleet.run import FleetTarget
from rooflens.shapes.errors import UsageError

from tests.harness.repositories import repository

WHAT = CompareSpec(
    repository="/nowhere", commits={"base": "a" * 40, "head": "b" * 40}, suite="llm4bit-quick", files=("k.py",),
    options=("--axis", "M=1,2,4", "--provider", "mine"), rounds=4, setup="", suite_hash=suite_hash("llm4bit-quick"),
)  # fmt: skip


@pytest.fixture
def fleet(monkeypatch, tmp_path):
    """Return `fleet(what, on=limits, offered=...)`: who measures, on a cluster that offers so many devices."""

    def call(what=WHAT, limits=None, offered=None):
        offered = offered or {"sm90": 4}
        limits = limits or dict.fromkeys(offered)

        @contextmanager
        def opened(target, device):
            yield SimpleNamespace(offered=lambda: offered), limits

        monkeypatch.setattr(FleetTarget, "opened", opened)
        with devices(FleetTarget("auto"), tmp_path / "both", what, None) as found:
            return found

    return call


def test_one_architecture_only(fleet):
    with pytest.raises(
        UsageError, match="is of one architecture, and this cluster has gfx950 and sm90: add --on gfx950"
    ):
        fleet(offered={"gfx950": 2, "sm90": 4})
    assert fleet(limits={"sm90": None}, offered={"gfx950": 2, "sm90": 4})


def test_another_architecture_does_not_go_on(fleet, tmp_path):
    (tmp_path / "both" / "base").mkdir(parents=True)
    write_state(tmp_path / "both", WHAT, ())
    (tmp_path / "both" / "base" / "run.json").write_text(json.dumps({"fleet": {}, "device": {"arch": "gfx950"}}))
    with pytest.raises(UsageError, match="is of gfx950, and this fleet measures sm90"):
        fleet()


@pytest.mark.parametrize(
    ("limits", "axes", "chunks"), [(None, "M=1,2,4", 8), ({"sm90": 2}, "M=1,2,4", 4), ({"sm90": 1}, "M=1", 2)]
)
def test_the_first_call_divides_by_its_devices_and_later_ones_keep_that(fleet, limits, axes, chunks):
    what = replace(WHAT, options=("--axis", axes, "--provider", "mine"))
    divided = fleet(what, limits).divided(what)
    assert divided.chunks == chunks
    assert fleet(divided, {"sm90": 1}, {"sm90": 100}).divided(divided) == divided


def test_there_are_no_more_parts_than_problems(fleet):
    rows = devices_module._rows(WHAT, devices_module._suite(WHAT))
    assert fleet(limits={"sm90": None}, offered={"sm90": 1000}).divided(WHAT).chunks == problems(rows)


@pytest.mark.parametrize(
    ("expression", "sizes"), [("M <= 2", {1, 2}), ("M <= 2 and provider == 'mine'", {1, 2, 4}), ("", {1, 2, 4})]
)
def test_a_filter_that_speaks_of_providers_is_left_to_the_arms(expression, sizes):
    """The plan has the providers of the suite; those of the repository are known to its checkouts alone."""
    what = replace(WHAT, options=(*WHAT.options, "--filter", expression))
    rows = devices_module._rows(what, devices_module._suite(what))
    assert {row[COORDINATES.index("M")] for row in rows} == sizes


def test_the_device_is_that_of_the_place_and_not_of_the_option(fleet, tmp_path):
    what = replace(WHAT, options=(*WHAT.options, "--device", "cuda:3", "--threads", "2", "--llc", "1MiB"), chunks=2)
    spec = fleet(what)._spec(tmp_path / "both", what, devices_module._suite(what))
    assert spec.what.options == [*WHAT.options, "--threads", "2", "--llc", "1MiB", "--device", "cuda"]
    assert (spec.setup.device, spec.setup.threads, spec.setup.llc_bytes) == ("cuda", 2, 1 << 20)
    assert spec.manifest.protocol.rounds == 4
    assert spec.manifest.request is None


def test_a_suite_that_has_changed_is_refused(fleet, tmp_path):
    repository(tmp_path / "repo", {"k.py": ""})
    what = replace(WHAT, suite_hash="0", chunks=2, repository=str(tmp_path / "repo"))
    with pytest.raises(UsageError, match="has changed since the comparison began"):
        fleet(what).measure(tmp_path / "both", what)
