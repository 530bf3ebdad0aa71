"""Tables on stdout, laid out by `reports.render.layout`.

In a pipe there is no width, so that a row stays on its line for grep and awk, unless COLUMNS gives one.
"""

import os
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence

import click

from ...reports.render.layout import Table, lay_out, wrap
from .terminal import style

NO_WIDTH = 10_000
"""Columns of a pipe."""

_UNBROKEN = "\N{WORD JOINER}"
"""Stands for a blank at which a line is not wrapped."""


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str = "",
    *,
    once: Collection[str] = (),
    long: Sequence[str] = (),
    heading: Collection[str] = (),
) -> None:
    """Print rows under `columns`, numbers to the right; unknown values (None) are blank. The header is bold.

    `once`: columns that are said in one line above the table where all rows agree. `long`: texts of sentences. Both
    are left out where no row has any; the first named is the first that leaves its row. `heading`: what several rows
    have in common.
    """
    width = terminal_width()
    body = [["" if value is None else str(value) for value in row] for row in rows]
    table, said = _without_constants(Table(tuple(columns), body), once, long)
    for line in filter(None, (title, said)):
        click.echo("\n".join(wrap(line, width)).replace(_UNBROKEN, " "))
    if not table.names:
        return
    header, lines = lay_out(table, width, long, heading)
    for line in header:
        # click drops the style in a pipe; NO_COLOR is about boldness too.
        click.echo(line if os.environ.get("NO_COLOR") else style(line, bold=True))
    for line in lines:
        click.echo(line)


def terminal_width() -> int:
    """Columns of the terminal, or of COLUMNS; a pipe without COLUMNS has no width to speak of."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size((NO_WIDTH, 24)).columns
    return NO_WIDTH


def _without_constants(table: Table, once: Collection[str], long: Collection[str]) -> tuple[Table, str]:
    """Take out the columns that are the same in all rows, and say their values in one line."""
    said, gone = [], []
    for name, cells in zip(table.names, table.columns(), strict=True):
        values = set(cells)
        if values <= {""} and name in (*once, *long):
            gone.append(name)
        elif name in once and len(values) == 1:
            gone.append(name)
            said.append(f"{name} {values.pop()}".replace(" ", _UNBROKEN))
    return table.without(gone), ", ".join(said)
