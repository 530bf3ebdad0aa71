"""Foreign packages that may be installed: found without importing them, imported when a launch is prepared."""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ...shapes.device import Device
from ..needs import Package
from ..provider import DeclinedError, Support

INSTINCT = ("gfx942", "gfx950")
"""Architectures that aiter and Primus-Turbo have kernels for (MI300 and MI350 series)."""


def support(package: Package, files: Sequence[str], device: Device, arches: Sequence[str] = INSTINCT) -> Support:
    """Say whether `package` is installed with one of `files` (paths inside of it), and for this device.

    A name can be another project's ("aiter" on PyPI is), or a version can lack the kernel: its files decide.
    """
    folder = _folder(package.name)
    if folder is None:
        return Support.no(f"{package.name} is not installed: {package.source}")
    if not any((folder / file).is_file() for file in files):
        return Support.no(
            f"the installed {package.name} has no {files[0]}: another version or project; {package.source}"
        )
    if not device.is_rocm or device.arch not in arches:
        return Support.no(f"{package.name} has this kernel for {' and '.join(arches)} only")
    return Support.yes()


def find_function(package: str, files: Sequence[str], name: str) -> tuple[ModuleType, Callable[..., Any]]:
    """Import the first of `files` that exists; return the module and its function `name`."""
    folder = _folder(package)
    for file in files:
        if folder is not None and (folder / file).is_file():
            module = importlib.import_module(".".join((package, *Path(file).with_suffix("").parts)))
            function = getattr(module, name, None)
            if function is None:
                raise DeclinedError(f"{module.__name__} has no {name}: another version of {package}")
            return module, function
    raise DeclinedError(f"{package} has no {files[0]}")


def version(package: str) -> str:
    """Version of an imported package, "unknown" where it does not say."""
    return str(getattr(importlib.import_module(package), "__version__", "unknown"))


def _folder(package: str) -> Path | None:
    """Folder of a top-level package; finding it imports nothing."""
    spec = importlib.util.find_spec(package)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    return Path(locations[0]) if locations else None
