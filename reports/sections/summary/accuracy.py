"""Correctness: what was checked and passed, how exact each output is, and which cells have no time and why."""

import math
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from ....shapes.errors import UsageError
from ....shapes.scheme import SNR_FLOOR_DB, DType
from ....shapes.schemes import parse_scheme
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Column, Section, Table, TableCell, Text, Tone, integer, number_columns, text_columns, texts
from ...view import View, shape_of


def correctness(view: View) -> Section:
    """Worst output of each provider and dtype against the fp64 product of the same quantized bits."""
    checked = view.measured.dropna(subset=["snr_db"])
    by_side = dict(list(checked.groupby(["dtype", "provider"])))
    sides = [(dtype, provider) for dtype in view.dtypes for provider in view.providers]
    rows = tuple(_accuracy_row(by_side[side], *side) for side in sides if side in by_side)
    if not rows:
        return Section("correctness", "Correctness", (Text("No cell got as far as a comparison with the reference."),))
    wrong = int((view.measured["verdict"] == Verdict.INCORRECT).sum())
    lead = (
        fmt.plural(wrong, "cell failed the check and has no time.", "cells failed the check and have no time.")
        if wrong
        else "Every output that was compared passed."
    )
    columns = (
        *text_columns("provider", "dtype"),
        *number_columns("cells", "SNR", "floor", "relative error", "cosine", "absolute error"),
        *text_columns("lowest SNR at"),
    )
    reading = (
        "The worst over all checked cells. SNR = 10 log10(Σ ref² / Σ (ref − out)²), ref the fp64 product of the same "
        "quantized bits; higher is better."
    )
    table = Table("accuracy", "Worst output per provider", columns, rows, how_to_read=reading)
    return Section("correctness", "Correctness", (Text(lead), table))


def _accuracy_row(checked: pd.DataFrame, dtype: str, provider: str) -> tuple[TableCell, ...]:
    worst = checked.iloc[int(checked["snr_db"].argmin())].to_dict()
    floor = SNR_FLOOR_DB[DType(dtype)] if dtype in set(DType) else None
    snr = float(worst["snr_db"])
    below = floor is not None and snr < floor
    error, cosine = float(checked["relative_error"].max()), float(checked["cosine"].min())
    largest = float(checked["max_abs_error"].max())
    shape = shape_of(worst)
    return (
        TableCell(provider, provider),
        TableCell(dtype, dtype),
        integer(len(checked)),
        TableCell(fmt.decibel(snr), snr, tone=Tone.FAILED if below else Tone.PLAIN),
        TableCell(fmt.decibel(floor), floor),
        TableCell(_scientific(error), error),
        TableCell("" if math.isnan(cosine) else f"{cosine:.7f}", cosine),
        TableCell(_scientific(largest), largest),
        TableCell(f"{shape.label} {shape.size}, M={worst['M']}, {worst['cache']}"),
    )


def _scientific(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2e}".replace("-", fmt.MINUS)


def failures(view: View) -> Section:
    """List every cell without a time, grouped by its reason, and what was planned but never measured."""
    summary = view.cells
    failed = summary[summary["verdict"] != Verdict.PASSED]
    way_out = f" Not complete; {text}." if (text := view.way_out()) else ""
    blocks: list[Text | Table] = [Text(f"Cells: {fmt.coverage(view.coverage)}.{way_out}")]
    if len(failed):
        keys = ["provider", "verdict", "reason", "dtype", "cache"]
        rows = []
        for (provider, verdict, reason, *part), group in failed.groupby(keys, sort=False):
            shapes = list(dict.fromkeys(shape_of(row).label for row in group.to_dict("records")))
            said = (fmt.sizes(group["M"]), fmt.some(shapes, 3), reason or "no reason was stored")
            rows.append((*texts(provider, verdict), integer(len(group)), *texts(*part, *said)))
        columns = (
            *text_columns("provider", "verdict"),
            Column("cells"),
            *text_columns("dtype", "cache", "M", "shapes", "reason"),
        )
        blocks.append(Table("failed", "Cells without a time", columns, tuple(rows)))
    blocks += _remarks(summary)
    return Section("failed-cells", "Failed and missing cells", tuple(blocks))


