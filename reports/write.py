"""The only place of `reports` that touches the disk: every file through a temporary one beside it and `os.replace`."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..shapes.errors import RooflensError
from .model import Report
from .render.formats import FORMATS


def write_report(report: Report, files: Mapping[str, Path | None], ascii_only: bool = False) -> list[Path]:
    """Render `report` to `files` (name of a format -> path, None for none); return what was written, in order.

    `ascii_only`: signs in ASCII, in all but the page. Everything is rendered before anything is written, and a file is
    replaced whole or not at all. Raises RooflensError when the disk does not take it.
    """
    contents: dict[Path, bytes] = {}
    for name, path in files.items():
        if path is not None:
            contents |= FORMATS[name].files(report, path, ascii_only)
    for path, content in contents.items():
        write_bytes(path, content)
    return list(contents)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically; raise RooflensError, one line, when that fails. Nothing half-written stays behind."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise RooflensError(f"cannot write {path}: {reason}; free some space or choose another place for it") from None


def _umask() -> int:
    """Return the process's umask (mkstemp makes files private, a report is not)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
