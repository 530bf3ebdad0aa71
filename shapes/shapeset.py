"""Shape sets: named CSV files of weight shapes (model, layer, N, K, ...), shared by suites."""

import csv
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from .errors import UsageError, quote, unknown_name
from .files import csv_file
from .files.file_text import decoded, read_content
from .files.record import Size, about, others

COLUMNS = ("suite", "model", "layer", "op", "N", "K", "B", "E", "top_k", "tp", "M_list", "seqlen", "notes")


@dataclass(frozen=True, slots=True)
class Shape:
    """One weight shape W[N,K] and where it comes from; `label` ("model layer") is unique within its set."""

    model: str = about("model that it comes from")
    layer: str = about("layer of that model")
    N: Size = about("output features")
    K: Size = about("input features")
    B: Size = about("batch of independent GEMMs", 1)
    alias: str = about("short name for tables", "")
    E: Size = about("groups or experts", 1)
    top_k: Size = about("experts per token", 1)
    Ms: tuple[Size, ...] = about("values of M of this shape, where it has its own", (), unknown=())
    unknown: dict[str, Any] = others()

    @property
    def label(self) -> str:
        """Name shown to a reader: the alias of the source document where it has one."""
        return f"{self.model} {self.layer}"


def names() -> list[str]:
    """Names of the shape sets that come with rooflens."""
    folder = files(__package__) / "sets"
    return sorted(entry.name.removesuffix(".csv") for entry in folder.iterdir() if entry.name.endswith(".csv"))


def load(name_or_path: str, relative_to: Path | None = None) -> tuple[Shape, ...]:
    """Read a shape set: a shipped name, or a path ending in .csv (relative to the suite file that names it).

    Raises UsageError that names file, line and column of what is wrong.
    """
    if name_or_path.endswith(".csv"):
        path = Path(name_or_path)
        source = path if path.is_absolute() or relative_to is None else relative_to / path
        try:
            content = read_content(source, csv_file.CORRECT)
        except FileNotFoundError as error:
            raise UsageError(f"cannot read shape set {source}: {error.strerror}") from None
        return parse(decoded(content, source, csv_file.CORRECT), str(source))
    if name_or_path not in names():
        raise unknown_name("shape set", name_or_path, names())
    text = (files(__package__) / "sets" / f"{name_or_path}.csv").read_text(encoding="utf-8")
    return parse(text, f"shape set {name_or_path}")


@cache
def test_ids(name: str) -> dict[tuple[str, int, int, int], int]:
    """Numbers that the source of a shipped set gives its cases, by (model, N, K, M); empty where it numbers none.

    A row counts on from `test_id_first` in steps of `test_id_step`, one for each M of its list.
    """
    text = (files(__package__) / "sets" / f"{name}.csv").read_text(encoding="utf-8")
    found = {}
    for row in csv.DictReader(text.splitlines()):
        notes = _notes(row)
        if "test_id_first" in notes:
            first, step = int(notes["test_id_first"]), int(notes.get("test_id_step", 1))
            for place, size in enumerate(row["M_list"].split()):
                found[row["model"], int(row["N"]), int(row["K"]), int(size)] = first + place * step
    return found


def _notes(row: dict[str, str]) -> dict[str, str]:
    return dict(part.split("=", 1) for part in (row.get("notes") or "").split("; ") if "=" in part)


def parse(text: str, where: str) -> tuple[Shape, ...]:
    """Parse the CSV text of a shape set; `where` names it in errors. Required columns: model, layer, N and K.

    An empty N, B, E or top_k is 1 (the N of a quantization, say); M_list is space-separated.
    """
    shapes = []
    for line, row in csv_file.rows(text, where, ("model", "layer", "N", "K"), COLUMNS):
        at = f"{where} line {line}"
        notes = _notes(row)
        shapes.append(
            Shape(
                model=row["model"],
                layer=row["layer"],
                N=_size(row["N"] or "1", "N", at),
                K=_size(row["K"], "K", at),
                B=_size(row.get("B") or "1", "B", at),
                alias=notes.get("label", ""),
                E=_size(row.get("E") or "1", "E", at),
                top_k=_size(row.get("top_k") or "1", "top_k", at),
                Ms=tuple(sorted(_size(text, "M_list", at) for text in (row.get("M_list") or "").split())),
            )
        )
    if not shapes:
        raise UsageError(f"{where}: no shapes")
    if twice := [label for label, count in Counter(shape.label for shape in shapes).items() if count > 1]:
        raise UsageError(f"{where}: {quote(twice[0])} appears twice; give each row its own model and layer")
    return tuple(shapes)


def _size(text: str, column: str, at: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < 1:
        raise UsageError(f"{at}, column {column}: {quote(text)} is not a positive whole number")
    return int(text)
