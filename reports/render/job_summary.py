"""Renders a Report as the summary of a GitHub Actions job: the markdown of a pull request, whole and without images.

Source: GitHub's documentation of workflow commands, "Adding a job summary": GitHub-flavoured markdown, at most 1 MiB
per step. The file GITHUB_STEP_SUMMARY is on the runner only, so that nothing can lie beside it.
"""

from dataclasses import replace
from pathlib import Path

from ..figures.chart import Figure
from ..model import Report, Section, Text
from . import markdown

LIMIT = 1024 * 1024
"""Bytes of a summary."""

_MOST_BYTES = 4
"""Bytes of one character, at most."""


def files(report: Report, path: Path, ascii_only: bool) -> dict[Path, bytes]:
    """Render for `path`."""
    return {path: render(report, ascii_only).encode("utf-8")}


def render(report: Report, ascii_only: bool = False) -> str:
    """Return the report in one body of at most `LIMIT` bytes; a longer one is cut, and says so."""
    whole = replace(report, sections=tuple(map(_without_images, report.sections)))
    text = markdown.render(whole, limit=1000 * LIMIT, ascii_only=ascii_only).text
    if len(text.encode("utf-8")) <= LIMIT:
        return text
    end = "\n\n*Left out for length: the rest; the HTML report has all of it.*\n"
    return markdown.cut(text, LIMIT // _MOST_BYTES - len(end)) + end


def _without_images(section: Section) -> Section:
    """Replace each figure by its finding."""
    blocks = tuple(Text(block.alt) if isinstance(block, Figure) else block for block in section.blocks)
    return replace(section, blocks=blocks, sections=tuple(map(_without_images, section.sections)))
