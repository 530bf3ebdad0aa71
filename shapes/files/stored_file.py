"""Read files of run folders, which may come from anybody: regular ones only, and compressed ones up to a limit."""

import errno
import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import BinaryIO

from ..errors import UsageError

MOST_SHRUNK = 100
"""Factor by which tables may shrink when they are compressed; those of the stored runs do by 13 at most."""

SMALL_BYTES = 16 << 20
"""What a compressed file may hold beyond that: a table of one repeated row shrinks more, and is short."""


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read its bytes. Raises OSError also for a pipe, whose writer may never come, and for a device."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def read_stored(path: Path) -> bytes:
    """Return the content of a file, unpacked if its name ends with .gz.

    Raises OSError, and EOFError and zlib.error for what is damaged, and UsageError for what unpacks to too much.
    """
    with open_regular(path) as file:
        content = file.read()
    if path.suffix != ".gz":
        return content
    most = most_bytes(len(content))
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        found = packed.read(most + 1)
    if len(found) > most:
        raise UsageError(
            f"{path} unpacks to more than {MOST_SHRUNK} times its size, which no timings do; restore it from a copy"
        )
    return found


def open_table(path: Path) -> BinaryIO | None:
    """Open a table of a run folder, or its compressed form `path`.gz, to read CSV; None where there is neither.

    Raises UsageError for one that cannot be read.
    """
    packed = path.with_name(f"{path.name}.gz")
    try:
        return open_regular(path) if path.exists() or not packed.exists() else io.BytesIO(read_stored(packed))
    except FileNotFoundError:
        return None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"{packed} is no whole gzip file ({error}); restore it from a copy") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def most_bytes(packed_bytes: int) -> int:
    """Bytes that a compressed file of `packed_bytes` may hold."""
    return SMALL_BYTES + MOST_SHRUNK * packed_bytes
