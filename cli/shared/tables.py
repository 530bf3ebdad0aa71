"""Sections and tables on stdout, rendered by `reports.render.terminal`; remarks go to stderr.

In a pipe there is no width, so that a row stays on its line for grep and awk, unless COLUMNS gives one.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ...reports.formatting import plural
from ...reports.listing import listing
from ...reports.model import Block, HowToRead, Remarks, Report, Section
from ...reports.render.formats import FORMATS
from ...reports.render.terminal import lines
from ...shapes.run_folder.columns import TUNING
from .terminal import own, style

if TYPE_CHECKING:
    import pandas as pd


NO_WIDTH = 10_000
"""Columns of a pipe."""


def show(*parts: Section | Block) -> None:
    """Print sections and blocks, an empty line before each section but the first; then remarks, on stderr."""
    blocks = tuple(part for part in parts if not isinstance(part, Section))
    whole = Section("", "", blocks, tuple(part for part in parts if isinstance(part, Section)))
    for line in lines(whole, terminal_width(), bold):
        click.echo(line)
    note(
        *(item for part in whole.walk() for block in part.blocks if isinstance(block, Remarks) for item in block.items)
    )


def print_report(report: Report, width: int, form: str = "text", ascii_only: bool = False) -> None:
    """Print a report in a format that can be printed."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    click.echo(own(FORMATS[form].printed(report, width, colour, ascii_only)), nl=False)


def print_chapters(report: Report) -> None:
    """Print a report of few chapters, without their definitions."""
    shown = (
        replace(section, blocks=tuple(block for block in section.blocks if not isinstance(block, HowToRead)))
        for section in report.sections
    )
    print_report(replace(report, sections=tuple(shown)), terminal_width())


def note(*remarks: str) -> None:
    """Print remarks on stderr."""
    for remark in remarks:
        click.echo(f"note: {remark}", err=True)


def print_table(names: Sequence[str], rows: Iterable[Sequence[object]], title: str = "", **layout: Any) -> None:
    """Print one table; the arguments are those of `listing`."""
    show(listing(names, rows, title, **layout))


def terminal_width() -> int:
    """Columns of the terminal, or of COLUMNS; a pipe without COLUMNS has no width to speak of."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size((NO_WIDTH, 24)).columns
    return NO_WIDTH


def bold(line: str) -> str:
    """Return a line in bold, where a terminal has it."""
    # click drops the style in a pipe; NO_COLOR is about boldness too.
    return line if os.environ.get("NO_COLOR") else style(line, bold=True)


MOST_FAILURES = 12
"""Notes on failed candidates; the table has the rest."""


def show_failures(frame: "pd.DataFrame") -> None:
    """Print each configuration that failed, once."""
    from ...analysis.tuning.searches import failures

    rows = failures(frame).to_dict("records")
    for row in rows[:MOST_FAILURES]:
        config = json.loads(row["config"] or "{}")
        name = " ".join((row["provider"], *(f"{key}={value}" for key, value in config.items())))
        count = f"{row['failed']} of {plural(row['searches'], 'search', 'searches')}"
        others = f"; and {plural(row['others'], 'other reason')}" if row["others"] else ""
        reason = f" ({row['reason']}{others})" if row["reason"] else ""
        note(f"{name}: {row['verdict'].replace('_', ' ')} in {count}{reason}")
    if len(rows) > MOST_FAILURES:
        more = plural(len(rows) - MOST_FAILURES, "more failed configuration")
        note(f"{more}: see verdict and reason in {TUNING.file}")
