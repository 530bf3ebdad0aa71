"""Stored runs under docs/results, and how figures of docs/measured-facts.md are computed from them and written."""

import json
import re
from collections.abc import Hashable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rooflens.analysis.frames.coordinates import COORDINATES
from rooflens.analysis.frames.deciding import deciding
from rooflens.analysis.frames.load import RunData, load_run
from rooflens.analysis.run.summarize import summarize
from rooflens.kernels import registry
from rooflens.kernels.identity import code_of, identity

RESULTS = Path(__file__).resolve().parent / "results"

EVENT, EARLIER, DISTURBED = "event timer", "earlier kernel", "disturbed"
"""What a page says of figures that are not what a run would give today; the test looks for these words."""

taken: set[tuple[str, str]] = set()
"""(run, provider) of which figures were asked for; provider "": all."""


def cells_of(name: str, provider: str = "") -> pd.DataFrame:
    """Cells of a stored run, all or those of one provider, whose times may decide something.

    Besides the columns of `summarize`: tb_per_s, of compulsory bytes, and tflops.
    """
    taken.add((name, provider))
    cells = _cells(name)
    return cells[cells["provider"] == provider] if provider else cells


@cache
def _summary(name: str) -> pd.DataFrame:
    return summarize(load_run(RESULTS / name))


@cache
def _cells(name: str) -> pd.DataFrame:
    cells = deciding(_summary(name))
    return cells.assign(tb_per_s=cells["bandwidth_bytes_per_s"] / 1e12, tflops=cells["flops_per_s"] / 1e12)


def marks(name: str, provider: str = "") -> frozenset[str]:
    """What a page has to say of figures of a stored run, or of one provider in it."""
    return frozenset().union(*(found for one, found in _marks(name).items() if provider in ("", one)))


@cache
def _marks(name: str) -> dict[str, set[str]]:
    """By provider: another timer than the default, another identity than the present kernels have, disturbed cells."""
    run = load_run(RESULTS / name)
    cells = _summary(name).query("verdict == 'passed'")
    timer, disturbed = cells["timer"] != default_timer(run), cells["disturbed"] != ""
    marked = {EVENT: timer, DISTURBED: disturbed, EARLIER: expired(run, cells)}
    return {
        provider: {word for word, holds in marked.items() if holds[part.index].any()}
        for provider, part in cells.groupby("provider")
    }


def default_timer(run: RunData) -> str:
    """Timer that a run on this device takes today."""
    return "host" if run.device.is_cpu else "profiler"


def expired(run: RunData, cells: pd.DataFrame) -> "pd.Series[bool]":
    """Tell which of `cells`, passed ones of `summarize`, have another identity than the present kernels of rooflens."""
    columns = ["provider", "timer", "cold_by", "config", "kernels", "identity"]
    kinds = cells[columns].drop_duplicates()
    shipped = registry.load([one for one in kinds["provider"].unique() if one in registry.BUILTIN])
    codes = {one: code_of(provider) for one, provider in shipped.items()}

    def is_expired(row: Mapping[Hashable, Any]) -> bool:
        if (provider := row["provider"]) not in codes:
            return False
        kernels, role = json.loads(row["kernels"] or "[]"), shipped[provider].role
        launched = codes[provider].launched(kernels, role, not run.device.is_cpu, run.manifest.environment)
        now = identity(launched, {**row, "config": json.loads(row["config"] or "{}")}, run.device)
        return bool(row["identity"] != now)

    found = [is_expired(row) for row in kinds.to_dict("records")]
    return cells[columns].merge(kinds.assign(expired=found), how="left")["expired"].set_axis(cells.index).astype(bool)


def named(text: str) -> Iterator[str]:
    """Yield the stored runs that a text names."""
    for folder in sorted(path.parent.relative_to(RESULTS).as_posix() for path in RESULTS.rglob("run.json")):
        if re.search(rf"(?<![\w-]){re.escape(folder)}(?![\w-]|/[\w-]+\.(?:txt|csv))", text):
            yield folder


def by_provider(name: str, column: str = "time_s") -> pd.DataFrame:
    """One column of the cells of a stored run, by problem (rows) and provider (columns)."""
    return cells_of(name).pivot(index=[*COORDINATES], columns="provider", values=column)


def speedup(name: str, provider: str, baseline: str) -> "pd.Series[float]":
    """Time of `baseline` over that of `provider` in a stored run, by problem, where both have one."""
    seconds = pd.concat(cells_of(name, one) for one in (provider, baseline))
    seconds = seconds.pivot(index=[*COORDINATES], columns="provider", values="time_s")
    return (seconds[baseline] / seconds[provider]).dropna()


def by_shape(cells: pd.DataFrame, column: str = "time_s") -> pd.DataFrame:
    """Medians of a column of cells, by N and K (rows) and M (columns)."""
    return cells.pivot_table(index=["N", "K"], columns="M", values=column, aggfunc="median")


def limit(name: str, **columns: str) -> float:
    """Return the one limit of a stored run, in TB/s or TFLOPS, whose `columns` of ceilings.csv have these values."""
    rows = load_run(RESULTS / name).ceilings
    return float(rows.loc[(rows[[*columns]] == pd.Series(columns)).all(axis=1), "value"].item()) / 1e12


def bandwidth(name: str, pattern: str) -> float:
    """Measured bandwidth of the memory of a stored run, TB/s, by `pattern` (read, copy, write)."""
    return limit(name, ceiling="bandwidth", level="dram", pattern=pattern, kind="measured")


def mean(ratios: "pd.Series[float]") -> float:
    """Geometric mean of what is known."""
    return float(np.exp(np.log(ratios).mean()))


def by_m(ratios: "pd.Series[float]", form: str = ".2f") -> list[str]:
    """Write the mean at each M, in order."""
    return [f"{mean(part):{form}}" for _, part in ratios.groupby(level="M")]


def percent(share: float) -> str:
    """Write a share in whole percent."""
    return f"{100 * share:.0f} %"


def row(*cells: object) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(map(str, cells))} |"
