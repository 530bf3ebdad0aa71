"""Shared libraries of CUDA, as torch or wheels of NVIDIA bring them."""

import ctypes
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ..provider import DeclinedError


@cache
def cublaslt() -> Any:
    """cuBLASLt. Raises DeclinedError where there is none."""
    major = (torch.version.cuda or "12").split(".")[0]
    library = load_library("libcublasLt.so", major, "cuBLASLt is not installed: it comes with torch for CUDA")
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    return library


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
