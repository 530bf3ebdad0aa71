"""What ran: source, versions and configurations of the providers."""

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from ....analysis.frames.tables import flat_settings
from ....shapes.run_folder.manifest import StoredProvider
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Cells, Column, Section, Table, TableCell, table
from ...view import View
from .conditions import TUNINGS

_VERSIONS = ("torch", "triton", "CUDA", "HIP", "driver", "rooflens", "commit")
"""Of the environment, what says which code ran."""

_MOST = 6
"""Different values of a setting that are named."""


def configurations(view: View) -> Section:
    """Describe the code that ran: the source, the library and the configurations of every provider."""
    timed = view.cells[view.cells["verdict"] == Verdict.PASSED]
    entries = {name: StoredProvider() for name in view.providers} | dict(view.manifest.providers)
    rows: list[Cells] = []
    for name, entry in entries.items():
        mine = timed[timed["provider"] == name]
        ways = dict.fromkeys(TUNINGS.get(str(way), str(way) or "not recorded") for way in mine["tuning"])
        rows.append(
            {
                "provider": TableCell(name, name),
                "role": entry.role,
                "part": "baseline" if name == view.baseline else "challenger" if name in view.challengers else "",
                "configuration": described(mine["config"]) or ("none to choose" if len(mine) else ""),
                Column("distinct"): mine["config"].nunique(),
                Column("cells"): len(mine),
                "chosen": ", ".join(ways),
                "source hash": ", ".join(filter(None, dict.fromkeys(map(str, mine["source"])))) or entry.source,
            }
        )
    reading = (
        f"The settings that ran, those that differ between cells with all their values. {_versions(view)}"
        "A ratio is over this baseline, not over the best that could be made of it. The hash covers the provider's "
        "source files: a result is never reused for other code."
    )
    blocks = (table("providers", "Providers", rows, reading), _routes(view, timed))
    return Section("configurations", "What ran", tuple(filter(None, blocks)))


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


def _routes(view: View, timed: pd.DataFrame) -> Table | None:
    """Say which kernel a provider with a rule of its own chose, and at which M."""
    rows: list[Cells] = []
    for (name, route), group in timed[timed["dispatched"] != ""].groupby(["provider", "dispatched"], sort=False):
        chosen, _, why = str(route).partition(": ")
        named: Cells = {"provider": name, "chose": chosen, "because": why, "M": fmt.sizes(group["M"])}
        rows.append({**named, Column("cells"): len(group)})
    reading = (
        "Providers with a dispatch rule of their own: which kernel it took, and why. A tie is routed like the rest."
    )
    return table("routes", "Routing", rows, reading, stub=2) if rows else None
