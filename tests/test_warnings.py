"""A warning in a test fails it; one of a plugin that the user's machine happens to have does not end the session."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

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


@pytest.fixture
def session(tmp_path):
    """Run pytest with this project's settings and a plugin that warns; return what it printed."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "warning_plugin.py").write_text(PLUGIN)
    (tmp_path / "tests" / "test_both.py").write_text(TESTS)
    shutil.copyfile(ROOT / "tests" / "conftest.py", tmp_path / "tests" / "conftest.py")

    def run(*options: str) -> str:
        command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path]
        done = subprocess.run(
            [*command, "-p", "warning_plugin", "-p", "no:cacheprovider", *options, "tests"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_only_warnings_of_tests_are_errors(session, workers):
    printed = session(*workers)
    assert "1 failed, 1 passed" in printed, printed
    assert "test_loud - DeprecationWarning: ours" in printed
    assert "as pytest-benchmark beside xdist does" in printed
