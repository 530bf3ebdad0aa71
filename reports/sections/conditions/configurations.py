"""What the two sides of a ratio are: source, versions and configuration of the baseline and of the challengers."""

import json
from collections.abc import Iterable
from typing import Any

from ....analysis.frames.tables import flat_settings
from ....shapes.run_folder.manifest import StoredProvider
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Cells, Column, Section, Table, table
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
    rows: list[Cells] = []
    for name in sides:
        mine = timed[timed["provider"] == name]
        if mine.empty:
            continue
        entry = view.manifest.providers.get(name, StoredProvider())
        ways = dict.fromkeys(TUNINGS.get(str(way), str(way) or "not recorded") for way in mine["tuning"])
        rows.append(
            {
                "provider": name,
                "part": "baseline" if name == view.baseline else entry.role,
                "configuration": described(mine["config"]) or "none to choose",
                Column("distinct"): mine["config"].nunique(),
                Column("cells"): len(mine),
                "chosen": ", ".join(ways),
                "source hash": ", ".join(filter(None, dict.fromkeys(map(str, mine["source"])))) or entry.source,
            }
        )
    if not rows:
        return None
    reading = (
        f"The settings that ran, those that differ between cells with all their values. {_versions(view)}"
        "A ratio is over this baseline, not over the best that could be made of it."
    )
    blocks = (table("configurations-table", "Baseline and challengers", rows, reading), _routes(view, sides))
    return Section("configurations", "What ran against what", tuple(filter(None, blocks)))


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
    rows: list[Cells] = []
    for name in sides:
        for route, group in timed[timed["provider"] == name].groupby("dispatched", sort=False):
            chosen, _, why = str(route).partition(": ")
            named: Cells = {"provider": name, "chose": chosen, "because": why, "M": fmt.sizes(group["M"])}
            rows.append({**named, Column("cells"): len(group)})
    reading = (
        "Providers with a dispatch rule of their own: which kernel it took, and why. A tie is routed like the rest."
    )
    return table("routes", "Routing", rows, reading, stub=2) if rows else None
