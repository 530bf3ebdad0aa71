"""Stored runs under docs/results, and how figures of docs/measured-facts.md are computed from them and written."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from rooflens.analysis.frames.coordinates import COORDINATES
from rooflens.analysis.frames.deciding import deciding
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.summarize import summarize

RESULTS = Path(__file__).resolve().parent / "results"


@cache
def cells_of(name: str, provider: str = "") -> pd.DataFrame:
    """Cells of a stored run, all or those of one provider, whose times may decide something.

    Besides the columns of `summarize`: tb_per_s, of compulsory bytes, and tflops.
    """
    if provider:
        cells = cells_of(name)
        return cells[cells["provider"] == provider]
    cells = deciding(summarize(load_run(RESULTS / name)))
    return cells.assign(tb_per_s=cells["bandwidth_bytes_per_s"] / 1e12, tflops=cells["flops_per_s"] / 1e12)


def by_provider(name: str, column: str = "time_s") -> pd.DataFrame:
    """One column of the cells of a stored run, by problem (rows) and provider (columns)."""
    return cells_of(name).pivot(index=[*COORDINATES], columns="provider", values=column)


def speedup(name: str, provider: str, baseline: str) -> "pd.Series[float]":
    """Time of `baseline` over that of `provider` in a stored run, by problem, where both have one."""
    seconds = by_provider(name)
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
