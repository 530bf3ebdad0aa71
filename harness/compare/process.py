"""Runs a command in a process that ends with this one, and logs what it prints."""

import ctypes
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...shapes.errors import Interrupted
from ..isolation.descendants import END_S, MARK, end_with_all, mark

_POLL_S = 0.2


def run_logged(
    title: str,
    command: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    log: Path,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[int, list[str]]:
    """Run `command` in `folder`; return its exit code, and the lines that it has printed, which `log` has as well.

    Raises Interrupted when `should_stop` says so; all that the command has started ends with it.
    """
    own = secrets.token_hex(8)
    with log.open("a+b") as opened:
        opened.write(f"{title}\n".encode())
        opened.flush()
        began = opened.tell()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**variables, MARK: own},
            stdin=subprocess.DEVNULL,
            stdout=opened,
            stderr=opened,
            preexec_fn=_end_with_parent,
        )
        marked = mark(process.pid)
        try:
            while process.poll() is None:
                if should_stop():
                    raise Interrupted("interrupted")
                time.sleep(_POLL_S)
        finally:
            if process.poll() is None:
                end_with_all(process.pid, marked)
                end_with_all(process.pid, own)  # what has left it
                with suppress(subprocess.TimeoutExpired):  # it hangs in a driver
                    process.wait(END_S)
        opened.seek(began)
        return process.returncode, opened.read().decode(errors="replace").splitlines()


def _end_with_parent() -> None:
    """Ask Linux for a SIGTERM when the parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
