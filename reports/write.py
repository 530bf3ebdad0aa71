"""The only place of `reports` that touches the disk: every file through a temporary one beside it and `os.replace`."""

import os
import tempfile
from pathlib import Path

from ..shapes.errors import RooflensError
from . import html as html_renderer
from . import markdown as markdown_renderer
from . import png
from .model import Report


def write_report(report: Report, html: Path | None, markdown: Path | None) -> list[Path]:
    """Render `report` to the files that are asked for; return what was written, images included, in order.

    Everything is rendered before anything is written, and a file is replaced whole or not at all. Raises RooflensError
    when the disk does not take it.
    """
    contents: dict[Path, bytes] = {}
    if html is not None:
        contents[html] = html_renderer.render(report).encode("utf-8")
    if markdown is not None:
        rendered = markdown_renderer.render(report)
        for figure in rendered.figures:
            contents[markdown.parent / markdown_renderer.image_path(figure)] = png.draw(figure)
        contents[markdown] = rendered.text.encode("utf-8")
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
