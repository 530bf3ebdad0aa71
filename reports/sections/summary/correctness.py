"""Correctness: how many outputs were checked and passed, how exact they are, and which cells have no time and why."""

import math
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from ....shapes.errors import UsageError
from ....shapes.scheme import DType
from ....shapes.schemes import parse_scheme
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Cells, Column, Section, Table, TableCell, Text, Tone, table
from ...view import Row, View, shape_of

SKIPPED = (Verdict.UNSUPPORTED,)
"""Verdicts of cells that a provider never claimed to compute."""


def correctness(view: View) -> Section:
    """Count the outcomes; list the worst output of each provider, and every cell without a time by its reason."""
    way_out = f" Not complete; {text}." if (text := view.way_out()) else ""
    lead = (
        f"Cells: {fmt.coverage(view.coverage)}.{way_out} Every output is checked against the fp64 product of the same "
        "quantized bits before it is timed and after; one that is wrong gets no time."
    )
    blocks = (Text(lead), _worst(view), _lacking(view.cells), _remarks(view.cells))
    return Section("correctness", "Correctness", tuple(filter(None, blocks)))


def _worst(view: View) -> Table | None:
    checked = view.measured[view.measured["verdict"].isin([Verdict.PASSED, Verdict.INCORRECT])]
    sides = list(checked.groupby(["scheme", "dtype", "provider"], sort=False))
    sides.sort(key=lambda side: view.providers.index(side[0][-1]))
    if not sides:
        return None
    rows = [_worst_row(found, *map(str, side)) for side, found in sides]
    how = (
        "The worst output over all that were checked. SNR = 10 log10(Σ ref² / Σ (ref − out)²), ref the fp64 product of "
        "the same quantized bits; higher is better. Pass bar: the lowest SNR of an output that passes, and the "
        "relative error that it means."
    )
    return table("accuracy", "Outputs checked, by provider", rows, how_to_read=how)


def _worst_row(checked: pd.DataFrame, scheme: str, dtype: str, provider: str) -> Cells:
    worst = checked.iloc[int(checked["snr_db"].argmin())].to_dict() if checked["snr_db"].notna().any() else None
    floor, snr = floor_of(scheme, dtype), math.nan if worst is None else float(worst["snr_db"])
    below = floor is not None and snr < floor
    wrong = int((checked["verdict"] == Verdict.INCORRECT).sum())
    error, largest = float(checked["relative_error"].max()), float(checked["max_abs_error"].max())
    return {
        "provider": TableCell(provider, provider),
        "scheme": scheme,
        "dtype": dtype,
        Column("checked"): len(checked),
        Column("wrong"): TableCell(str(wrong), wrong, tone=Tone.FAILED if wrong else Tone.PLAIN),
        "pass bar": TableCell(bar_text(floor), floor),
        Column("lowest SNR"): TableCell(fmt.decibel(snr), snr, tone=Tone.FAILED if below else Tone.PLAIN),
        Column("relative error"): TableCell(_scientific(error), error),
        Column("absolute error"): TableCell(_scientific(largest), largest),
        "lowest SNR at": "" if worst is None else _at(worst),
    }


def _at(row: Row) -> str:
    return f"{shape_of(row).label} {shape_of(row).size}, M={row['M']}, {row['cache']}"


def _scientific(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2e}".replace("-", fmt.MINUS)


def floor_of(scheme: str, dtype: str) -> float | None:
    """Return the least SNR (dB) of a correct output, infinite where each bit is specified; None for foreign schemes."""
    try:
        return parse_scheme(scheme, DType.parse(dtype)).snr_floor_db
    except UsageError:
        return None


def bar_text(floor: float | None) -> str:
    """Write a pass bar: ≥ 40.0 dB (relative error ≤ 0.010); every bit equal."""
    if floor is None:
        return "unknown"
    if math.isinf(floor):
        return "every bit equal"
    return f"≥ {fmt.decibel(floor)} (relative error ≤ {fmt.significant(10 ** (-floor / 20), 2)})"


def _lacking(cells: pd.DataFrame) -> Table | None:
    rows: list[Cells] = []
    for provider, verdict, reason, group in by_reason(cells[cells["verdict"] != Verdict.PASSED]):
        shapes = list(dict.fromkeys(shape_of(row).label for row in group.to_dict("records")))
        of: Cells = {name: ", ".join(dict.fromkeys(map(str, group[name]))) for name in ("dtype", "cache")}
        outcome = "skipped" if verdict in SKIPPED else verdict.replace("_", " ")
        named: Cells = {"provider": provider, "outcome": TableCell(outcome, verdict), Column("cells"): len(group)}
        rows.append({**named, **of, "M": fmt.sizes(group["M"]), "shapes": fmt.some(shapes, 3), "reason": reason})
    how = "Skipped: the provider cannot compute this here, and says why; nothing was launched."
    return table("failed", "Cells without a time", rows, how_to_read=how) if rows else None


def by_reason(lacking: pd.DataFrame) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """Yield cells without a time by provider, verdict and reason; an M that a reason begins with is no part of it."""
    kinds = lacking.assign(kind=lacking["reason"].str.replace(r"^M=\d+: ", "", regex=True))
    for (provider, verdict, kind), group in kinds.groupby(["provider", "verdict", "kind"], sort=False):
        yield str(provider), str(verdict), str(kind) or "no reason was stored", group


def _remarks(cells: pd.DataFrame) -> Table | None:
    told = cells[["provider", "remarks"]].explode("remarks").dropna()
    rows: list[Cells] = []
    for remark, providers in told.groupby("remarks", sort=False)["provider"]:
        named = ", ".join(f"{name} ({count})" for name, count in Counter(providers).items())
        rows.append({"remark": remark, Column("cells"): len(providers), "providers (cells)": named})
    return table("remarks", "Remarks on cells that passed", rows, detail=len(rows) > 8) if rows else None
