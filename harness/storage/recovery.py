"""What an interrupted writer left in the tables of a run, and how it is cut off."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from ...shapes.errors import UsageError
from ...shapes.files import csv_file
from ...shapes.files.csv_file import csv_text
from ...shapes.run_folder.columns import CANARY, CELLS, TableSchema
from ...shapes.verdict import Verdict
from .tables import replace, rows_of

Unit = tuple[str, int]
"""(cell_id, round)."""


def cut_torn_line(path: Path, table: TableSchema) -> None:
    """Cut off a last line without line break; raise UsageError when the columns are not those of `table`."""
    if not path.exists() or path.stat().st_size == 0:
        path.write_text(csv_text(table.names, []), encoding="utf-8")
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - (1 << 16))
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                break
            end = start
    with path.open("rb") as file:
        _, header = next(csv_file.records(file, path), (1, []))
    if tuple(header) != table.names:
        raise UsageError(
            f"{path} line 1: its columns are not those of this rooflens version; resume with the version that wrote it"
        )


def committed(path: Path) -> dict[Unit, str]:
    """Return the verdict of each unit in cells.csv; raise UsageError with the line of a row that is none."""
    verdicts: dict[Unit, str] = {}
    for line, row in rows_of(path):
        try:
            verdicts[row["cell_id"], int(row["round"])] = Verdict(row["verdict"]).value
        except (TypeError, ValueError):
            raise UsageError(f"{path} line {line}: not a row of {path.name}; repair it or delete the line") from None
    return verdicts


def last_moment(folder: Path) -> float:
    """Seconds since 1970 until which cells and readings of the canary lasted; 0 without any that says."""
    found = 0.0
    for table, began, lasted in ((CELLS, "started_at", "elapsed_s"), (CANARY, "at", "")):
        with suppress(OSError, ValueError, UsageError), (folder / table.file).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - (1 << 16)))
            ((_, values),) = csv_file.records(file.readlines()[-1:], table.file)
            row = dict(zip(table.names, values, strict=True))
            found = max(found, datetime.fromisoformat(row[began]).timestamp() + float(row.get(lasted) or 0))
    return found


def sample_counts(path: Path) -> Counter[Unit]:
    """Stored samples per unit; lines that are none are left for `cut_orphans` to name."""
    counts: Counter[Unit] = Counter()
    with path.open("rb") as file:
        next(file, None)
        for line in file:
            with suppress(ValueError):
                counts[_unit_of(line)] += 1
    return counts


def _unit_of(line: bytes) -> Unit:
    """Read the first two fields of a row; raise ValueError where they are none, or not of a text."""
    cell, number, _ = line.decode().split(",", 2)
    return cell, int(number)


def cut_unbacked(path: Path, counts: Mapping[Unit, int]) -> None:
    """Drop commit rows whose samples never reached the disk, as a loss of power may leave them."""
    with path.open("rb") as file:
        table = [row for _, row in csv_file.records(file, path)]
    cell, number, samples = (table[0].index(name) for name in ("cell_id", "round", "samples"))

    def is_backed(row: Sequence[str]) -> bool:
        try:
            return int(row[samples] or 0) <= counts.get((row[cell], int(row[number])), 0)
        except (ValueError, IndexError):
            return True  # no row of this table: whoever reads it next names its line

    if not all(map(is_backed, table[1:])):
        kept = [row for row in table[1:] if is_backed(row)]
        replace(path, csv_text(table[0], kept))


def cut_orphans(path: Path, committed: Mapping[Unit, str]) -> None:
    """Drop rows of units without a commit row: at the end, where a writer stopped, or wherever one was deleted."""
    keep = position = 0
    kept: list[bytes] = []
    has_gap = False
    with path.open("rb") as file:
        kept.append(file.readline())
        keep = position = len(kept[0])
        for count, line in enumerate(file, start=2):
            position += len(line)
            try:
                unit = _unit_of(line)
            except ValueError:
                raise UsageError(f"{path} line {count}: not a row of {path.name}; restore it from a copy") from None
            if unit in committed:
                has_gap = has_gap or keep != position - len(line)
                keep = position
                kept.append(line)
    if has_gap:
        replace(path, b"".join(kept).decode())
    else:
        os.truncate(path, keep)
