"""What several runs say of one thing, said once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...shapes.errors import UsageError
from ...shapes.run_folder.columns import CEILINGS
from ...shapes.run_folder.manifest import MANIFEST, StoredDevice


def union(lists: Iterable[Iterable[Any]]) -> list[Any]:
    """Join lists, each item once, in the order of their first appearance."""
    joined: list[Any] = []
    for items in lists:
        joined += [item for item in items if item not in joined]
    return joined


def common(devices: Sequence[StoredDevice]) -> StoredDevice:
    """Return what all devices have in common, besides where they are and which processes they had."""
    first, *others = (one.to_json() for one in devices)
    shared = {key: value for key, value in first.items() if all(one.get(key) == value for one in others)}
    return replace(StoredDevice.read(shared, MANIFEST), host="", slot=None, stations=None, processes=None)


def joined_texts(mappings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return all that they say, different texts with `;` between them."""
    return {name: "; ".join(union([str(one[name])] for one in mappings if name in one)) for name in union(mappings)}


def ceilings_of(numbered: Iterable[tuple[int, list[str]]], path: Path) -> list[Mapping[str, Any]]:
    """Return rows of ceilings.csv with their values as numbers; `path` is for messages."""
    found: list[Mapping[str, Any]] = []
    for line, row in numbered:
        named = dict(zip(CEILINGS.names, row, strict=True))
        try:
            found.append({**named, "value": float(named["value"])})
        except ValueError:
            raise UsageError(f"{path} line {line}, column value: not a number; delete the line") from None
    return found
