"""The types of run.json: what we write passes, and a key of another type is one line that names it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rooflens.shapes.errors import UsageError
from rooflens.shapes.run_folder.manifest import (
    VERSION,
    ComparisonState,
    Manifest,
    StoredProvider,
    checked,
    read_manifest,
)

STORED = sorted((Path(__file__).parents[3] / "docs" / "results").rglob("run.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_stored_runs_pass(path):
    manifest, content = read_manifest(path, ("id", "device")), json.loads(path.read_text())
    assert not manifest.unknown
    content["shapes"] = [{"E": 1, "top_k": 1} | shape for shape in content["shapes"]]  # absent in earlier ones
    assert stated(json.loads(manifest.to_text())) == stated(content)


def stated(value):
    """What an object says: without what is absent, null or empty."""
    if isinstance(value, dict):
        return {key: stated(one) for key, one in value.items() if one not in (None, "", [], {})}
    return [stated(one) for one in value] if isinstance(value, list) else value


def test_there_are_stored_runs():
    assert len(STORED) > 5


@pytest.mark.parametrize(
    "manifest, says",
    [
        ({}, "run.json: key 'id' is missing"),
        ({"id": 3}, "run.json: id = 3 must be a text"),
        ({"id": "a", "rounds": True}, "run.json: rounds = True must be a whole number"),
        ({"id": "a", "rounds": 1 << 70}, "run.json: rounds = 1180591620717411303424 must be a whole number"),
        (
            {"id": "a", "device": {"compute_units": 0}},
            "run.json: device.compute_units = 0 must be a positive whole number",
        ),
        ({"id": "a", "devices": [{}, 3]}, r"run.json: devices\[1\] = 3 must be an object"),
        ({"id": "a", "shapes": [{"model": "m"}]}, r"run.json: shapes\[0\].layer = None must be a text"),
        ({"id": "a", "providers": {"p" * 500: 1}}, r"run.json: providers.pppp.*\.\.\.p* = 1 must be an object"),
        ({"id": "a", "canary_drift": {"gemm": float("inf")}}, "run.json: canary_drift.gemm = inf must be a number"),
        ({"id": "a", "refine": {"added": [{"M": "1"}]}}, r"run.json: refine.added\[0\].M = '1' must be a positive"),
    ],
)
def test_another_type_is_named(manifest, says):
    with pytest.raises(UsageError, match=says) as raised:
        Manifest.read(manifest, "run.json", ("id",))
    assert len(str(raised.value)) < 250


def test_what_is_not_known_here_survives_a_rewrite():
    content = {"id": "a", "device": {"uuid": None, "colour": [1]}, "device_spec": None, "other": {"x": None}}
    manifest = Manifest.read(content, "", ("id",))
    manifest.device = replace(manifest.device, name="b")
    manifest.providers["p"] = StoredProvider(role="candidate")
    assert json.loads(manifest.to_text()) == {
        "id": "a", "challengers": [], "shapes": [], "environment": {}, "protocol": {}, "processes": 0,
        "device": {"name": "b", "colour": [1]}, "providers": {"p": {"role": "candidate"}}, "other": {"x": None},
    }  # fmt: skip


def test_a_glance_takes_what_it_can():
    found = Manifest.glance({"id": 3, "suite": "s", "device": {"name": ["x"], "arch": "sm90"}, "refine": {"added": 1}})
    assert (found.id, found.suite, found.device.name, found.device.arch, found.refine) == ("", "s", "", "sm90", None)


def test_a_later_version_is_refused():
    with pytest.raises(UsageError, match=rf"run.json is of version {VERSION + 1}, and this rooflens reads {VERSION}"):
        checked({"version": VERSION + 1}, "run.json")


def test_a_comparison():
    with pytest.raises(UsageError, match=r"compare\.json: rounds = '2' must be a positive whole number"):
        ComparisonState.read({"repository": "", "suite": "", "commits": {}, "rounds": "2"}, "compare.json")
