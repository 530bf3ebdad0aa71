"""Shared libraries of CUDA, as torch or wheels of NVIDIA bring them."""

import ctypes
import importlib.util
from pathlib import Path
from typing import Any

from ..provider import DeclinedError


def load_library(name: str, major: str, missing: str) -> Any:
    """Load `name`, such as "libcublasLt.so", of CUDA `major`, from the search path or the packages nvidia and torch.

    Raises DeclinedError with `missing` where there is none.
    """
    names = [f"{name}.{major}", name]
    for package in ("nvidia", "torch"):
        found = importlib.util.find_spec(package)
        for folder in (found.submodule_search_locations or ()) if found else ():
            names += sorted(str(file) for file in Path(folder).glob(f"**/{name}.*"))
    for one in names:
        try:
            return ctypes.CDLL(one)
        except OSError:
            continue
    raise DeclinedError(missing)
