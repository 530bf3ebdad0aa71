"""CSV files as tests read and write them: rows of texts by their header."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path: Path, names: Iterable[str], rows: Iterable[Mapping[str, object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*names], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
