"""The only place of `reports` that touches the disk: every file through a temporary one beside it and `os.replace`."""

import os
import tempfile
from pathlib import Path

from ..shapes.errors import RooflensError
from .figures import png
from .model import Report
from .render import html as html_renderer
from .render import json_form
from .render import markdown as markdown_renderer
from .render import text as text_renderer
from .render.markdown_blocks import data_path, image_path
from .render.plain import as_ascii


def write_report(
    report: Report,
    html: Path | None,
    markdown: Path | None,
    *,
    text: Path | None = None,
    json: Path | None = None,
    ascii_only: bool = False,
) -> list[Path]:
    """Render `report` to the files that are asked for; return what was written, in order.

    Beside the markdown lie what does not fit into its first body (STEM-2.md, ...), and images and data of its figures.
    `ascii_only`: signs in ASCII, in all but the page. Everything is rendered before anything is written, and a file is
    replaced whole or not at all. Raises RooflensError when the disk does not take it.
    """
    plain = as_ascii(report) if ascii_only else report
    contents: dict[Path, bytes] = {}
    if html is not None:
        contents[html] = html_renderer.render(report).encode("utf-8")
    if markdown is not None:
        contents |= _markdown(plain, markdown, ascii_only)
    if text is not None:
        contents[text] = text_renderer.render(plain).encode("utf-8")
    if json is not None:
        contents[json] = json_form.render(plain, ascii_only).encode("utf-8")
    for path, content in contents.items():
        write_bytes(path, content)
    return list(contents)


def _markdown(report: Report, path: Path, ascii_only: bool) -> dict[Path, bytes]:
    rendered = markdown_renderer.render(report, stem=path.stem, ascii_only=ascii_only)
    contents: dict[Path, bytes] = {}
    for figure in rendered.figures:
        contents[path.parent / image_path(figure)] = png.draw(figure)
        if figure.data is not None:
            contents[path.parent / data_path(figure)] = figure.data.csv().encode("utf-8", "backslashreplace")
    contents[path] = rendered.text.encode("utf-8")
    return contents | {path.parent / name: body.encode("utf-8") for name, body in rendered.parts}


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
