"""Cells that print several quantities, as columns of their own: "12.3 us (1.3x)", "450 TFLOPS / 61%", "A (1.1x)"."""

import re
from collections.abc import Mapping, Sequence

from ....analysis.imports.table import ImportedTable
from .printed import is_blank, read_printed

_REMARK = re.compile(r"(?P<first>[^()]*[^()\s])\s*\((?P<second>[^()±]*)\)")

_SLASH = re.compile(r"\s+/\s+|(?<=[\d%])/(?=[\d.]+%?/|[\d.]+%?$)")

_ARROW = re.compile(r"\s+(?:→|->|⟶)\s+")

_LISTED = re.compile(r"\(([^()]*/[^()]*)\)")

FEWEST = 2
"""Cells that make it a habit of their column, ..."""

MOST = 0.5
"""... and their share of all that are filled."""


def spread(table: ImportedTable) -> tuple[ImportedTable, Mapping[int, int]]:
    """Give every quantity of a cell its own column, to the right of the first one.

    Returns the table, and for each column that is new the one that it stands beside.
    """
    header: list[str] = []
    columns: list[Sequence[str]] = []
    beside: dict[int, int] = {}
    for index, name in enumerate(table.header):
        texts = [row[index] for row in table.rows]
        parts = _remarks(texts) or _listed(texts) or _changed(texts)
        own = len(columns)
        if parts is None:
            header.append(name)
            columns.append(texts)
            continue
        is_change = any(_ARROW.search(text) for text in texts)
        names = [f"{name} before", f"{name} after"] if is_change else None
        header += names or _names(name, len(parts), _SLASH.search("".join(texts)) is not None)
        columns += parts
        beside |= dict.fromkeys(range(own + 1, own + len(parts)), own)
    if not beside:
        return table, {}
    rows = tuple(zip(*columns, strict=True))
    return ImportedTable(table.where, tuple(header), rows, table.lines), beside


def _remarks(texts: Sequence[str]) -> list[list[str]] | None:
    """Cut cells with a quantity in parentheses; None where they have no such habit, or their units differ."""
    found = [_REMARK.fullmatch(text.strip()) for text in texts]
    numbers = [read_printed(one["second"]) if one else None for one in found]
    units = {number.unit for number in numbers if number is not None and number.unit}
    if len(units) != 1 or not _is_habit(sum(number is not None and bool(number.unit) for number in numbers), texts):
        return None
    first = [one["first"] if one else text for one, text in zip(found, texts, strict=True)]
    second = [
        one["second"] if one and number and number.unit else "" for one, number in zip(found, numbers, strict=True)
    ]
    return [first, second]


def _listed(texts: Sequence[str]) -> list[list[str]] | None:
    """Cut cells with as many numbers between slashes; those without a unit have that of the last one."""
    found = [_SLASH.split(text.strip()) for text in texts]
    counts = {len(parts) for parts, text in zip(found, texts, strict=True) if not is_blank(text)}
    count = max(counts, default=1)
    if counts != {count} or count < 2 or not _is_habit(sum(len(parts) == count for parts in found), texts):
        return None
    numbers = [[read_printed(part) for part in parts] for parts in found if len(parts) == count]
    if any(number is None for row in numbers for number in row):
        return None
    unit = {row[-1].unit for row in numbers if row[-1] is not None}
    bare = len(unit) == 1 and all(not number.unit for row in numbers for number in row[:-1] if number is not None)
    last = f" {unit.pop()}" if bare else ""
    rows = [parts if len(parts) == count else [""] * count for parts in found]
    return [[f"{row[at]}{last if row[at] and at < count - 1 else ''}" for row in rows] for at in range(count)]


def _changed(texts: Sequence[str]) -> list[list[str]] | None:
    """Cut cells with a number before an arrow and one after it; whole numbers may be the sizes of a layer."""
    found = [_ARROW.split(text.strip()) for text in texts]
    pairs = [len(parts) == 2 and all(read_printed(part) is not None for part in parts) for parts in found]
    if not _is_habit(sum(pairs), texts) or not any("." in text for text in texts):
        return None
    return [[parts[at] if is_pair else "" for parts, is_pair in zip(found, pairs, strict=True)] for at in range(2)]


def _is_habit(count: int, texts: Sequence[str]) -> bool:
    filled = sum(not is_blank(text) for text in texts)
    return count >= FEWEST and count >= MOST * filled


def _names(name: str, count: int, is_listed: bool) -> list[str]:
    """Name the parts as the header lists them ("ms / TFLOPS", "time (P10/P50)"), else all by the whole header."""
    if is_listed and (inside := _LISTED.search(name)) and inside[1].count("/") == count - 1:
        rest = f"{name[: inside.start()]} {name[inside.end() :]}"
        return [f"{rest.strip()} {part.strip()}".strip() for part in inside[1].split("/")]
    if is_listed and len(parts := re.split(r"\s*/\s*", name)) == count:
        return parts
    remark = _REMARK.fullmatch(name.strip())
    if not is_listed and remark and remark["second"].strip().lower() not in ("us", "µs", "μs", "ms", "ns", "s"):
        return [remark["first"], remark["second"]]
    return [name] * count
