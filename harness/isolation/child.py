"""What makes a process a good child: it dies with its parent, and what libraries print in it goes to a log."""

import ctypes
import io
import os
import signal
import sys
from pathlib import Path

from .descendants import MARK, adopt_orphans, mark


def die_with(parent: int) -> None:
    """Ask Linux to kill this process when the parent goes, even by SIGKILL, so that no orphan keeps the device.

    It leads a process group of its own and adopts orphans, so that the parent can end what a provider has started
    together with it.
    """
    os.setpgid(0, 0)
    # A Ctrl-C in the terminal is for the parent, which started this process with the signal blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    adopt_orphans()
    os.environ[MARK] = mark(os.getpid())
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def redirect_output(log: Path) -> None:
    """Send what libraries print to the log, below Python, where C++ prints as well; line by line, for who is killed."""
    for text in (sys.stdout, sys.stderr):
        if isinstance(text, io.TextIOWrapper):
            text.reconfigure(line_buffering=True)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.close(handle)
