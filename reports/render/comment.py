"""Renders a Report as one comment on a pull request, or the summary of a CI job: markdown without images or files.

GitHub takes 65,536 characters, and what lies beside the file is not there: so the figures of the first chapter are bars
of text, other figures their findings, and no link is relative.
"""

from dataclasses import replace
from pathlib import Path

from ..figures.chart import Bar, Figure
from ..model import Block, CodeBlock, Report, Section, Table, Text
from . import markdown

LIMIT = 65_000
"""Characters of a comment."""

WIDTH = 24
"""Characters of the longest bar."""

_EIGHTHS = " ▏▎▍▌▋▊▉"


def files(report: Report, path: Path, ascii_only: bool) -> dict[Path, bytes]:
    """Render for `path`."""
    return {path: render(report, ascii_only).encode("utf-8")}


def render(report: Report, ascii_only: bool = False) -> str:
    """Return the report in at most `LIMIT` characters."""
    short = markdown.in_short(markdown.without_listings(report))
    alone = tuple(_alone(section, ascii_only) for section in short.sections)
    return markdown.render(replace(short, sections=alone), LIMIT, ascii_only).text


def bars(rows: tuple[Bar, ...], ascii_only: bool = False) -> str:
    """Draw bars whose lengths are in proportion to their values, one a line."""
    longest = max(row.value for row in rows) or 1.0
    left, right = max(len(row.label) for row in rows), max(len(row.text) for row in rows)
    return "\n".join(
        f"{row.label:<{left}}  {row.text:>{right}}  {_bar(row.value / longest, ascii_only)}".rstrip() for row in rows
    )


def _bar(share: float, ascii_only: bool) -> str:
    if ascii_only:
        return "#" * round(share * WIDTH)
    whole, eighths = divmod(round(share * WIDTH * 8), 8)
    return "█" * whole + _EIGHTHS[eighths].strip()


def _alone(section: Section, ascii_only: bool) -> Section:
    blocks = tuple(_block(block, ascii_only) for block in section.blocks)
    return replace(section, blocks=blocks, sections=tuple(_alone(part, ascii_only) for part in section.sections))


def _block(block: Block, ascii_only: bool) -> Block:
    match block:
        case Figure(bars=()):
            return Text(block.alt)
        case Figure():
            return CodeBlock(f"{block.title}\n\n{bars(block.bars, ascii_only)}", "text")
        case Table():
            rows = tuple(tuple(replace(cell, link="") for cell in row) for row in block.rows)
            return replace(block, rows=rows)
    return block
