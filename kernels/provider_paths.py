"""Where the imports of a provider file are looked for, whichever command loads it.

1. The folder of the file: before installed packages, as Python does for a script.
2. Its project (the nearest folder above it with pyproject.toml or setup.py) and its git repository, each with its
   `src/`: after installed packages, so that a folder that is called `tests` or `triton` never hides a package
   that rooflens, torch or the user have installed.

A process has one module of a name: two files to which a name means different modules are refused.

A comparison of commits without --setup puts the same folders of a checkout first: nothing of its version is installed.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from ..shapes.errors import UsageError

_PROJECT = ("pyproject.toml", "setup.py")


def checkout_folders(root: Path) -> list[Path]:
    """Folders of a repository that its packages may be in."""
    return [folder for folder in (root, root / "src") if folder.is_dir()]


def import_folders(file: Path) -> list[Path]:
    """Folders beside the installed packages where the imports of a provider file are looked for, in this order."""
    return list(dict.fromkeys((file.parent, *(folder for root in _roots(file) for folder in checkout_folders(root)))))


def make_importable(file: Path) -> None:
    """Put the folders of a provider file on the search path."""
    first, *others = map(str, import_folders(file))
    sys.path.insert(0, first)
    sys.path += [folder for folder in others if folder not in sys.path]


def refuse_namesakes(files: Iterable[Path]) -> None:
    """Raise UsageError when loaded files want different modules of one name: all would run the one of the first."""
    files = list(dict.fromkeys(file.resolve() for file in files))
    if len(files) < 2:
        return
    imported = {file: set(_imports(file)) for file in files}
    folders = {file: import_folders(file) for file in files}
    for name in sorted({module.partition(".")[0] for module in sys.modules}.union(*imported.values())):
        meant = {file: _found(folders[file], name) for file in files}
        wanted = {place: file for file, place in meant.items() if place or name in imported[file]}
        if len(wanted) > 1 and (origin := _origin(name)) and origin in wanted:
            told = "; ".join(f"for {file} it is {place or 'what is installed'}" for place, file in wanted.items())
            raise UsageError(
                f"--providers: a process has one module {name}, but {told}: rename one, or measure the files in "
                "separate runs"
            )


def _imports(file: Path) -> Iterator[str]:
    """Top-level names that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _found(folders: Iterable[Path], name: str) -> Path | None:
    """Module or package of that name in the folders of a provider file."""
    for folder in folders:
        for place in (folder / name / "__init__.py", folder / f"{name}.py"):
            if place.is_file():
                return place.resolve()
    return None


def _origin(name: str) -> Path | None:
    """File of a module that is loaded, or would be."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):  # a module without a spec
        return None
    return Path(spec.origin).resolve() if spec and spec.has_location and spec.origin else None


def _roots(file: Path) -> Iterator[Path]:
    for marks in (_PROJECT, (".git",)):
        found = next((folder for folder in file.parents if any((folder / mark).exists() for mark in marks)), None)
        if found is not None and not (found / "__init__.py").is_file():  # a package holds no top-level names
            yield found
