"""The library of the CPU: built once, atomically, outside of the package, with errors that say what to do."""

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from rooflens.kernels.cache_folder import cache_folder
from rooflens.kernels.fourbit import cpu_library
from rooflens.kernels.fourbit.cpu import SIMD_CPU
from rooflens.shapes.problem import Problem

from .devices import CPU
from .synthetic import scheme_of

SCHEME = scheme_of("nf4-g64")

# Stands for g++: prints its macros for -dM, takes a moment, and writes the file named after -o.
FAKE = """#!/bin/sh
case "$*" in *-dM*) echo "#define __AVX2__ 1"; exit 0;; esac
echo "$@" >> "{log}"
sleep 0.05
while [ $# -gt 1 ]; do [ "$1" = -o ] && echo built > "$2"; shift; done
"""

BROKEN = """#!/bin/sh
case "$*" in *-dM*) exit 0;; esac
echo "$@" >> "{log}"
echo "In file included from x.cpp:1:" >&2
echo "x.cpp:7:3: error: 'F16' does not name a type" >&2
exit 1
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ROOFLENS_CACHE", str(folder))
    return folder


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return `compiler(text=FAKE, name="g++")`: put a script in the place of the compiler; the log of its calls."""

    def install(text: str = FAKE, name: str = "g++") -> Path:
        path = tmp_path / name
        path.write_text(text.format(log=tmp_path / "log"), encoding="utf-8")
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))
        return tmp_path / "log"

    return install


def lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()


def test_builds_once_into_the_cache(cache: Path, compiler: Callable[..., Path]) -> None:
    log = compiler()
    library = cpu_library.build()
    assert library.parent == cache
    assert library.read_text(encoding="utf-8") == "built\n"
    for _ in range(2):
        assert len(lines(log)) == 1
        cpu_library._build.cache_clear()
        assert cpu_library.build() == library
    assert [path.name for path in cache.iterdir()] == [library.name], "temporary files are left"


def test_each_cpu_and_each_flag_has_its_library(cache, compiler, monkeypatch):
    """Machines may share a cache: a compiler that defines other macros there makes another library."""
    names = set()
    for macro, flags in (("__AVX2__", ""), ("__AVX512F__", ""), ("__AVX512F__", "-march=x86-64")):
        compiler(FAKE.replace("__AVX2__", macro))
        monkeypatch.setenv("CXXFLAGS", flags)
        cpu_library._build.cache_clear()
        names.add(cpu_library.build().name)
    assert len(names) == 3


def test_processes_may_race(cache: Path, compiler: Callable[..., Path]) -> None:
    compiler()
    code = "from rooflens.kernels.fourbit import cpu_library; print(cpu_library.build())"
    racing = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    built = {process.communicate(timeout=60)[0].strip() for process in racing}
    assert all(process.returncode == 0 for process in racing)
    assert [str(path) for path in cache.iterdir()] == list(built)


def test_no_compiler(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install g++" in SIMD_CPU.supports(Problem(1, 64, 64), SCHEME, CPU).reason
    with pytest.raises(cpu_library.BuildError, match="apt install g"):
        cpu_library.build()
    monkeypatch.setenv("CXX", "no-such-compiler-42")
    assert "CXX" in SIMD_CPU.supports(Problem(1, 64, 64), SCHEME, CPU).reason


def test_cxx_may_have_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", f"{sys.executable} -O")
    assert cpu_library.compiler_command() == (sys.executable, "-O")


def test_compile_failure_shows_the_compilers_error(cache: Path, compiler: Callable[..., Path]) -> None:
    log = compiler(BROKEN, "bad++")
    with pytest.raises(cpu_library.BuildError, match=r"bad\+\+ failed: x.cpp:7:3: error: 'F16'") as caught:
        cpu_library.build()
    assert "\n" not in str(caught.value)
    assert list(cache.iterdir()) == []
    tried = lines(log)
    with pytest.raises(cpu_library.BuildError, match="F16"):
        cpu_library.build()
    assert lines(log) == tried, "a build that failed is tried again for every cell"


def test_cache_that_cannot_be_written(tmp_path, monkeypatch, compiler):
    compiler()
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("ROOFLENS_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(cpu_library.BuildError, match="ROOFLENS_CACHE"):
        cpu_library.build()


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFLENS_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/own")
    monkeypatch.delenv("ROOFLENS_CACHE")
    assert cache_folder() == Path("/xdg/rooflens")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "rooflens"


@pytest.mark.parametrize("home", [None, "", "relative"])
@pytest.mark.parametrize("known", [False, True])
def test_without_a_home_no_cache_is_where_others_expect_it(home, known, tmp_path, monkeypatch):
    """Neither in the working directory nor in the root: what the table of users says, else a folder of one's own."""
    monkeypatch.delenv("ROOFLENS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", home) if home is not None else monkeypatch.delenv("HOME")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def entry(user: int) -> SimpleNamespace:
        if not known:
            raise KeyError
        return SimpleNamespace(pw_dir="/home/me")

    monkeypatch.setattr(pwd, "getpwuid", entry)
    found = cache_folder()
    if known:
        assert found == Path("/home/me/.cache/rooflens")
    else:
        assert found.parent == tmp_path / f"rooflens-{os.getuid()}"
        assert found.parent.stat().st_mode & 0o777 == 0o700


def test_a_library_that_others_may_have_written_is_not_loaded(cache: Path, compiler: Callable[..., Path]) -> None:
    compiler()
    library = cpu_library.build()
    for path in (cache, library):
        before = path.stat().st_mode & 0o777
        path.chmod(0o777)
        with pytest.raises(cpu_library.BuildError, match=f"everybody may write to {path}: chmod o-w it"):
            cpu_library.build()
        path.chmod(before)
    assert cpu_library.build() == library


@pytest.mark.skipif(cpu_library.compiler_command() is None, reason=cpu_library.NO_COMPILER)
def test_without_openmp_threads_end_with_the_call() -> None:
    """In a process without torch: the sum of all words, by three threads, of which two are gone afterwards."""
    code = """
import array, os, sys
from rooflens.kernels.fourbit.cpu_library import Call
words = array.array("q", range(3 * 4096))
call = Call("sweep", words.buffer_info()[0], None, 8 * len(words), 5, False, 3)
assert [call() for _ in range(20)] == [5 * sum(words)] * 20
assert "torch" not in sys.modules
if os.path.isdir("/proc/self/task"):
    assert len(os.listdir("/proc/self/task")) == 1
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
