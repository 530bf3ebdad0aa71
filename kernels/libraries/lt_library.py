"""cuBLASLt and hipBLASLt: loaded through ctypes, as torch offers no choice of an algorithm; their numbers and versions.

Functions of both have the same parameters. Constants and sizes of structures are those of cublasLt.h in CUDA 12 and 13,
and of hipblaslt.h, hipblas-common.h and library_types.h in ROCm 6 and 7.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from ...shapes.errors import RooflensError
from ..provider import DeclinedError
from .shared_libraries import load_library


class BlasLtError(RooflensError):
    """A call of cuBLASLt or hipBLASLt fails."""


@dataclass(frozen=True, slots=True)
class LtNumbers:
    """What differs between both libraries.

    file, majors      of the shared library; prefix that of its functions
    algorithm_words   64-bit words of an algorithm; compute, transposed: values of enumerations
    first_transposed to first_alignment: attributes of products, layouts and preferences; None: there is none
    workspace_bytes   what NVIDIA recommends for Hopper (cuBLAS documentation, "cublasSetWorkspace()"), and what torch
                      gives hipBLASLt
    version_base      a version is major * base + minor * 100 + patch
    """

    name: str
    file: str
    majors: tuple[str, ...]
    prefix: str
    missing: str
    algorithm_words: int
    compute: int
    transposed: int
    first_transposed: int
    epilogue: int
    bias: int
    bias_type: int | None
    batch: int
    step: int
    first_alignment: int | None
    workspace_bytes: int
    version_base: int


CUBLASLT = LtNumbers(
    name="cuBLASLt",
    file="libcublasLt.so",
    majors=((torch.version.cuda or "12").split(".")[0],),
    prefix="cublasLt",
    missing="cuBLASLt is not installed: it comes with torch for CUDA",
    algorithm_words=8,
    compute=68,
    transposed=1,
    first_transposed=3,
    epilogue=7,
    bias=8,
    bias_type=None,  # that of the output
    batch=5,
    step=6,
    first_alignment=5,
    workspace_bytes=32 << 20,
    version_base=10_000,
)

HIPBLASLT = LtNumbers(
    name="hipBLASLt",
    file="libhipblaslt.so",
    majors=("1", "0"),
    prefix="hipblasLt",
    missing="hipBLASLt is not installed: it comes with torch for ROCm",
    algorithm_words=3,
    compute=2,
    transposed=112,
    first_transposed=0,
    epilogue=2,
    bias=3,
    bias_type=4,
    batch=0,
    step=1,
    first_alignment=None,
    workspace_bytes=76 << 20,
    version_base=100_000,
)


class LtLibrary:
    """A loaded library. Raises DeclinedError where there is none."""

    def __init__(self, numbers: LtNumbers) -> None:
        self.numbers = numbers
        self._library = load_library(numbers.file, numbers.majors, numbers.missing)

    def function(self, name: str) -> Any:
        """Return a function by its name without prefix."""
        return getattr(self._library, self.numbers.prefix + name)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; BlasLtError unless it succeeds."""
        if status := self.function(name)(*arguments):
            raise BlasLtError(f"{self.numbers.prefix}{name} fails with status {status}")

    def new(self, create: str, *arguments: Any) -> ctypes.c_void_p:
        """Return what a function creates."""
        made = ctypes.c_void_p()
        self.call(create, ctypes.byref(made), *arguments)
        return made

    def set(self, setter: str, of: ctypes.c_void_p, attribute: int, value: Any) -> None:
        """Set an attribute of a descriptor."""
        self.call(setter, of, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))


@cache
def lt_library() -> LtLibrary:
    """Return that of this torch: hipBLASLt with ROCm, else cuBLASLt. Raises DeclinedError without it."""
    return LtLibrary(HIPBLASLT if torch.version.hip else CUBLASLT)


@cache
def handle(device: torch.device) -> ctypes.c_void_p:
    """Return the library's handle of a device."""
    with torch.cuda.device(device):
        return lt_library().new("Create")


@cache
def lt_version() -> str:
    """Version of the library of this torch, "" where it is not installed, or has no device to tell it."""
    try:
        library = lt_library()
    except DeclinedError:
        return ""
    if library.numbers is CUBLASLT:
        version = library.function("GetVersion")
        version.restype = ctypes.c_size_t
        number = version()
    elif torch.cuda.is_available():
        told = ctypes.c_int()
        library.call("GetVersion", handle(torch.device("cuda", torch.cuda.current_device())), ctypes.byref(told))
        number = told.value
    else:
        return ""
    major, rest = divmod(number, library.numbers.version_base)
    return f"{major}.{rest // 100}.{rest % 100}"
