"""What a command prints: JSON for programs, aligned tables for readers. Data goes to stdout, remarks to stderr."""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import click

PIPE_WIDTH = 10_000
"""Columns assumed when stdout is not a terminal: a row stays on its line, for grep and awk."""

LONGEST_WORD = 16
"""Characters of a word that stay together on a terminal wide enough for it."""


def print_json(value: object) -> None:
    """Print `value` as indented JSON: dataclasses become objects, unknown and non-finite numbers null."""
    click.echo(json.dumps(plain(value), indent=2, allow_nan=False))


def plain(value: object) -> Any:
    """Reduce `value` to what JSON knows. numpy scalars become Python numbers, NaN and infinities None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or type(value).__name__ == "NAType":  # pandas' unknown, without importing pandas
        return None
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "item"):  # a numpy scalar, without importing numpy
        return plain(value.item())
    raise TypeError(f"no JSON form for {type(value).__name__}")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print rows under `columns`, numbers to the right; unknown values are blank.

    On a terminal, cells wrap within its width and the header is bold (not under NO_COLOR); in a pipe, every row is
    one line of plain text.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    body = [list(row) for row in rows]
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    header = "" if os.environ.get("NO_COLOR") else "bold"  # rich would drop colours only
    grid = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style=header)
    least = [_longest_word([name, *(row[index] for row in body)]) for index, name in enumerate(columns)]
    fits = sum(least) + 2 * len(least) <= console.width
    for index, name in enumerate(columns):
        grid.add_column(
            name,
            justify="right" if body and all(_is_number(row[index]) for row in body) else "left",
            overflow="fold",
            no_wrap=index == 0,
            min_width=least[index] if fits else None,
        )
    for row in body:
        grid.add_row(*("" if value is None else Text(str(value)) for value in row))
    with console.capture() as captured:
        console.print(grid)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _is_number(value: object) -> bool:
    """True for what is aligned to the right: a number or percentage, as a value or as text, or an unknown."""
    text = "" if value is None else str(value)
    return not text or text.strip("-<>%").replace(".", "", 1).isdecimal()


def _longest_word(values: Sequence[object]) -> int:
    """Characters of the longest word of a column, bounded: a path or a list may be broken anywhere."""
    lengths = [len(word) for value in values if value is not None for word in str(value).split()]
    return min(LONGEST_WORD, max(lengths, default=1))
