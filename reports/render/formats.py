"""The output formats of a report. To add one, write a renderer and name it in `FORMATS`."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..model import Report
from .plain import as_ascii


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """A format: `module` of this package has `files(report, path, ascii_only) -> {path: bytes}`.

    `what` is the help of its option, `default` the name of the file that a run folder gets without any option. A
    `printable` one also has `printed(report, width, colour, ascii_only) -> str`. `with_signs`: never reduced to ASCII.
    """

    module: str
    what: str
    default: str = ""
    printable: bool = False
    with_signs: bool = False

    def files(self, report: Report, path: Path, ascii_only: bool = False) -> dict[Path, bytes]:
        """Render `report` for `path`: that file, and those that lie beside it."""
        shown = as_ascii(report) if ascii_only and not self.with_signs else report
        found: dict[Path, bytes] = self._renderer("files")(shown, path, ascii_only)
        return found

    def printed(self, report: Report, width: int, colour: bool, ascii_only: bool = False) -> str:
        """Render `report` for a terminal of `width` columns."""
        return str(self._renderer("printed")(as_ascii(report) if ascii_only else report, width, colour, ascii_only))

    def _renderer(self, function: str) -> Callable[..., Any]:
        renderer: Callable[..., Any] = getattr(importlib.import_module(f".{self.module}", __package__), function)
        return renderer


FORMATS = {
    "html": OutputFormat("html", "Write the page here.", default="report.html", with_signs=True),
    "markdown": OutputFormat("markdown", "Write the markdown here, and its figures beside it.", default="report.md"),
    "comment": OutputFormat("comment", "Write one file to paste into a pull request: markdown without images."),
    "text": OutputFormat("text", "Write plain text here; - is the terminal.", printable=True),
    "json": OutputFormat("json_form", "Write all of it for programs; - is stdout.", printable=True),
}
"""Name of a format; its option of `rooflens report` is written with dashes."""
