"""The cells that are exported to tools that track times: those with a time that the device allows, each with a name."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...analysis.frames.deciding import deciding
from ...analysis.run.pipeline import Analysis
from ...shapes.errors import UsageError
from ...shapes.problem import SIZES
from ..view import Row


def measured(analysis: Analysis) -> Iterator[tuple[str, Row]]:
    """Yield the name and the row of every cell, in the order of the run.

    Raises UsageError where no cell has a time, or two would have one name.
    """
    rows = deciding(analysis.cells).to_dict("records")
    if not rows:
        raise UsageError(f"{analysis.run.id} has no cell with a time to export: rooflens report shows why")
    seen: set[str] = set()
    for row in rows:
        name = benchmark_name(row)
        if name in seen:
            raise UsageError(f"two cells have the name {name}: rename one of their models or layers in the shape set")
        seen.add(name)
        yield name, row


def benchmark_name(row: Mapping[Any, Any]) -> str:
    """Name a cell by what is measured, whatever else its run holds: the same cell has the same name in every run."""
    sizes = " ".join(f"{name}={row[name]}" for name in SIZES if name in "MNK" or row[name] != 1)
    setting = " ".join(str(row[name]) for name in ("op", "pass", "dtype", "scheme", "cache"))
    return f"{row['provider']}: {row['model']} {row['layer']} {sizes} {setting}"


def rounded(value: float) -> float:
    """A number with six significant digits, more than any interval leaves."""
    return float(f"{value:.6g}")


def as_json(value: object) -> bytes:
    """Write JSON for a program, indented for a reader."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", "backslashreplace")
