"""What a comparison refuses, where it keeps its things, and what it hands on."""

import shutil
from pathlib import Path

import pytest
import rooflens
from rooflens.harness import comparing
from rooflens.shapes.errors import UsageError

HERE = Path(rooflens.__file__).resolve().parent


@pytest.fixture
def checkout(tmp_path):
    """The parts of rooflens' own checkout that decide how kernels are measured."""
    for name in ("harness", "shapes"):
        shutil.copytree(HERE / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_a_version_with_the_same_harness_is_welcome(checkout):
    comparing.refuse_other_harness(checkout, "base")


@pytest.mark.parametrize("file", ["harness/stop.py", "shapes/suites/llm4bit.toml", "shapes/sets/llm4bit_40.csv"])
def test_a_version_that_measures_otherwise_is_refused(checkout, file):
    with (checkout / file).open("a") as opened:
        opened.write("\n# another one\n")
    with pytest.raises(UsageError, match=rf"base: its {file.split('/')[0]}/ is not that of the rooflens that compares"):
        comparing.refuse_other_harness(checkout, "base")


def test_a_file_more_is_another_harness(checkout):
    (checkout / "harness" / "more.py").write_text("")
    with pytest.raises(UsageError, match="harness/ is not that"):
        comparing.refuse_other_harness(checkout, "head")


def test_a_cache_behind_a_link_is_found_by_its_real_path(tmp_path, monkeypatch):
    """Modules are known by their real paths, and must be recognised as the arm's own."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    assert comparing.scratch_of(tmp_path / "both").is_relative_to((tmp_path / "real").resolve())


def test_each_folder_has_a_scratch_of_its_own(tmp_path):
    assert comparing.scratch_of(tmp_path / "a") != comparing.scratch_of(tmp_path / "b")
    assert comparing.scratch_of(tmp_path / "a") == comparing.scratch_of(tmp_path / "a")


def test_a_suite_is_known_by_all_it_says(tmp_path):
    suite = tmp_path / "mine.toml"
    text = (HERE / "shapes" / "suites" / "llm4bit-quick.toml").read_text()
    suite.write_text(text)
    before = comparing.suite_hash(str(suite))
    assert comparing.suite_hash(str(suite)) == before
    suite.write_text(text.replace("rounds = 5", "rounds = 6"))
    assert comparing.suite_hash(str(suite)) != before


@pytest.mark.parametrize(("arm", "version"), [("base", "base"), ("head+base-config", "head"), ("head+own", "head")])
def test_arms_of_one_version_share_its_checkout(arm, version):
    assert comparing.version(arm) == version
