"""Correctness: how exact each provider's output is, and which cells have no time and why."""

import math
from collections import Counter

import pandas as pd

from ....shapes.scheme import SNR_FLOOR_DB, DType
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
