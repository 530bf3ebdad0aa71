"""Only a version of rooflens that measures as the invoking one does can have its kernels compared."""

import shutil
from pathlib import Path

import pytest
import rooflens
from rooflens.harness.compare.environments import refuse_other_harness
from rooflens.shapes.errors import UsageError

HERE = Path(rooflens.__file__).resolve().parent


@pytest.fixture
def checkout(tmp_path):
    """The parts of rooflens' own checkout that decide how kernels are measured."""
    for name in ("harness", "shapes"):
        shutil.copytree(HERE / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_a_version_with_the_same_harness_is_welcome(checkout):
    refuse_other_harness(checkout, "base")


@pytest.mark.parametrize("file", ["harness/timing/stop.py", "shapes/suites/llm4bit.toml", "shapes/sets/llm4bit_40.csv"])
def test_a_version_that_measures_otherwise_is_refused(checkout, file):
    with (checkout / file).open("a") as opened:
        opened.write("\n# another one\n")
    with pytest.raises(
        UsageError, match=rf"base: its {file.split('/')[0]}/ differs from that of the rooflens that compares"
    ):
        refuse_other_harness(checkout, "base")


def test_a_file_more_is_another_harness(checkout):
    (checkout / "harness" / "more.py").write_text("")
    with pytest.raises(UsageError, match="harness/ differs from that"):
        refuse_other_harness(checkout, "head")


def test_other_content_under_another_name_is_another_harness(checkout):
    """Names count as well as contents: a module that moved is imported otherwise."""
    (checkout / "harness" / "timing" / "stop.py").rename(checkout / "harness" / "timing" / "stopping.py")
    with pytest.raises(UsageError, match="harness/ differs from that"):
        refuse_other_harness(checkout, "head")


def test_what_is_no_source_does_not_count(checkout):
    (checkout / "harness" / "__pycache__").mkdir()
    (checkout / "harness" / "__pycache__" / "stop.pyc").write_bytes(b"1")
    (checkout / "harness" / "notes.txt").write_text("mine")
    refuse_other_harness(checkout, "head")
