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

    `ending` is that of the files that are written in it without naming it; a run folder gets report.ENDING where
    `by_itself`. A `printable` one also has `printed(report, width, colour, ascii_only) -> str`. `with_signs`:
    never reduced to ASCII.
    """

    module: str
    ending: str = ""
    by_itself: bool = False
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
    "html": OutputFormat("html", ".html", by_itself=True, with_signs=True),
    "markdown": OutputFormat("markdown", ".md", by_itself=True),
    "comment": OutputFormat("comment"),
    "text": OutputFormat("text", ".txt", printable=True),
    "json": OutputFormat("json_form", ".json", printable=True),
    "digest": OutputFormat("digest", printable=True),
}
"""By name: `rooflens report -o FORMAT=FILE`."""
