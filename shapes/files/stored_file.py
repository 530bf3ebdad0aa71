"""Read files of run folders, which may come from anybody: regular ones only, and compressed ones up to a limit."""

import errno
import gzip
import io
import lzma
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import UsageError

_OPENERS: dict[str, Callable[[BinaryIO], Any]] = {".xz": lzma.open, ".gz": gzip.open}

COLUMNS = ".columns.xz"
"""Ends the name of a table that is stored column by column, as `by_columns` writes it."""

_FORMS = (*_OPENERS, COLUMNS)

MOST_COLUMNS = 100
"""No table has as many; each takes memory beyond its bytes."""

MOST_SHRUNK = 100
"""Factor by which long tables may shrink when they are compressed; samples of stored runs do by 10, cells by 123."""

SMALL_BYTES = 16 << 20
"""What a compressed file may hold beyond that: cells, which repeat themselves, shrink more, and are few."""


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read its bytes. Raises OSError also for a pipe, whose writer may never come, and for a device."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def read_stored(path: Path) -> bytes:
    """Return the content of a file, unpacked if its name ends with .xz or .gz, by rows if with .columns.xz.

    Raises OSError, and EOFError, ValueError, zlib.error and lzma.LZMAError for what is damaged, and UsageError for what
    unpacks to too much.
    """
    with open_regular(path) as file:
        content = file.read()
    if path.suffix not in _OPENERS:
        return content
    most = most_bytes(len(content))
    with _OPENERS[path.suffix](io.BytesIO(content)) as packed:
        found: bytes = packed.read(most + 1)
    if len(found) > most:
        raise UsageError(
            f"{path} unpacks to more than {MOST_SHRUNK} times its size, which no timings do; restore it from a copy"
        )
    return _by_rows(found) if path.name.endswith(COLUMNS) else found


def by_columns(content: bytes) -> bytes:
    """Transpose a CSV file in which nothing is quoted: a field a line, and a form feed between two columns.

    A last line without its line break is left out. Compressed, samples are a third smaller than by rows.
    """
    rows = [line.split(b",") for line in content[: content.rindex(b"\n")].split(b"\n")]
    return b"\f".join(b"\n".join(column) for column in zip(*rows, strict=True))


def _by_rows(content: bytes) -> bytes:
    """Undo `by_columns`. Raises ValueError for more columns than a table has, and for columns that differ in length."""
    if content.count(b"\f") >= MOST_COLUMNS:
        raise ValueError(f"it has more than {MOST_COLUMNS} columns")
    columns = (column.split(b"\n") for column in content.split(b"\f"))
    return b"".join(b",".join(row) + b"\n" for row in zip(*columns, strict=True))


def open_table(path: Path) -> BinaryIO | None:
    """Open a table of a run folder, or the compressed form of it that is there, to read CSV; None without one.

    Raises UsageError for one that cannot be read.
    """
    found = path if path.exists() else compressed(path) or path
    try:
        return open_regular(path) if found == path else io.BytesIO(read_stored(found))
    except FileNotFoundError:
        return None
    except (gzip.BadGzipFile, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise UsageError(f"{found} is damaged ({error}); restore it from a copy") from None
    except OSError as error:
        raise UsageError(f"cannot read {found}: {error.strerror or error}") from None


def compressed(path: Path) -> Path | None:
    """Return the compressed form of a table that is there: `path` with .xz, .gz or .columns.xz."""
    forms = (path.with_name(path.name + suffix) for suffix in _FORMS)
    return next((form for form in forms if form.exists()), None)


def most_bytes(packed_bytes: int) -> int:
    """Bytes that a compressed file of `packed_bytes` may hold."""
    return SMALL_BYTES + MOST_SHRUNK * packed_bytes
