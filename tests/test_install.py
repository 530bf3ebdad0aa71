"""`.ci/install`, which makes the environment of every `make` target: where torch is there already, or pip is not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .environments import ROOT, call, link_packages, package_source, wheel_of

TORCH = "2.99.0+cu999"
"""A version that no index has, so that an attempt to replace it fails."""


def install(source: Path, *extra: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script on a copy of the project."""
    return call(source / ".ci" / "install", *extra, cwd=source, code=code, **variables)


@pytest.fixture
def source(tmp_path):
    """Return a copy of the project, because an editable installation writes into it."""
    copy = package_source(tmp_path / "source")
    shutil.copytree(ROOT / ".ci", copy / ".ci")
    shutil.copyfile(ROOT / "constraints.txt", copy / "constraints.txt")
    return copy


@pytest.fixture
def parent(tmp_path):
    """Make an environment such as GPU images have: torch of a build of their own, and the packages of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "image"], check=True)
    (site,) = (tmp_path / "image").glob("lib/python*/site-packages")
    link_packages(site, but=("rooflens", "torch", "pip"))
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("from . import version\n")
    (site / "torch" / "version.py").write_text(f"__version__ = {TORCH!r}\ncuda = '99.9'\nhip = None\n")
    info = site / f"torch-{TORCH}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {TORCH}\n")
    files = ["torch/__init__.py", "torch/version.py", *(f"{info.name}/{name}" for name in ("METADATA", "RECORD"))]
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    return tmp_path / "image"


def content(folder: Path) -> dict[Path, float]:
    """Return the time of change of every file that is not a cache."""
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {path: path.lstat().st_mtime for path in files if "__pycache__" not in path.parts}


@pytest.mark.slow
def test_torch_of_the_environment_whose_python_is_named_is_kept(source, parent, tmp_path):
    before = content(parent)
    wheel_of("setuptools", tmp_path / "wheels")  # for pip's isolated build
    python = {"PYTHON": str(parent / "bin" / "python3"), "VENV_FLAGS": "--system-site-packages"}
    done = install(source, "test,docs", **python, PIP_FIND_LINKS=str(tmp_path / "wheels"))
    assert f"it sees the packages of {parent}/" in done.stdout
    assert "keeping the cuda build of torch that is installed" in done.stdout
    code = "import torch, rooflens; print(torch.__file__, torch.version.__version__, rooflens.__file__)"
    python = source / ".venv" / "bin" / "python"
    said = subprocess.run([python, "-c", code], cwd=parent, capture_output=True, text=True, check=True).stdout.split()
    assert said[1] == TORCH
    assert Path(said[0]).is_relative_to(parent)
    assert Path(said[2]).is_relative_to(source)
    installed = {path.name.partition("-")[0] for path in source.glob(".venv/lib/python*/site-packages/*.dist-info")}
    assert installed - {"pip", "setuptools"} == {"rooflens"}, "all else is there already"
    assert content(parent) == before


@pytest.mark.slow
def test_an_environment_whose_path_begins_another_one_is_refused(source, parent):
    """Pip would take the packages of .venv-image for those of .venv."""
    renamed = source / ".venv-image"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", renamed], check=True)
    done = install(source, code=1, PYTHON=str(renamed / "bin" / "python3"), VENV_FLAGS="--system-site-packages")
    assert done.stderr == (
        f"{source}/.venv is the beginning of {renamed}, whose packages it is to see: name another one with VENV=\n"
    )
    assert not (source / ".venv").exists()


def test_a_python_without_ensurepip_is_one_line(tmp_path, source):
    (tmp_path / "ensurepip.py").write_text("raise ImportError('as on Debian without python3-venv')\n")
    done = install(source, code=1, PYTHON=sys.executable, PYTHONPATH=str(tmp_path))
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"no usable Python 3.11 or newer among: {sys.executable}. Install one with its venv module")
    assert not (source / ".venv").exists()


def test_an_environment_without_pip_is_one_line(source):
    done = install(source, code=1, PYTHON=sys.executable, VENV_FLAGS="--without-pip")
    assert done.stderr == (
        f".venv has no pip: leave --without-pip out of VENV_FLAGS, or install pip where {sys.executable} sees it\n"
    )
