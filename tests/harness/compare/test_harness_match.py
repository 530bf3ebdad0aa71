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


def test_a_version_with_the_same_harness_is_welcome_and_what_is_no_source_does_not_count(checkout):
    refuse_other_harness(checkout, "base")
    (checkout / "harness" / "__pycache__").mkdir()
    (checkout / "harness" / "__pycache__" / "stop.pyc").write_bytes(b"1")
    (checkout / "harness" / "notes.txt").write_text("mine")
    refuse_other_harness(checkout, "head")


def longer(file):
    file.write_text(file.read_text() + "\n# another one\n")


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("harness/timing/stop.py", longer),
        ("shapes/suites/llm4bit.toml", longer),
        ("shapes/sets/llm4bit_40.csv", longer),
        ("harness/more.py", lambda file: file.write_text("")),
        # names count as well as contents: a module that moved is imported otherwise
        ("harness/timing/stop.py", lambda file: file.rename(file.with_name("stopping.py"))),
    ],
)
def test_a_version_that_measures_otherwise_is_refused(checkout, file, change):
    change(checkout / file)
    folder = file.split("/")[0]
    with pytest.raises(UsageError, match=f"base: its {folder}/ differs from that of the rooflens that compares"):
        refuse_other_harness(checkout, "base")
