"""Where the imports of a provider file are looked for, whichever command loads it.

1. The folder of the file: before installed packages, as Python does for a script.
2. Its project (the nearest folder above it with pyproject.toml or setup.py) and its git repository, each with its
   `src/`: after installed packages, so that a folder that is called `tests` or `triton` never stands in for a package
   that rooflens, torch or the user have installed.

A comparison of commits without --setup puts the same folders of a checkout first: nothing of its version is installed.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

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


def _roots(file: Path) -> Iterator[Path]:
    for marks in (_PROJECT, (".git",)):
        found = next((folder for folder in file.parents if any((folder / mark).exists() for mark in marks)), None)
        if found is not None and not (found / "__init__.py").is_file():  # a package holds no top-level names
            yield found
