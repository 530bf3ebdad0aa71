"""Sdist and wheel hold the package and its data and nothing else, and the folder kernels/ hides nobody's `kernels`."""

import ast
import email.policy
import re
import sys
import tarfile
import tomllib
import zipfile
from email.message import EmailMessage
from pathlib import Path

import pytest
import rooflens
from markdown_it import MarkdownIt

from .environments import BUILD_FILES, ROOT, call, link_packages, package_files, package_source


def run(*arguments: object, cwd: Path, **variables: str) -> str:
    return call(*arguments, cwd=cwd, **variables).stdout


def pip(*arguments: str, cwd: Path) -> None:
    """Run pip without the network, and with this environment's setuptools."""
    run(sys.executable, "-m", "pip", *arguments, "--no-deps", "--no-build-isolation", "--quiet", cwd=cwd)


def built(folder: Path) -> tuple[Path, Path]:
    """Return the sdist, and the wheel that is built from it, of the sources in `folder`."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", ".", cwd=folder)
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    copy = package_source(tmp_path_factory.mktemp("source"))
    for other in ("tests", "docs", "benchmarks"):
        (copy / other).mkdir()
        (copy / other / "module.py").touch()
    (copy / "tests" / "test_docs.py").touch()  # setuptools takes such files into every sdist
    return built(copy)


@pytest.fixture(scope="module")
def wheel(distributions):
    return distributions[1]


def metadata(wheel: Path) -> EmailMessage:
    """Return what a package index knows of a wheel; the payload is its page."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name), _class=EmailMessage, policy=email.policy.default)


def links(page: str) -> list[str]:
    """Return the targets of all links and images of a page."""
    return re.findall(r'(?:href|src)="([^"]*)"', MarkdownIt().enable("table").render(page))


def test_make_asks_the_interpreter_of_the_environment_for_its_tools():
    """A .venv that sees the packages of another one has no bin/pytest of its own."""
    programs = set(re.findall(r"\$\(BIN\)/(\S+)", (ROOT / "Makefile").read_text("utf-8")))
    assert programs == {"python", "rooflens"}


def test_fixtures_of_a_folder_are_found_whatever_the_order_of_the_files():
    """pytest 9.1 loses those of tests/cli here, and `make test` names single files."""
    files = ("tests/cli/test_compare.py", "tests/test_packaging.py", "tests/cli/test_run.py")
    options = ("-q", "-p", "no:cacheprovider", "--setup-plan", "-k", "test_more_rounds_on_resume_are_added")
    assert "SETUP    F place" in run(sys.executable, "-m", "pytest", *options, *files, cwd=ROOT)


@pytest.mark.slow
def test_wheel_holds_the_package_and_its_data_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == {f"rooflens/{path.as_posix()}" for path in package_files()}
    data = {Path(name).suffix for name in held} - {".py"}
    assert {".csv", ".toml", ".cpp"} <= data


@pytest.mark.slow
def test_sdist_holds_what_the_wheel_is_built_from(distributions):
    with tarfile.open(distributions[0]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames() if not archive.getmember(name).isdir()}
    made = {"PKG-INFO", "setup.cfg"} | {name for name in held if name.startswith("rooflens.egg-info/")}
    assert held - made == {path.as_posix() for path in package_files()} | set(BUILD_FILES)


@pytest.mark.slow
def test_distributions_pass_the_checks_of_a_package_index(distributions):
    assert run(sys.executable, "-m", "twine", "check", "--strict", *distributions, cwd=ROOT).count("PASSED") == 2


@pytest.mark.slow
def test_a_package_page_has_no_relative_links(wheel):
    """No repository is published yet: links are plain text."""
    found = metadata(wheel)
    assert (found["License-Expression"], found["Author"]) == ("Apache-2.0", "rooflens developers")
    with zipfile.ZipFile(wheel) as archive:
        (licence,) = (name for name in archive.namelist() if name.endswith("/licenses/LICENSE"))
        assert b"Version 2.0, January 2004" in archive.read(licence)
    assert "Typing :: Typed" in found.get_all("Classifier")
    page = found.get_content()
    assert "# rooflens" in page
    assert not [target for target in links(page) if "://" not in target and not target.startswith("#")]


@pytest.mark.slow
def test_a_package_page_links_into_the_repository_of_the_project(tmp_path):
    copy = package_source(tmp_path / "source")
    file = copy / "pyproject.toml"
    text = file.read_text("utf-8")
    file.write_text(text.replace("# Repository = ", "Repository = ").replace("OWNER", "somebody"), "utf-8")
    _, wheel = built(copy)
    found = metadata(wheel)
    assert found["Project-URL"] == "Repository, https://github.com/somebody/rooflens"
    targets = links(found.get_content())
    base = "https://github.com/somebody/rooflens"
    assert f"{base}/raw/HEAD/docs/images/gallery-full.png" in targets
    inside = [target.removeprefix(f"{base}/blob/HEAD/") for target in targets if target.startswith(f"{base}/blob/")]
    assert "docs/comparing.md" in inside
    assert not [target for target in inside if not (ROOT / target.partition("#")[0]).exists()]
    assert not [target for target in targets if "://" not in target and not target.startswith("#")]


@pytest.mark.slow
def test_a_project_that_is_type_checked_sees_the_types_of_the_interface(wheel, tmp_path):
    """As a user's: mypy --strict, beside an installed wheel, without our configuration."""
    run(sys.executable, "-m", "venv", "--without-pip", "fresh", cwd=tmp_path)
    (site,) = (tmp_path / "fresh").glob("lib/python*/site-packages")
    link_packages(site)
    pip("install", "--target", str(site), str(wheel), cwd=tmp_path)
    kernels = (ROOT / "examples" / "my_4bit.py").read_text("utf-8")
    (tmp_path / "kernels.py").write_text(kernels, "utf-8")
    (tmp_path / "wrong.py").write_text(kernels.replace("return Launch(run, out)", "return Launch(out, run)"), "utf-8")
    python = tmp_path / "fresh" / "bin" / "python"
    command = (sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "kernels.py")
    assert run(*command, cwd=tmp_path) == "Success: no issues found in 1 source file\n"
    wrong = call(*command[:-1], "wrong.py", cwd=tmp_path, code=1).stdout
    assert 'wrong.py:32: error: Argument 1 to "Launch" has incompatible type "Tensor"' in wrong


def test_python_m_rooflens_is_the_command(tmp_path):
    assert run(sys.executable, "-m", "rooflens", "--version", cwd=tmp_path) == f"rooflens {rooflens.__version__}\n"


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
