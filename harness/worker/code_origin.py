"""Where the code of one arm of a comparison may come from: its own checkout and environment, and nowhere else.

Two arms that import the same installed package would measure one version twice and call it a comparison.
"""

import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ...shapes.errors import RooflensError, UsageError
from ...shapes.files.toml_file import read_toml

if TYPE_CHECKING:
    from ...kernels.provider import AnyProvider

_OURS = __name__.partition(".")[0]
_KERNELS = f"{_OURS}.kernels"
_INSTALLED = ("site-packages", "dist-packages")
_AT_START = ("_distutils_hack", "__editable__")
"""Modules that setuptools puts into every process of an environment: its own, and the finders of pip install -e."""

_DEEPEST = 3
_NOT_INSTALLED = ("test", "tests")
_NO_NAMES = ("setup", "conftest", "__init__", "__main__")
_OF_OTHERS = ("third_party", "third-party", "thirdparty", "3rdparty", "vendor", "vendored", "external", "externals")

_WAY_OUT = 'give --setup "pip install -e ." (or what builds your package), which runs once per version'


def loaded_code() -> tuple[int, int]:
    """Count modules and, on Linux, mapped parts of files: another result after something was imported or linked."""
    try:
        mapped = Path("/proc/self/maps").read_bytes().count(b"/")
    except OSError:
        mapped = 0
    return len(sys.modules), mapped


class OriginError(RooflensError):
    """An arm imported what is not of its version: no time of it means anything."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What an arm may import.

    tree          checkout of its commit
    environment   its virtual environment, where `--setup` may have installed what it built
    working_tree  the user's own checkout, which no arm may import from
    ours          the repository is rooflens itself: its kernels must come from `tree`
    copied        provider files in `tree` that are not of the repository: the same in every version
    """

    tree: Path
    environment: Path
    working_tree: Path
    ours: bool = False
    copied: tuple[str, ...] = ()

    def check_providers(self, providers: "Mapping[str, AnyProvider]") -> None:
        """Raise OriginError unless the file of each provider that is not rooflens' own is in the checkout."""
        for name, provider in providers.items():
            module = type(provider).__module__
            file = file_of(module)
            shipped = module.startswith(f"{_OURS}.") and not self.ours
            if not shipped and not self._is_mine(file):
                raise OriginError(
                    f"provider {name} comes from {file}, not from the checkout {self.tree}: both versions would run "
                    "the same code; keep its file in the repository and name it by its path there"
                )

    def check_code(self) -> None:
        """Raise OriginError when something that is loaded belongs to the repository, but not to this version of it."""
        for name, file in (*self._strays(), *self._stray_libraries()):
            raise OriginError(
                f"{name} comes from {file}, not from the checkout {self.tree}: both versions would run the same "
                f"code; {_WAY_OUT}"
            )
        for name in project_names(self.tree):
            with suppress(metadata.PackageNotFoundError):
                found = metadata.distribution(name)
                if self._is_mine(Path(str(found.locate_file(""))).resolve()) and not self._is_built_here(found):
                    raise OriginError(
                        f"{name} was installed by --setup from somewhere else than the checkout {self.tree}: both "
                        "versions would run the same release; install the checkout itself"
                    )

    def check_used(self, providers: "Iterable[AnyProvider]") -> None:
        """Raise OriginError when a provider of a copied file has run, but nothing of the version is loaded."""
        copies = {self.tree / file for file in self.copied}
        files = {file_of(type(provider).__module__) for provider in providers} & copies
        used = (file for name, file in _loaded() if not name.startswith(_AT_START) and file not in copies)
        if not files or any(map(self._is_mine, used)):
            return
        raise OriginError(
            f"--providers {min(files).name}: it is not in the repository, and has imported nothing of it: both "
            f"versions would run the same code; import the kernels of the repository, or {_WAY_OUT}"
        )

    def _strays(self) -> Iterator[tuple[str, Path]]:
        names = set(offered_names(self.tree))
        for name, path in _loaded():
            if self._is_mine(path):
                continue
            top = name.partition(".")[0]
            if top == _OURS:
                if self.ours and name.startswith(f"{_KERNELS}."):
                    yield f"module {name}", path
            elif top in names or self._is_of_working_tree(path):
                yield f"module {name}", path

    def _stray_libraries(self) -> Iterator[tuple[str, Path]]:
        """Shared libraries of the user's working tree, by Linux: what torch.ops or ctypes load is no module."""
        with suppress(OSError):
            mapped = {
                line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line
            }
            for file in sorted(mapped):
                path = Path(file)
                if path.suffix == ".so" and self._is_of_working_tree(path) and not self._is_mine(path):
                    yield f"library {path.name}", path

    def _is_mine(self, file: Path) -> bool:
        return file.is_relative_to(self.tree) or file.is_relative_to(self.environment)

    def _is_of_working_tree(self, file: Path) -> bool:
        """An environment inside of the working tree holds packages of others."""
        return file.is_relative_to(self.working_tree) and not set(_INSTALLED) & set(file.parts) and not _is_ours(file)

    def _is_built_here(self, found: metadata.Distribution) -> bool:
        """By what pip notes of a local installation (PEP 610); what says nothing is believed."""
        record = found.read_text("direct_url.json")
        if record is None:
            return found.read_text("INSTALLER") is None
        return Path(str(json.loads(record).get("url", "")).removeprefix("file://")).is_relative_to(self.tree)


def provider_file(module: str, ours: bool = False) -> str:
    """File of a provider's module, as a run stores it; of a shipped one its place in the package."""
    if module.startswith(f"{_OURS}.") and not ours:
        return f"{module.replace('.', '/')}.py"
    return str(file_of(module))


def file_of(module: str) -> Path:
    """File of a loaded module."""
    return Path(str(sys.modules[module].__file__)).resolve()


def _loaded() -> Iterator[tuple[str, Path]]:
    """Names and files of the loaded modules."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and os.path.isabs(file):  # that of torch.ops is not
            yield name, Path(file).resolve()


def _is_ours(file: Path) -> bool:
    """Rooflens itself may be installed from the working tree that is compared."""
    return file.is_relative_to(Path(__file__).resolve().parents[2])


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
