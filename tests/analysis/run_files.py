"""A small run, and changing the files of one by hand."""

import csv
import lzma
from collections.abc import Callable
from pathlib import Path

ONE = {"shapes": (("m", "l", 64, 96),), "Ms": (1, 2), "providers": ("simt_4bit", "dequant_blas")}
"""Two providers x two M x three rounds: 12 commit rows, 120 samples."""

CANARY_ROW = [{"at": "2026-01-02T03:00:00Z", "process": 0, "gemm_s": 1e-3, "copy_s": 2e-3}]
"""One reading of the canary."""


def edit(file: Path, change: Callable[[list[str]], object]) -> None:
    """Change the lines of a file, the header being lines[0]."""
    lines = file.read_text().splitlines(keepends=True)
    change(lines)
    file.write_text("".join(lines))


def _rewrite(file: Path, change: Callable[[list[list[str]]], list[list[str]]]) -> None:
    """Change the rows of a table, the header being rows[0]."""
    with file.open(newline="") as old:
        rows = list(csv.reader(old))
    with file.open("w", newline="") as new:
        csv.writer(new, lineterminator="\n").writerows(change(rows))


def set_field(file: Path, line: int, column: str, text: str) -> None:
    """Replace one field; `line` counts from 1 with the header."""

    def change(rows: list[list[str]]) -> list[list[str]]:
        rows[line - 1][rows[0].index(column)] = text
        return rows

    _rewrite(file, change)


def compress(folder: Path) -> None:
    """Compress the tables of a run."""
    for table in folder.glob("*.csv"):
        table.with_name(f"{table.name}.xz").write_bytes(lzma.compress(table.read_bytes(), preset=0))
        table.unlink()


def drop_columns(file: Path, *names: str) -> None:
    """Rewrite a table without some of its columns, as an older version would have written it."""
    _rewrite(
        file, lambda rows: [[one for name, one in zip(rows[0], row, strict=True) if name not in names] for row in rows]
    )
