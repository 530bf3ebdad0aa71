"""worker.log: what workers, and the libraries in them, print; the middle is dropped once it grows too large."""

import os
import re
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 16 << 20
"""A log above this size is trimmed."""

KEPT_BYTES = 4 << 20
"""So much of its beginning stays, and so much of its end."""

_NOTE = b"\n--- %015d bytes were dropped here\n"
_NOTE_BYTES = len(_NOTE % 0)
_NOTED = re.compile(rb"\n--- (\d{15}) bytes were dropped here\n")


def trim(log: Path) -> None:
    """Cut a log above `MOST_BYTES` down to its first and last `KEPT_BYTES`, and say between them what is missing.

    Others may append to it meanwhile (O_APPEND): they wait for nothing but the file system. Of a flood, what is written
    at the moment of the cut is lost without being counted. A log that cannot be trimmed is left as it is.
    """
    with suppress(OSError):
        if log.stat().st_size > MOST_BYTES:
            with log.open("r+b", buffering=0) as file:
                _cut(file.fileno())


def take(log: Path) -> bytes:
    """Return what a log holds and empty it; b"" without a log."""
    trim(log)
    try:
        with log.open("r+b") as file:
            content = file.read()
            file.truncate(0)
    except OSError:
        return b""
    return content


def _cut(file: int) -> None:
    noted = _NOTED.fullmatch(os.pread(file, _NOTE_BYTES, KEPT_BYTES))
    earlier = int(noted[1]) - _NOTE_BYTES if noted else 0
    copied, begin = 0, os.fstat(file).st_size - KEPT_BYTES
    # Once more for what was appended meanwhile, which may be last words; a flood is not run after.
    for _ in range(MOST_BYTES // KEPT_BYTES - 1):
        end = os.pread(file, KEPT_BYTES, begin + copied)
        copied += os.pwrite(file, end, KEPT_BYTES + _NOTE_BYTES + copied)
    dropped = earlier + os.fstat(file).st_size - KEPT_BYTES - copied
    os.pwrite(file, _NOTE % dropped, KEPT_BYTES)
    os.ftruncate(file, KEPT_BYTES + _NOTE_BYTES + copied)
