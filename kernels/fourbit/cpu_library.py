"""The library of cpu.cpp: compiled once per CPU and compiler, and called over tensors. Imports no torch.

It lives in the user's cache, never in the package, under a hash of its source, its flags and the macros that the
compiler defines with them. These name its version and the instruction sets of the CPU: machines may share a cache.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ...shapes.errors import RooflensError
from ..cache_folder import cache_folder

SOURCE = Path(__file__).with_name("cpu.cpp")

NO_COMPILER = "no C++ compiler: apt install g++ (or conda install cxx-compiler), or set CXX to one"

_NATIVE = "-march=native" if platform.machine().lower() in ("x86_64", "amd64") else "-mcpu=native"
_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-fno-exceptions", "-w", _NATIVE)


class BuildError(RooflensError):
    """The library could not be built: no compiler, a compile error, or a cache that cannot be written."""


def compiler_command() -> tuple[str, ...] | None:
    """Command of the compiler to use: $CXX if set (None when that is not a program), else g++, clang++ or c++."""
    if named := shlex.split(os.environ.get("CXX", "")):
        return tuple(named) if shutil.which(named[0]) else None
    return next(((name,) for name in ("g++", "clang++", "c++") if shutil.which(name)), None)


def compiler_version() -> str:
    """First line of what the compiler says of its version; "" without one. Raises BuildError if it cannot be run."""
    command = compiler_command()
    return _version(command) if command else ""


@cache
def _version(command: tuple[str, ...]) -> str:
    return _run((*command, "--version")).partition("\n")[0]


def build() -> Path:
    """Return the library, compiling it if it is not there yet; CXXFLAGS come after the flags of ours.

    It is moved into place, so that processes may race for it. Raises BuildError with the first errors of the compiler.
    """
    if not (command := compiler_command()):
        raise BuildError(NO_COMPILER)
    built = _build((*command, *_FLAGS, *shlex.split(os.environ.get("CXXFLAGS", ""))), cache_folder())
    if isinstance(built, BuildError):
        raise built
    for path in (built.parent, built):  # to load it is to run what is written there
        found = path.stat()
        if found.st_uid not in (os.getuid(), 0):
            raise BuildError(f"{path} belongs to another user: set ROOFLENS_CACHE to a folder of your own")
        if found.st_mode & stat.S_IWOTH:
            raise BuildError(f"everybody may write to {path}: chmod o-w it, or set ROOFLENS_CACHE to another folder")
    return built


@cache
def _build(command: tuple[str, ...], folder: Path) -> Path | BuildError:
    """Return the library or, also to every cell that asks again, what went wrong."""
    try:
        macros = _run((*command, "-dM", "-E", "-x", "c++", os.devnull))
        key = hashlib.sha256(repr((command, macros)).encode() + SOURCE.read_bytes()).hexdigest()[:20]
        library = folder / f"cpu4bit-{key}.so"
        if not library.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as temporary:
                built = Path(temporary, library.name)
                _run((*command, str(SOURCE), "-o", str(built), "-ldl"))
                built.replace(library)
    except BuildError as error:
        return error
    except OSError as error:
        return BuildError(
            f"cannot write the CPU kernels to {folder}: {error.strerror or error}; set ROOFLENS_CACHE to another folder"
        )
    return library


def _run(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise BuildError(f"cannot run the C++ compiler {command[0]}: {error.strerror}; set CXX to another") from error
    if done.returncode == 0:
        return done.stdout
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    what = [line for line in lines if "error" in line.lower()] or lines
    said = " | ".join(what[:3]) or f"exit status {done.returncode}"
    raise BuildError(
        f"the C++ compiler {command[0]} failed: {said}; the kernels need GCC 10, Clang 12 or newer (set CXX)"
    )


@cache
def library() -> ctypes.CDLL:
    """Load the library, building it first if need be. Raises BuildError."""
    return ctypes.CDLL(str(build()))


@cache
def artifact() -> str:
    """Hash of the built library."""
    return hashlib.sha256(build().read_bytes()).hexdigest()[:16]


class Call:
    """One call of a function of the library, which allocates nothing and releases the interpreter lock.

    `arguments` are the fields of its struct in cpu.cpp, in their order: integers, and tensors (None: no tensor), which
    it keeps alive. Raises BuildError.
    """

    __slots__ = ("arguments", "function", "words")

    def __init__(self, function: str, *arguments: Any) -> None:
        self.function = library()[f"rooflens_{function}"]
        self.function.restype = ctypes.c_int64
        self.arguments = arguments
        values = [each.data_ptr() if hasattr(each, "data_ptr") else int(each or 0) for each in arguments]
        self.words = (ctypes.c_int64 * len(values))(*values)

    def __call__(self) -> int:
        """Run it, and return what it returns."""
        result: int = self.function(self.words)
        return result
