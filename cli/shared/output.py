"""What a command prints for programs: JSON. Data goes to stdout, remarks to stderr; tables are in `tables`."""

import dataclasses
import json
import math
from collections.abc import Hashable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import click

from ...shapes.errors import UsageError
from ...shapes.run_folder.columns import ColumnType, TableSchema


def print_json(value: object) -> None:
    """Print `value` as indented JSON: dataclasses become objects, unknown and non-finite numbers null."""
    click.echo(json.dumps(plain(value), indent=2, allow_nan=False))


def write_text(path: Path, text: str, option: str) -> None:
    """Write the file that an option names. Raises UsageError where that fails."""
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror or error}; choose another file") from None


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


def record(schema: TableSchema, row: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
    """Turn the JSON columns of a row into values, so that they are not quoted twice."""
    stored = [column.name for column in schema.columns if column.kind is ColumnType.JSON]
    return {**row} | {name: json.loads(row[name]) for name in stored if row.get(name)}
