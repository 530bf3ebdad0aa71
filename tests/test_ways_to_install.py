"""pip, uv and pipx install the project into an environment of its own, without the network, and it works there."""

import json
import re
import shlex
import sys
from importlib.metadata import distributions, requires
from pathlib import Path

import pytest

from .environments import ROOT, empty_wheel_of, link_packages, package_source, wheel_of
from .environments import call as run

pytestmark = pytest.mark.slow


def call(*arguments: object, cwd: Path, **variables: str) -> str:
    return run(*arguments, cwd=cwd, **variables).stdout


def tool(name: str) -> tuple[str, str, str]:
    """Return the command of a tool of the extra `test`."""
    # Not find_spec: beside an imported distutils, setuptools warns when it looks for pip.
    if not list(distributions(name=name)):
        pytest.skip(f"{name} is not installed: make test-all installs it")
    return sys.executable, "-m", name


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return package_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Make a folder with what an isolated build asks an index for."""
    return wheel_of("setuptools", tmp_path_factory.mktemp("wheels")).parent


@pytest.fixture(scope="module")
def wheel(source, wheels):
    call(*tool("pip"), "wheel", "--no-deps", "-w", "dist", ".", cwd=source, PIP_FIND_LINKS=str(wheels))
    (built,) = (source / "dist").glob("rooflens-*.whl")
    return built


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Make a folder with everything that this environment holds but rooflens."""
    folder = tmp_path_factory.mktemp("packages")
    link_packages(folder)
    return folder


@pytest.fixture
def python(tmp_path, packages):
    return fresh_environment(tmp_path, packages)


def fresh_environment(folder: Path, packages: Path) -> Path:
    """Make an environment that sees the dependencies; returns its interpreter."""
    call(sys.executable, "-m", "venv", "--without-pip", "fresh", cwd=folder)
    (site,) = (folder / "fresh").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{packages}\n")
    return folder / "fresh" / "bin" / "python"


def suites(python: Path, folder: Path) -> list[str]:
    """Names of the suites that the command of an environment lists in `folder`, where it is the one installed there."""
    place = call(python, "-c", "import rooflens; print(rooflens.__file__)", cwd=folder).strip()
    if not Path(place).is_relative_to(python.parents[1]):
        return []
    return [
        suite["name"]
        for suite in json.loads(call(python.with_name("rooflens"), "list", "suites", "--json", cwd=folder))
    ]


def test_pip_install_of_the_source(python, source, wheels, tmp_path):
    call(*tool("pip"), "--python", python, "install", ".", cwd=source, PIP_FIND_LINKS=str(wheels))
    assert "llm4bit-quick" in suites(python, tmp_path)


def test_pip_install_from_git(python, source, wheels, tmp_path):
    repository = tmp_path / "repository"
    call("cp", "-r", source, repository, cwd=tmp_path)
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for step in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "all")):
        call("git", *step, cwd=repository)
    url = f"git+file://{repository}"
    call(*tool("pip"), "--python", python, "install", url, cwd=tmp_path, PIP_FIND_LINKS=str(wheels))
    assert "llm4bit-quick" in suites(python, tmp_path)


def test_uv_pip_install(python, source, wheels, tmp_path):
    """Without dependencies: uv does not see those that are linked."""
    options = ("--no-deps", "--find-links", wheels, "--cache-dir", tmp_path / "cache")
    call(*tool("uv"), "pip", "install", "--python", python, *options, ".", cwd=source)
    assert "llm4bit-quick" in suites(python, tmp_path)


def test_pipx_run(wheel, tmp_path):
    """Into an environment that sees no other: of what these commands do not import, it gets the names only."""
    needed = {"click", "rich", "markdown-it-py", "mdurl", "pygments"}
    for name in needed:
        wheel_of(name, tmp_path)
    for name in {re.match(r"[\w-]+", one)[0] for one in requires("rooflens") if "extra ==" not in one} - needed:
        empty_wheel_of(name, tmp_path)
    pipx = (*tool("pipx"), "run", "--skip-maintenance", "--backend", "pip", "--spec", wheel, "rooflens")
    places = {"PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    offline = {"PIP_FIND_LINKS": str(tmp_path)}
    listed = json.loads(call(*pipx, "list", "suites", "--json", cwd=tmp_path, **places, **offline))
    assert "llm4bit-quick" in [suite["name"] for suite in listed]


def test_the_line_that_a_command_prints_installs_what_it_lacks(wheel, tmp_path):
    (tmp_path / "packages").mkdir()
    link_packages(tmp_path / "packages", but=("rooflens", "ray"))
    python = fresh_environment(tmp_path, tmp_path / "packages")
    call(*tool("pip"), "--python", python, "install", wheel, cwd=tmp_path)
    done = run(python.with_name("rooflens"), "run", "llm4bit-quick", "--address", "auto", cwd=tmp_path, code=1)
    line = re.search(r"pip install '(.*)'$", done.stderr.strip())
    assert line, done.stderr
    assert f"$ {line[0]}" in (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    empty_wheel_of("ray", tmp_path / "wheels")
    call(*tool("pip"), "--python", python, "install", line[1], cwd=tmp_path, PIP_FIND_LINKS=str(tmp_path / "wheels"))
    assert list(python.parents[1].glob("lib/python*/site-packages/ray-*.dist-info"))


@pytest.mark.compile
def test_a_wheel_measures_on_the_cpu(python, wheel, tmp_path):
    """Kernels in C++ are compiled from the package's own data, into a cache that is empty."""
    call(*tool("pip"), "--python", python, "install", wheel, cwd=tmp_path)
    assert "llm4bit-quick" in suites(python, tmp_path)
    plan = shlex.split("--filter 'N == 512' -a M=1 --cache warm -p simd_4bit_cpu -p dequant_blas --rounds 1")
    cache = {"ROOFLENS_CACHE": str(tmp_path / "cache")}
    rooflens = python.with_name("rooflens")
    call(rooflens, "run", "llm4bit-quick", *plan, "--device", "cpu", "-o", "here", "--strict", cwd=tmp_path, **cache)
    assert list((tmp_path / "cache").rglob("*.so"))
    report = call(rooflens, "crossover", "here", cwd=tmp_path)
    assert "simd_4bit_cpu" in report
