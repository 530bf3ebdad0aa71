"""A warning in a test fails it; one of a plugin that the user's machine happens to have does not end the session."""

import shutil
import sys

import pytest

from .environments import ROOT, call

PLUGIN = """
import warnings

def pytest_configure(config):
    warnings.warn("as pytest-benchmark beside xdist does", UserWarning)
    config.issue_config_time_warning(UserWarning("the same, pytest's way"), stacklevel=2)

def pytest_collection_modifyitems(items):
    warnings.warn("while tests are collected", DeprecationWarning)
"""

TESTS = """
import warnings

def test_quiet():
    pass

def test_loud():
    warnings.warn("ours", DeprecationWarning)
"""


@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_only_warnings_of_tests_are_errors(tmp_path, workers):
    """With this project's settings, and a plugin that warns."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "warning_plugin.py").write_text(PLUGIN)
    (tmp_path / "tests" / "test_both.py").write_text(TESTS)
    for name in ("conftest.py", "forks.py"):
        shutil.copyfile(ROOT / "tests" / name, tmp_path / "tests" / name)
    options = ("-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-p", "warning_plugin", "-p", "no:cacheprovider")
    command = (sys.executable, "-m", "pytest", *options, *workers, "tests")
    done = call(*command, cwd=tmp_path, code=1, PYTHONPATH=str(tmp_path))
    printed = done.stdout + done.stderr
    assert "1 failed, 1 passed" in printed, printed
    assert "test_loud - DeprecationWarning: ours" in printed
    assert "as pytest-benchmark beside xdist does" in printed
