"""Shared libraries of CUDA and ROCm, as torch or wheels of NVIDIA bring them."""

import ctypes
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..provider import DeclinedError


def load_library(name: str, majors: Sequence[str], missing: str) -> Any:
    """Load `name`, such as "libcublasLt.so", of one of `majors`, from the search path or the packages nvidia and torch.

    Raises DeclinedError with `missing` where there is none.
    """
    names = [*(f"{name}.{major}" for major in majors), name]
    for package in ("nvidia", "torch"):
        found = importlib.util.find_spec(package)
        for folder in (found.submodule_search_locations or ()) if found else ():
            names += sorted(str(file) for file in Path(folder).glob(f"**/{name}*"))
    for one in names:
        try:
            return ctypes.CDLL(one)
        except OSError:
            continue
    raise DeclinedError(missing)
