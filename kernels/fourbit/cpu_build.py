"""Build the CPU kernels once per machine, with the system's C++ compiler, into a plain shared library.

The library lives in the user's cache, never in the package, under a name that contains a hash of everything that it is
made of: sources, flags, compiler version and machine. It is written to a temporary name and moved into place, so that
processes may race for it and a build that dies leaves no broken library.
"""

import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...shapes.errors import RooflensError
from ..cache_folder import cache_folder

SOURCES = ("cpu_entry.cpp", "cpu_gemm.cpp", "cpu_memory.cpp", "cpu_api.hpp", "cpu_arithmetic.hpp", "cpu_simd.hpp")
"""Files of the library, beside this module."""

FOLDER = Path(__file__).parent
"""Folder of the sources."""

NO_COMPILER = "no C++ compiler: apt install g++ (or conda install cxx-compiler), or set CXX to one"

_COMMON = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-w")
_LINK = ("-shared", "-pthread", "-ldl") if platform.system() == "Linux" else ("-shared", "-pthread")
_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq")
# sums of products may be contracted to FMA; dequantization must round exactly as separate operations do
_GEMM, _EXACT = ("-fno-exceptions", "-ffp-contract=fast"), ("-fno-exceptions", "-ffp-contract=off")


_failed: dict[Path, str] = {}


class BuildError(RooflensError):
    """The CPU kernels could not be built: no compiler, a compile error, or a cache that cannot be written."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler: the words of its command, and the first line of what it says about itself."""

    command: tuple[str, ...]
    version: str


def compiler_command() -> tuple[str, ...] | None:
    """Command of the compiler to use: $CXX if set (None when that is not a program), else g++, clang++ or c++."""
    if named := shlex.split(os.environ.get("CXX", "")):
        return tuple(named) if shutil.which(named[0]) else None
    return next(((name,) for name in ("g++", "clang++", "c++") if shutil.which(name)), None)


def build() -> Path:
    """Return the library for these sources, this compiler and this machine, building it if it is not there yet.

    Raises BuildError with the first lines of the compiler's output.
    """
    command = compiler_command()
    if command is None:
        raise BuildError(NO_COMPILER)
    compiler = _identify(command)
    folder = cache_folder()
    library = folder / f"cpu4bit-{_key(compiler)}.so"
    if library.exists():
        return _trusted(library)
    if library in _failed:  # a sweep asks for every cell; the answer would be the same, some seconds later
        raise BuildError(_failed[library])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if not library.exists():  # another process may have built it meanwhile
                with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as temporary:
                    os.replace(_compile(compiler, Path(temporary)), library)
    except BuildError as error:
        _failed[library] = str(error)
        raise
    except OSError as error:
        raise BuildError(
            f"cannot write the CPU kernels to {folder}: {error.strerror or error}; set ROOFLENS_CACHE to another folder"
        ) from error
    return _trusted(library)


def _trusted(library: Path) -> Path:
    """Return `library`. Raises BuildError when another user may have made it: to load it is to run what they wrote."""
    for path in (library.parent, library):
        found = path.stat()
        if found.st_uid not in (os.getuid(), 0):
            raise BuildError(f"{path} belongs to another user: set ROOFLENS_CACHE to a folder of your own")
        if found.st_mode & stat.S_IWOTH:
            raise BuildError(f"everybody may write to {path}: chmod o-w it, or set ROOFLENS_CACHE to another folder")
    return library


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep others waiting: a compile takes all cores, and several of the same one take as many times as long."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # the kernel lets go of it when the process ends, however it ends
        yield
    finally:
        os.close(handle)


def compiler_version() -> str:
    """First line of the version of the compiler in use; "" without one."""
    command = compiler_command()
    return _identify(command).version if command else ""


def objects() -> list[tuple[str, str, tuple[str, ...]]]:
    """List what is compiled on this machine: (source, instruction set, flags)."""
    sets: dict[str, tuple[str, ...]] = {"portable": ()}
    if platform.machine().lower() in ("x86_64", "amd64"):
        sets |= {"avx2": _AVX2, "avx512": _AVX512, "avx512bf16": (*_AVX512, "-mavx512bf16")}
    gemms = [("cpu_gemm.cpp", isa, (*flags, *_GEMM)) for isa, flags in reversed(sets.items())]  # the slowest first
    memory = [("cpu_memory.cpp", isa, (*flags, *_EXACT)) for isa, flags in sets.items() if isa != "avx512bf16"]
    return [*gemms, *memory, ("cpu_entry.cpp", "", ("-ffp-contract=off", "-pthread"))]


@cache
def _identify(command: tuple[str, ...]) -> Compiler:
    lines = _run((*command, "--version")).splitlines()
    return Compiler(command, lines[0] if lines else "")


def _key(compiler: Compiler) -> str:
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update((FOLDER / name).read_bytes())
    digest.update(repr((compiler, platform.machine(), _COMMON, _LINK, objects())).encode())
    return digest.hexdigest()[:20]


def _compile(compiler: Compiler, folder: Path) -> Path:
    def one(job: tuple[str, str, tuple[str, ...]]) -> str:
        source, isa, flags = job
        target = folder / f"{Path(source).stem}-{isa}.o"
        _run((*compiler.command, *_COMMON, *flags, f"-DISA={isa}", "-c", str(FOLDER / source), "-o", str(target)))
        return str(target)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        targets = list(pool.map(one, objects()))
    library = folder / "library.so"
    _run((*compiler.command, *targets, "-o", str(library), *_LINK))
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
        f"the C++ compiler {command[0]} failed: {said}; the kernels need GCC 10, Clang 10 or newer (set CXX)"
    )
