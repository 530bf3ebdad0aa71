"""The names under which the code of a checkout can be imported: what an arm of a comparison must have from it."""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from ...shapes.errors import UsageError
from ...shapes.files.toml_file import read_toml

_DEEPEST = 3
_NOT_INSTALLED = ("test", "tests")
_NO_NAMES = ("setup", "conftest", "__init__", "__main__")
_OF_OTHERS = ("third_party", "third-party", "thirdparty", "3rdparty", "vendor", "vendored", "external", "externals")


def offered_names(tree: Path) -> Iterator[str]:
    """Top-level names that the repository offers: packages wherever they begin, modules, its own release."""
    for folder in _folders(tree, _DEEPEST, _submodules(tree)):
        if (folder / "__init__.py").is_file() and not (folder.parent / "__init__.py").is_file():
            yield folder.name
    for folder in (tree, tree / "src", tree / "python"):
        yield from (file.stem for file in folder.glob("*.py") if file.stem not in _NO_NAMES)
    for name in project_names(tree):
        with suppress(metadata.PackageNotFoundError):
            yield from _modules(metadata.distribution(name).files or ())


def _folders(tree: Path, depth: int, foreign: Collection[Path]) -> Iterator[Path]:
    """Folders below a checkout with code of its own: none that are hidden, of tests, or hold what others wrote.

    A package that lies there as a copy, pybind11 say, is rightly imported from where pip installed it.
    """
    with suppress(OSError):
        for folder in tree.iterdir():
            name = folder.name.lower()
            left_out = name.startswith(".") or name in _NOT_INSTALLED or name in _OF_OTHERS or folder in foreign
            if folder.is_dir() and not left_out:
                yield folder
                if depth > 1 and not (folder / "__init__.py").is_file():
                    yield from _folders(folder, depth - 1, foreign)


def _submodules(tree: Path) -> set[Path]:
    """Folders of a checkout that hold other repositories, by its .gitmodules."""
    with suppress(OSError):
        modules = (tree / ".gitmodules").read_text(encoding="utf-8", errors="replace")
        return {tree / path.strip('"') for path in re.findall(r"^\s*path\s*=\s*(.*\S)", modules, re.MULTILINE)}
    return set()


def project_names(tree: Path) -> Iterator[str]:
    """Name of the distribution that the repository builds, if its pyproject.toml says."""
    with suppress(UsageError):
        project = read_toml(tree / "pyproject.toml").get("project")
        name = project.get("name") if isinstance(project, dict) else None
        if isinstance(name, str):
            yield name


def _modules(files: Iterable[metadata.PackagePath]) -> Iterator[str]:
    """Top-level modules among the files of a release: packages, and modules of one file (an extension, say)."""
    for file in files:
        top = file.parts[0]
        if len(file.parts) > 1 and "." not in top:
            yield top
        elif len(file.parts) == 1 and file.suffix in (".py", ".so") and not top.startswith("__editable__"):
            yield top.partition(".")[0]
