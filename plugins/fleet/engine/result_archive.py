"""Result archives: one run folder, or one per arm, in one piece, as a worker returns it. On the disk a zip file."""

import io
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from ....shapes.errors import UsageError
from ....shapes.files.stored_file import MOST_SHRUNK, most_bytes
from ....shapes.run_folder.columns import TABLES
from ....shapes.run_folder.manifest import EVENTS, MANIFEST, WORKER_LOG

FILES = (MANIFEST, *(table.file for table in TABLES), EVENTS, WORKER_LOG)
"""The files of a run folder that are packed, if they exist."""

SUFFIX = ".zip"

_LEVEL = 1
"""Timings shrink to a quarter at once; the higher levels take ten times as long for a tenth less."""

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Python unpacks entries of any other method in one piece, however large."""

_NO_TIME = (1980, 1, 1, 0, 0, 0)


def pack(files: Mapping[str, bytes]) -> bytes:
    """Pack files by name; the same files give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _NO_TIME), content, zipfile.ZIP_DEFLATED, _LEVEL)
    return buffer.getvalue()


def unpack(content: bytes, name: str, part: str = "") -> dict[str, bytes]:
    """Return the files of the run folder `part` of an archive, and no others; errors as of `entries`."""
    wanted = {f"{part}/{file}" if part else file: file for file in FILES}
    return {wanted[entry]: text for entry, text in entries(content, name, wanted.__contains__).items()}


def entries(content: bytes, name: str, wanted: Callable[[str], bool] = lambda entry: True) -> dict[str, bytes]:
    """Return the entries of an archive. Raises UsageError with `name` if it is damaged, or unpacks to too much."""
    left = most_bytes(len(content))
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in filter(wanted, archive.namelist()):
                if archive.getinfo(entry).compress_type not in _METHODS:
                    raise ValueError(f"{entry} is neither stored nor deflated")
                with archive.open(entry) as file:
                    found[entry] = file.read(left + 1)  # what the directory says of its size may be wrong
                left -= len(found[entry])
                if left < 0:
                    raise UsageError(
                        f"{name} unpacks to more than {MOST_SHRUNK} times its size, which no timings do: "
                        "delete it, and its problem is measured again"
                    )
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, ValueError, EOFError) as error:
        raise UsageError(f"{name} is damaged ({error}): delete it, and its problem is measured again") from None
    return found


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a run folder."""
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}
