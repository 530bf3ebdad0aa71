"""Test tally: how many cells were checked and passed, what was skipped and why, and what passing means per scheme."""

import math
from collections.abc import Iterator

import pandas as pd

from ....shapes.errors import UsageError
from ....shapes.scheme import DType
from ....shapes.schemes import parse_scheme
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Cells, Column, Section, Table, TableCell, Text, Tone, table
from ...view import View

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
    reading = (
        "Pass bar: least signal-to-noise ratio, 10 log10(Σ ref² / Σ (ref − out)²), in dB, with the relative error that "
        "it means. Checked: cells that got as far as an output."
    )
    lines = (_bar(view, scheme, dtype) for scheme in view.schemes for dtype in view.dtypes)
    return table("bars", "Outputs checked, by scheme", lines, how_to_read=reading, stub=2)


def _bar(view: View, scheme: str, dtype: str) -> Cells:
    mine = view.cells[(view.cells["scheme"] == scheme) & (view.cells["dtype"] == dtype)]
    wrong = int((mine["verdict"] == Verdict.INCORRECT).sum())
    passed = int((mine["verdict"] == Verdict.PASSED).sum())
    measured = mine.dropna(subset=["snr_db"])
    floor = floor_of(scheme, dtype)
    lowest = measured.nsmallest(1, "snr_db").to_dict("records")[0] if len(measured) else None
    snr = None if lowest is None else float(lowest["snr_db"])
    tone = Tone.FAILED if snr is not None and floor is not None and snr < floor else Tone.PLAIN
    return {
        "scheme": scheme,
        "dtype": dtype,
        "pass bar": TableCell(bar_text(floor), floor if floor is not None and math.isfinite(floor) else None),
        Column("checked"): passed + wrong,
        Column("passed"): passed,
        Column("wrong"): TableCell(str(wrong), wrong, tone=Tone.FAILED if wrong else Tone.PLAIN),
        Column("lowest SNR"): TableCell(
            fmt.decibel(snr), snr if snr is not None and math.isfinite(snr) else None, tone=tone
        ),
        "of": "" if lowest is None else f"{lowest['provider']}, M={int(lowest['M'])}, {lowest['cache']}",
    }


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
    title = "Skipped" if lacking["verdict"].isin(SKIPPED).all() else "Skipped and failed"
    reading = "Skipped: the provider cannot compute this here, and says why; nothing was launched."
    return table("skips", title, _reason_lines(lacking), how_to_read=reading, stub=2)


def _reason_lines(lacking: pd.DataFrame) -> Iterator[Cells]:
    for provider, verdict, reason, group in by_reason(lacking):
        outcome = "skipped" if verdict in SKIPPED else verdict.replace("_", " ")
        named: Cells = {"provider": provider, "outcome": TableCell(outcome, verdict), Column("cells"): len(group)}
        yield {**named, "M": fmt.sizes(group["M"]), "reason": reason}


def by_reason(lacking: pd.DataFrame) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """Yield cells without a time by provider, verdict and reason; an M that a reason begins with is no part of it."""
    kinds = lacking.assign(kind=lacking["reason"].str.replace(r"^M=\d+: ", "", regex=True))
    for (provider, verdict, kind), group in kinds.groupby(["provider", "verdict", "kind"], sort=False):
        yield str(provider), str(verdict), str(kind) or "no reason was stored", group
