"""Renders the lines of a Report for a commit message: plain ASCII, 72 columns."""

from pathlib import Path

from ..model import Report
from .plain import as_ascii
from .text import render_digest


def files(report: Report, path: Path, ascii_only: bool) -> dict[Path, bytes]:
    """Render for `path`."""
    return {path: render_digest(as_ascii(report)).encode("utf-8")}


def printed(report: Report, width: int, colour: bool, ascii_only: bool) -> str:
    """Render for stdout, as wide as a commit message."""
    return render_digest(as_ascii(report))
