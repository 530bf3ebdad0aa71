"""Correctness: how exact each provider's output is, and which cells have no time and why."""

import math
from collections import Counter

import pandas as pd

from ....shapes.scheme import SNR_FLOOR_DB, DType
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Cells, Column, Section, Table, TableCell, Text, Tone, table
from ...view import View, shape_of


def correctness(view: View) -> Section:
    """Worst output of each provider and dtype against the fp64 product of the same quantized bits."""
    checked = view.measured.dropna(subset=["snr_db"])
    by_side = dict(list(checked.groupby(["dtype", "provider"])))
    sides = [(dtype, provider) for dtype in view.dtypes for provider in view.providers]
    rows = [_accuracy_row(by_side[side], *side) for side in sides if side in by_side]
    if not rows:
        return Section("correctness", "Correctness", (Text("No cell got as far as a comparison with the reference."),))
    wrong = int((view.measured["verdict"] == Verdict.INCORRECT).sum())
    lead = (
        fmt.plural(wrong, "cell failed the check and has no time.", "cells failed the check and have no time.")
        if wrong
        else "Every output that was compared passed."
    )
    reading = (
        "The worst over all checked cells. SNR = 10 log10(Σ ref² / Σ (ref − out)²), ref the fp64 product of the same "
        "quantized bits; higher is better."
    )
    listed = table("accuracy", "Worst output per provider", rows, how_to_read=reading)
    return Section("correctness", "Correctness", (Text(lead), listed))


def _accuracy_row(checked: pd.DataFrame, dtype: str, provider: str) -> Cells:
    worst = checked.iloc[int(checked["snr_db"].argmin())].to_dict()
    floor = SNR_FLOOR_DB[DType(dtype)] if dtype in set(DType) else None
    snr = float(worst["snr_db"])
    below = floor is not None and snr < floor
    error, cosine = float(checked["relative_error"].max()), float(checked["cosine"].min())
    largest = float(checked["max_abs_error"].max())
    shape = shape_of(worst)
    return {
        "provider": TableCell(provider, provider),
        "dtype": TableCell(dtype, dtype),
        Column("cells"): len(checked),
        Column("SNR"): TableCell(fmt.decibel(snr), snr, tone=Tone.FAILED if below else Tone.PLAIN),
        Column("floor"): TableCell(fmt.decibel(floor), floor),
        Column("relative error"): TableCell(_scientific(error), error),
        Column("cosine"): TableCell("" if math.isnan(cosine) else f"{cosine:.7f}", cosine),
        Column("absolute error"): TableCell(_scientific(largest), largest),
        "lowest SNR at": f"{shape.label} {shape.size}, M={worst['M']}, {worst['cache']}",
    }


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
        rows: list[Cells] = []
        for (provider, verdict, reason, dtype, cache), group in failed.groupby(keys, sort=False):
            shapes = list(dict.fromkeys(shape_of(row).label for row in group.to_dict("records")))
            named: Cells = {"provider": provider, "verdict": verdict, Column("cells"): len(group)}
            at: Cells = {"dtype": dtype, "cache": cache, "M": fmt.sizes(group["M"]), "shapes": fmt.some(shapes, 3)}
            rows.append({**named, **at, "reason": reason or "no reason was stored"})
        blocks.append(table("failed", "Cells without a time", rows))
    blocks += _remarks(summary)
    return Section("failed-cells", "Failed and missing cells", tuple(blocks))


def _remarks(summary: pd.DataFrame) -> list[Table]:
    told = summary[["provider", "remarks"]].explode("remarks").dropna()
    rows: list[Cells] = []
    for remark, providers in told.groupby("remarks", sort=False)["provider"]:
        named = ", ".join(f"{name} ({count})" for name, count in Counter(providers).items())
        rows.append({"remark": remark, Column("cells"): len(providers), "providers (cells)": named})
    return [table("remarks", "Remarks on cells that passed", rows, detail=len(rows) > 8)] if rows else []
