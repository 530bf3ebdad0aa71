"""Runs a command of rooflens in a process that ends with this one; reports its failure in one line."""

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...shapes.errors import IncompleteError, Interrupted, RooflensError, UsageError

_POLL_S = 0.2
_STOP_S = 30.0
_KILL_S = 5.0


def run_command(
    what: str,
    command: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    log: Path,
    should_stop: Callable[[], bool],
    look: Callable[[], None],
) -> bool:
    """Run `command` in `folder`; its output is appended to `log`, and `look` is called while it runs.

    False when it ended at its deadline, to be resumed. Raises Interrupted when `should_stop` or the command says so,
    and an error with the message of the command, about `what`.
    """
    code, output = run_logged(what, command, folder, variables, log, should_stop, look)
    if code == IncompleteError.exit_code:  # the next call resumes it
        return False
    # with a stop it got the Ctrl-C too, perhaps before it could say so
    if code == Interrupted.exit_code or (code and should_stop()):
        raise _interrupted(log)
    if code:
        raise _explained(what, code, output, log)
    return True


def run_logged(
    title: str,
    command: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    log: Path,
    should_stop: Callable[[], bool] = lambda: False,
    look: Callable[[], None] = lambda: None,
) -> tuple[int, list[str]]:
    """Run `command` as `run_command` does; return its exit code, and the lines that it has printed."""
    with log.open("a+b") as opened:
        opened.write(f"{title}\n".encode())
        opened.flush()
        began = opened.tell()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=opened,
            stderr=opened,
            preexec_fn=_end_with_parent,
        )
        try:
            while process.poll() is None:
                if should_stop():
                    raise _interrupted(log)
                look()
                time.sleep(_POLL_S)
        finally:
            _stop(process)
        opened.seek(began)
        return process.returncode, opened.read().decode(errors="replace").splitlines()


def _explained(what: str, code: int, output: list[str], log: Path) -> RooflensError:
    mark = "rooflens: error: "
    errors = [line.partition(mark)[2] for line in output if mark in line]
    message = (errors or output or [f"exit code {code}"])[-1]
    kind = UsageError if code == UsageError.exit_code else RooflensError
    return kind(f"{what}: {message}; see {log}")


def _interrupted(log: Path) -> Interrupted:
    return Interrupted(f"interrupted; finished rounds are in {log.parent}")


def _end_with_parent() -> None:
    """Ask Linux for a SIGTERM when the parent dies: the run then ends as after Ctrl-C, and keeps what it has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a run that is still running, and wait until it has stored what it has."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            with suppress(subprocess.TimeoutExpired):  # it hangs in a driver
                process.wait(_KILL_S)
