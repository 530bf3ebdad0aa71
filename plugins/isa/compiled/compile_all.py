"""Compile many kernels in parallel children, and cache the builds: the next call resumes where this one ended."""

import gzip
import hashlib
import json
import queue
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from ....kernels.aot import Build, BuildRequest, find_kernel, fingerprint
from ....kernels.cache_folder import keep_whole
from ....shapes.verdict import Verdict
from .aot_compiler import AotCompiler

FORMAT = 1
"""Of the files in the cache; they hold the fields of a Build."""

_KEPT = (Verdict.PASSED, Verdict.COMPILE_ERROR)
"""What is the same when it is tried again; a timeout or a death may not be."""

Task = tuple[str, BuildRequest]
"""An architecture and what to compile for it."""


class BuildCache:
    """Finished builds in a folder, one file each, named by a hash of everything that the result depends on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def key(self, arch: str, request: BuildRequest) -> str:
        """Hash architecture, arguments, constants and options, the kernel's source with all it calls, and Triton."""
        import triton

        source = find_kernel(request.kernel).cache_key
        text = json.dumps([FORMAT, fingerprint(arch, request), source, triton.__version__])
        return hashlib.sha256(text.encode()).hexdigest()

    def load(self, key: str) -> Build | None:
        """Return a finished build; None when there is none, or only a file that cannot be read."""
        try:
            row = json.loads(gzip.decompress((self._folder / f"{key}.json.gz").read_bytes()))
            return Build(**{**row, "verdict": Verdict(row["verdict"])})
        except (OSError, EOFError, ValueError, TypeError, KeyError):
            return None

    def keep(self, key: str, build: Build) -> None:
        """Store a build, whole or not at all; without space on the disk it is compiled again next time."""
        if build.verdict in _KEPT:
            keep_whole(self._folder / f"{key}.json.gz", gzip.compress(json.dumps(asdict(build)).encode(), 5, mtime=0))


def compile_all(
    tasks: Sequence[Task],
    cache: BuildCache,
    done: Callable[[int, Build, bool], None],
    jobs: int = 1,
    timeout_s: float = 120.0,
    files: Iterable[Path] = (),
) -> None:
    """Compile every task, in `jobs` child processes; a child that dies or hangs costs the task it was working on.

    done   called with the index of the task, its build, and whether that came from the cache; never concurrently
    files  of the user, whose providers' kernels are among the tasks
    Equal tasks are compiled once. On KeyboardInterrupt all children are ended; what was finished stays in the cache.
    """
    same: dict[str, list[int]] = {}
    for index, task in enumerate(tasks):
        same.setdefault(cache.key(*task), []).append(index)
    pending: queue.SimpleQueue[tuple[str, Task]] = queue.SimpleQueue()
    missing = 0
    for key, indices in same.items():
        if build := cache.load(key):
            for index in indices:
                done(index, build, True)
        else:
            pending.put((key, tasks[indices[0]]))
            missing += 1
    if not missing:
        return
    finished: queue.SimpleQueue[tuple[str, Build] | BaseException] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="rooflens-isa-") as folder:
        compilers = [AotCompiler(Path(folder, str(number)), timeout_s, files) for number in range(min(jobs, missing))]
        threads = [threading.Thread(target=_work, args=(one, pending, finished), daemon=True) for one in compilers]
        try:
            for thread in threads:
                thread.start()
            for _ in range(missing):
                result = finished.get()
                if isinstance(result, BaseException):
                    raise result
                key, build = result
                cache.keep(key, build)
                for index in same[key]:
                    done(index, build, False)
        finally:
            with suppress(queue.Empty):
                while True:
                    pending.get_nowait()
            for one in compilers:
                one.stop()
            for thread in threads:
                thread.join(10)


def _work(
    compiler: AotCompiler,
    pending: "queue.SimpleQueue[tuple[str, Task]]",
    finished: "queue.SimpleQueue[tuple[str, Build] | BaseException]",
) -> None:
    """Take tasks until there are none; every exception ends the whole call."""
    try:
        while True:
            key, task = pending.get_nowait()
            finished.put((key, compiler.build(*task)))
    except queue.Empty:
        compiler.stop()
    except BaseException as error:
        finished.put(error)
