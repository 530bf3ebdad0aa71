"""What a comparison notes of itself, where it keeps its things, and what of that it refuses; the order of arms."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import rooflens
from rooflens.harness.compare import spec
from rooflens.shapes.errors import UsageError
from rooflens.shapes.request import Request
from rooflens.shapes.run_folder.manifest import ComparisonState

HERE = Path(rooflens.__file__).resolve().parent

WHAT = ComparisonState(
    repository="/nowhere", commits={"base": "a" * 40, "head": "b" * 40}, suite="tiny", files=["kernels.py"],
    request=Request(axes={"M": [1, 2]}).stored(), rounds=8, setup="", suite_hash="0123",
)  # fmt: skip


@pytest.mark.parametrize("what", [WHAT, replace(WHAT, tables={"head": "t"}, cells=[["a", 1]], searches={"base": 1})])
def test_what_was_noted_is_gone_on_with(tmp_path, what):
    spec.write_state(tmp_path, what, {(1, "head"), (0, "base")})
    assert spec.stored(tmp_path) == what
    assert spec.read_state(tmp_path).done == [(0, "base"), (1, "head")]


def test_a_folder_without_a_note_or_with_half_a_note_holds_no_comparison(tmp_path):
    assert spec.read_state(tmp_path) is None
    with pytest.raises(UsageError, match=r"no comparison to resume: .*compare\.json does not exist; name its folder"):
        spec.stored(tmp_path)
    (tmp_path / spec.COMPARISON).write_text('{"reposi')
    with pytest.raises(UsageError, match=r"compare\.json line 1, column 2: .*; restore the file from a copy"):
        spec.read_state(tmp_path)


@pytest.mark.parametrize(
    "change", [{"rounds": ...}, {"files": ...}, {"done": ...}, {"speed": 3}, {"options": ["-a"]}], ids=str
)
def test_a_note_of_another_version_is_told(tmp_path, change):
    spec.write_state(tmp_path, WHAT, [])
    state = json.loads((tmp_path / spec.COMPARISON).read_text()) | change
    (tmp_path / spec.COMPARISON).write_text(json.dumps({name: v for name, v in state.items() if v is not ...}))
    with pytest.raises(UsageError, match=r"is not of this version of rooflens|key '\w+' is missing; read the run with"):
        spec.stored(tmp_path)


@pytest.mark.parametrize(
    ("files", "registry", "ours"), [((), True, True), ((), False, False), (("a.py",), True, False)]
)
def test_rooflens_own_kernels_are_compared_in_its_repository_without_provider_files(tmp_path, files, registry, ours):
    (tmp_path / "kernels").mkdir()
    if registry:
        (tmp_path / "kernels" / "registry.py").write_text("")
    assert spec.is_ours(replace(WHAT, repository=str(tmp_path), files=files)) is ours


def test_each_folder_has_a_scratch_of_its_own_at_a_real_path(tmp_path, monkeypatch):
    """Modules are known by their real paths, and must be recognised as the arm's own."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    assert spec.scratch_of(tmp_path / "a").is_relative_to((tmp_path / "real").resolve())
    assert spec.scratch_of(tmp_path / "a") == spec.scratch_of(tmp_path / "a") != spec.scratch_of(tmp_path / "b")


def test_a_suite_is_known_by_all_it_says(tmp_path):
    suite = tmp_path / "mine.toml"
    text = (HERE / "shapes" / "suites" / "llm4bit-quick.toml").read_text()
    suite.write_text(text)
    before = spec.suite_hash(str(suite))
    assert spec.suite_hash(str(suite)) == before
    suite.write_text(text.replace("rounds = 5", "rounds = 6"))
    assert spec.suite_hash(str(suite)) != before


@pytest.mark.parametrize(("arm", "version"), [("base", "base"), ("head+base-config", "head"), ("head+own", "head")])
def test_arms_of_one_version_share_its_checkout(arm, version):
    assert spec.version(arm) == version


def test_two_arms_go_abba():
    arms = [arm for _, arm in spec.balanced(("base", "head"), 4)]
    assert arms == ["base", "head", "head", "base"] * 2


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_arm_is_in_every_round_once_first_equally_often_and_hit_alike_by_a_drift(count):
    """A drift in straight lines: mean position of each arm over 2 * count rounds."""
    names = [f"arm {number}" for number in range(count)]
    order = list(spec.balanced(names, 2 * count))
    assert sorted(order) == [(number, name) for number in range(2 * count) for name in names]
    firsts = Counter(order[number * count][1] for number in range(2 * count))
    assert set(firsts.values()) == {2}
    sums = {name: sum(position for position, (_, arm) in enumerate(order) if arm == name) for name in names}
    assert len(set(sums.values())) == 1
