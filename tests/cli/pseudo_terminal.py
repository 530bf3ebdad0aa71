"""What a process of Python shows on a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path


def on_terminal(
    *arguments: str, columns: int, cwd: Path | None = None, streams: tuple[str, ...] = ("stdout",), **environment: str
) -> str:
    """Run Python with a pseudo-terminal of `columns` as these streams; return what arrived there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    variables = {**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment}
    ends = dict.fromkeys(streams, theirs)
    with subprocess.Popen([sys.executable, *arguments], cwd=cwd, env=variables, **ends) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # Linux reports the closed terminal as an error
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode().replace("\r\n", "\n")
