"""Compile ahead of time in a child process: one order at a time, and a death that costs one of them.

A compile that fails inside LLVM can abort its process, and it must not happen where TRITON_INTERPRET is set.
"""

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

from ....kernels.aot import Build, Request, diagnosis, last_line
from ....shapes.errors import RooflensError
from ....shapes.verdict import Verdict

START_S = 300.0
"""Most time that a child may take to import Triton."""

END_S = 5.0
"""Time in which a killed child ends."""


class AotCompiler:
    """Compiles requests one after the other in a child process, which is replaced when it dies.

    cache  folder for Triton's cache; files  of the user, whose providers' kernels are to be found
    """

    def __init__(self, cache: Path, timeout_s: float = 300.0, files: Iterable[Path] = ()) -> None:
        self._cache, self._timeout_s, self._files = cache, timeout_s, [str(file.resolve()) for file in files]
        self._child: subprocess.Popen[bytes] | None = None
        self._results: IO[bytes] | None = None
        self._messages: IO[bytes] | None = None

    def __enter__(self) -> "AotCompiler":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def kill(self) -> None:
        """End the child from another thread: the build in work becomes a crash."""
        if child := self._child:
            child.kill()

    def stop(self) -> None:
        """End the child, whatever it does."""
        child, self._child = self._child, None
        if child:
            child.kill()
            with suppress(subprocess.TimeoutExpired):
                child.wait(END_S)
        for file in (child.stdin if child else None, self._results, self._messages):
            if file:
                with suppress(OSError):
                    file.close()

    def build(self, arch: str, request: Request) -> Build:
        """Compile one request for one of KNOWN_ARCHES."""
        if self._child is None:
            self._start()
        order = json.dumps({"arch": arch, "request": asdict(request)}).encode() + b"\n"
        assert self._child is not None
        assert self._child.stdin is not None
        assert self._messages is not None
        before = self._messages.seek(0, os.SEEK_END)
        try:
            self._child.stdin.write(order)
            self._child.stdin.flush()
            line = self._line(self._timeout_s)
        except BrokenPipeError:
            line = b""
        except TimeoutError:
            self.stop()
            return Build(Verdict.TIMEOUT, f"not compiled after {self._timeout_s:g} s")
        if not line.endswith(b"\n"):
            return Build(Verdict.CRASHED, self._last_words())
        row = json.loads(line)
        build = Build(**{**row, "verdict": Verdict(row["verdict"])})
        # MLIR and LLVM explain themselves on stderr only, and may go on after an error
        explained = diagnosis(self._written(before))
        reason = ": ".join(filter(None, (build.reason, explained)))
        return replace(build, reason=reason) if explained else build

    def _start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        environment |= {"TRITON_CACHE_DIR": str(self._cache), "TRITON_DEFAULT_FP_FUSION": "1"}
        # Results have a pipe of their own: the compiler itself prints to stdout and stderr.
        reading, writing = os.pipe()
        self._results = os.fdopen(reading, "rb", buffering=0)
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115  `stop` closes it
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "rooflens.plugins.isa.compiled.aot_child", str(writing), *self._files],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._messages,
                pass_fds=(writing,),
            )
        finally:
            os.close(writing)
        try:
            ready = self._line(START_S)
        except TimeoutError:
            ready = b""
        if not ready:
            raise RooflensError(f"the compiler process did not start: {self._last_words()}")

    def _line(self, timeout_s: float) -> bytes:
        """Return the next line of results, cut short where the child ended; raise TimeoutError."""
        assert self._results is not None
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._results, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(timeout_s):
                    raise TimeoutError
                part = self._results.read(1 << 20)
                if not part:
                    break
                line += part
        return line

    def _last_words(self) -> str:
        """Wait for the end of the child; return its exit status and the last line of what it wrote."""
        assert self._child is not None
        assert self._messages is not None
        try:
            status = str(self._child.wait(10))
        except subprocess.TimeoutExpired:
            status = "none"
        text = self._written(0)
        self.stop()
        return f"exit status {status}: {diagnosis(text) or last_line(text)}"

    def _written(self, start: int) -> str:
        """Return what the child wrote to stderr from byte `start` on."""
        assert self._messages is not None
        self._messages.seek(start)
        return self._messages.read().decode(errors="replace")
