"""The wheel holds the package and its data and nothing else, and the folder kernels/ hides nobody's `kernels`."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from .environments import ROOT, package_files, package_source


def run(*arguments: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        arguments, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pip(*arguments: str, cwd: Path) -> None:
    """Run pip without the network, and with this environment's setuptools."""
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    run(sys.executable, "-m", "pip", *arguments, *options, cwd=cwd, PIP_DISABLE_PIP_VERSION_CHECK="1")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    copy = package_source(tmp_path_factory.mktemp("source"))
    for other in ("tests", "docs", "benchmarks"):
        (copy / other).mkdir()
        (copy / other / "module.py").touch()
    pip("wheel", "-w", "dist", ".", cwd=copy)
    (built,) = (copy / "dist").glob("rooflens-*.whl")
    return built


def test_make_asks_the_interpreter_of_the_environment_for_its_tools():
    """A .venv that sees the packages of another one has no bin/pytest of its own."""
    programs = set(re.findall(r"\$\(BIN\)/(\S+)", (ROOT / "Makefile").read_text("utf-8")))
    assert programs == {"python", "rooflens"}


def test_fixtures_of_a_folder_are_found_whatever_the_order_of_the_files():
    """pytest 9.1 loses those of tests/cli here, and `make test` names single files."""
    files = ("tests/cli/test_compare.py", "tests/test_packaging.py", "tests/cli/test_run.py")
    options = ("-q", "-p", "no:cacheprovider", "--setup-plan", "-k", "test_resume_refuses_changed_code")
    assert "SETUP    F place" in run(sys.executable, "-m", "pytest", *options, *files, cwd=ROOT)


@pytest.mark.slow
def test_wheel_holds_the_package_and_its_data_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == {f"rooflens/{path.as_posix()}" for path in package_files()}
    data = {Path(name).suffix for name in held} - {".py"}
    assert {".csv", ".toml", ".cpp"} <= data


@pytest.mark.slow
def test_installed_wheel_works_far_from_the_repository(wheel, tmp_path):
    site = tmp_path / "site"
    pip("install", "--target", str(site), str(wheel), cwd=tmp_path)
    code = "import rooflens, rooflens.kernels.registry as r; print(rooflens.__file__, r.__file__, sep='\\n')"
    places = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(site)).split()
    assert [Path(place).is_relative_to(site) for place in places] == [True, True]

    command = (sys.executable, "-m", "rooflens.cli", "list")
    suites = json.loads(run(*command, "suites", "--json", cwd=tmp_path, PYTHONPATH=str(site)))
    assert {"llm4bit", "llm4bit-quick"} <= {suite["name"] for suite in suites}
    shapes = json.loads(run(*command, "shapes", "llm4bit_40", "--json", cwd=tmp_path, PYTHONPATH=str(site)))
    assert len(shapes) == 40


@pytest.mark.slow
@pytest.mark.parametrize("first", ["kernels", "rooflens.kernels.provider"])
def test_hugging_face_kernels_is_not_shadowed(tmp_path, first):
    """Install a stub distribution named `kernels`, stand in the repository's root, and import both."""
    source = tmp_path / "stub"
    (source / "kernels").mkdir(parents=True)
    (source / "kernels" / "__init__.py").write_text("def get_kernel(name):\n    return f'stub {name}'\n", "utf-8")
    (source / "pyproject.toml").write_text(
        "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"
        "[project]\nname = 'kernels'\nversion = '0.0.1'\n[tool.setuptools]\npackages = ['kernels']\n",
        "utf-8",
    )
    site = tmp_path / "site"
    pip("install", "--target", str(site), str(source), cwd=tmp_path)
    code = f"""
import sys
sys.path.append({str(site)!r})  # behind the repository's root, where a shadow would win
import {first}
import kernels, rooflens.kernels.provider as provider
from importlib.metadata import version
print(kernels.get_kernel('x'), version('kernels'), provider.__name__, sep='|')
"""
    assert run(sys.executable, "-c", code, cwd=ROOT).strip() == "stub x|0.0.1|rooflens.kernels.provider"


def test_constraints_pin_what_pyproject_leaves_open():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["torch==2.13.0", "triton==3.9.0", "ray==2.60.0"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needs = {requirement.split(";")[0].strip() for requirement in project["dependencies"]}
    assert "torch>=2.8" in needs
    assert not [requirement for requirement in needs if "==" in requirement]


def test_what_the_package_imports_at_once_is_declared():
    """Imports inside a function are of what may be missing, such as other projects' kernels."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = (*project["dependencies"], *project["optional-dependencies"]["fleet"])
    declared = {re.split(r"[^\w-]", text, maxsplit=1)[0] for text in texts}
    undeclared = {
        (str(path), name)
        for path in package_files()
        if path.suffix == ".py"
        for name in _imported_at_once(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if name not in sys.stdlib_module_names and name not in declared
        if (path.name, name) != ("pytest_plugin.py", "pytest")  # which is what imports it
    }
    assert not undeclared


def _imported_at_once(module):
    for node in module.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]
