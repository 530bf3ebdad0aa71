"""What the two sides of a ratio are: source, versions and configuration of the baseline and of the challengers."""

import json
from collections.abc import Iterable
from typing import Any

from ....analysis.frames.tables import flat_settings
from ....shapes.run_folder.manifest import StoredProvider
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Column, Section, Table, Text, integer, number_columns, text_columns, texts
from ...view import View
from ..speedups.decode_grid import compared
from .conditions import TUNINGS

_VERSIONS = ("torch", "triton", "CUDA", "HIP", "driver", "rooflens", "commit")
"""Of the environment, what says which code ran."""

_MOST = 6
"""Different values of a setting that are named."""


def configurations(view: View) -> Section | None:
    """Describe the baseline and the challengers; nothing where none of them has a time."""
    sides = [name for name in (view.baseline, *compared(view)) if name in view.providers]
    timed = view.cells[view.cells["verdict"] == Verdict.PASSED]
    lines = []
    for name in sides:
        mine = timed[timed["provider"] == name]
        if mine.empty:
            continue
        entry = view.manifest.providers.get(name, StoredProvider())
        count = mine["config"].nunique()
        ways = ", ".join(TUNINGS.get(str(way), str(way) or "not recorded") for way in dict.fromkeys(mine["tuning"]))
        lines.append(
            (
                *texts(
                    name,
                    "baseline" if name == view.baseline else entry.role,
                    described(mine["config"]) or "none to choose",
                ),
                integer(count),
                integer(len(mine)),
                *texts(ways, ", ".join(filter(None, dict.fromkeys(map(str, mine["source"])))) or entry.source),
            )
        )
    if not lines:
        return None
    columns = (
        *text_columns("provider", "part", "configuration"),
        *number_columns("distinct", "cells"),
        *text_columns("chosen", "source hash"),
    )
    reading = (
        f"The settings that ran, those that differ between cells with all their values. {_versions(view)}"
        "A ratio is over this baseline, not over the best that could be made of it."
    )
    blocks: list[Table | Text] = [
        Table("configurations-table", "Baseline and challengers", columns, tuple(lines), reading=reading)
    ]
    if routes := _routes(view, sides):
        blocks.append(routes)
    return Section("configurations", "What ran against what", tuple(blocks))


def described(configs: Iterable[str]) -> str:
    """Write a set of configurations (JSON objects) in one line: BLOCK_M=16, BLOCK_N=32 or 64; "" for empty ones."""
    values: dict[str, list[Any]] = {}
    flat = [dict(flat_settings(json.loads(text))) for text in dict.fromkeys(configs) if text]
    for config in flat:
        for name in config:
            values.setdefault(name, [])
    for name, seen in values.items():
        for config in flat:
            if config.get(name) not in seen:
                seen.append(config.get(name))
    return ", ".join(f"{name}={_one_of(seen)}" for name, seen in values.items())


def _one_of(values: list[Any]) -> str:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    ordered = sorted(numbers) if len(numbers) == len(values) else sorted(values, key=lambda value: value is None)
    texts = [
        "unset" if value is None else str(value).lower() if value in (True, False) else str(value) for value in ordered
    ]
    if len(texts) > _MOST:
        return f"{texts[0]} to {texts[-1]} ({len(texts)} values)" if numbers == values else f"{len(texts)} values"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def _versions(view: View) -> str:
    stored = view.manifest.environment
    known = [f"{name} {stored[name]}" for name in _VERSIONS if stored.get(name)]
    return f"Versions: {', '.join(known)}. " if known else ""


def _routes(view: View, sides: Iterable[str]) -> Table | None:
    """Say which kernel a provider with a rule of its own chose, and at which M."""
    timed = view.cells[(view.cells["verdict"] == Verdict.PASSED) & (view.cells["dispatched"] != "")]
    lines = []
    for name in sides:
        mine = timed[timed["provider"] == name]
        for route, group in mine.groupby("dispatched", sort=False):
            chosen, _, why = str(route).partition(": ")
            lines.append((*texts(name, chosen, why, fmt.sizes(group["M"])), integer(len(group))))
    if not lines:
        return None
    columns = (*text_columns("provider", "chose", "because", "M"), Column("cells"))
    reading = (
        "Providers with a dispatch rule of their own: which kernel it took, and why. A tie is routed like the rest."
    )
    return Table("routes", "Routing", columns, tuple(lines), reading=reading, stub=2)