def _remarks(summary: pd.DataFrame) -> list[Text | Table]:
    told = summary[["provider", "remarks"]].explode("remarks").dropna()
    rows = []
    for remark, providers in told.groupby("remarks", sort=False)["provider"]:
        named = ", ".join(f"{name} ({count})" for name, count in Counter(providers).items())
        rows.append((TableCell(str(remark)), integer(len(providers)), TableCell(named)))
    columns = (*text_columns("remark"), Column("cells"), *text_columns("providers (cells)"))
    table = Table("remarks", "Remarks on cells that passed", columns, tuple(rows), detail=len(rows) > 8)
    return [table] if rows else []


SKIPPED = (Verdict.UNSUPPORTED,)
"""Verdicts of cells that a provider never claimed to compute."""


def tally(view: View) -> Section:
    """Count outcomes, say the pass bar of every scheme and the reasons of what was skipped or failed."""
    cells = view.cells
    lead = (
        f"Cells: {fmt.coverage(view.coverage)}. Every output is checked against the fp64 product of "
        "the same quantized bits before it is timed and after; one that is wrong gets no time."
    )
    blocks: list[Text | Table] = [Text(lead), _bars(view)]
    lacking = cells[cells["verdict"] != Verdict.PASSED]
    if len(lacking):
        blocks.append(_reasons(lacking))
    return Section("tally", "Correctness", tuple(blocks))


def _bars(view: View) -> Table:
    columns = (
        *text_columns("scheme", "dtype", "pass bar"),
        *number_columns("checked", "passed", "wrong", "lowest SNR"),
        *text_columns("of"),
    )
    reading = (
        "Pass bar: least signal-to-noise ratio, 10 log10(Σ ref² / Σ (ref − out)²), in dB, with the relative error that "
        "it means. Checked: cells that got as far as an output."
    )
    lines = tuple(_bar(view, scheme, dtype) for scheme in view.schemes for dtype in view.dtypes)
    return Table("bars", "Outputs checked, by scheme", columns, lines, how_to_read=reading, stub=2)


def _bar(view: View, scheme: str, dtype: str) -> tuple[TableCell, ...]:
    mine = view.cells[(view.cells["scheme"] == scheme) & (view.cells["dtype"] == dtype)]
    wrong = int((mine["verdict"] == Verdict.INCORRECT).sum())
    passed = int((mine["verdict"] == Verdict.PASSED).sum())
    measured = mine.dropna(subset=["snr_db"])
    floor = floor_of(scheme, dtype)
    lowest = measured.nsmallest(1, "snr_db").to_dict("records")[0] if len(measured) else None
    snr = None if lowest is None else float(lowest["snr_db"])
    tone = Tone.FAILED if snr is not None and floor is not None and snr < floor else Tone.PLAIN
    return (
        *texts(scheme, dtype),
        TableCell(bar_text(floor), floor if floor is not None and math.isfinite(floor) else None),
        integer(passed + wrong),
        integer(passed),
        TableCell(str(wrong), wrong, tone=Tone.FAILED if wrong else Tone.PLAIN),
        TableCell(fmt.decibel(snr), snr if snr is not None and math.isfinite(snr) else None, tone=tone),
        TableCell("" if lowest is None else f"{lowest['provider']}, M={int(lowest['M'])}, {lowest['cache']}"),
    )


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


def _reasons(lacking: pd.DataFrame) -> Table:
    columns = (*text_columns("provider", "outcome"), Column("cells"), *text_columns("M", "reason"))
    title = "Skipped" if lacking["verdict"].isin(SKIPPED).all() else "Skipped and failed"
    reading = "Skipped: the provider cannot compute this here, and says why; nothing was launched."
    return Table("skips", title, columns, tuple(_reason_lines(lacking)), how_to_read=reading, stub=2)


def _reason_lines(lacking: pd.DataFrame) -> Iterator[tuple[TableCell, ...]]:
    for provider, verdict, reason, group in by_reason(lacking):
        outcome = "skipped" if verdict in SKIPPED else verdict.replace("_", " ")
        reasons = texts(fmt.sizes(group["M"]), reason)
        yield (TableCell(provider), TableCell(outcome, verdict), integer(len(group)), *reasons)


def by_reason(lacking: pd.DataFrame) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """Yield cells without a time by provider, verdict and reason; an M that a reason begins with is no part of it."""
    kinds = lacking.assign(kind=lacking["reason"].str.replace(r"^M=\d+: ", "", regex=True))
    for (provider, verdict, kind), group in kinds.groupby(["provider", "verdict", "kind"], sort=False):
        yield str(provider), str(verdict), str(kind) or "no reason was stored", group
