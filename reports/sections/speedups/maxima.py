"""How far a challenger wins at best: one headline per provider that it is compared with, each with all coordinates."""

from dataclasses import replace

import pandas as pd

from ....analysis.frames.speedup import best_speedups
from ....shapes.problem import Pass
from ... import formatting as fmt
from ...cells import ratio_cell
from ...model import Column, Scale, Section, Table, TableCell, Tone, number_columns, text_columns, texts
from ...view import Row, View, shape_of
from .sides import ratios_over


def maxima(view: View) -> Section | None:
    """List the best ratio of each challenger over each other provider; None where no challenger has a ratio."""
    rivals = [name for name in (view.baseline, *view.others) if name in view.providers]
    over = {rival: ratios_over(view, rival) for rival in rivals}
    lines = [
        line
        for challenger in view.challengers
        for rival in rivals
        if rival != challenger and (line := _line(view, challenger, rival, over[rival])) is not None
    ]
    if not lines:
        return None
    columns = (
        *text_columns("provider", "over"),
        Column("up to", scale=Scale.DIVERGING),
        Column("95% interval"),
        *text_columns("at"),
        *number_columns("largest", "verified faster", "verified slower"),
    )
    reading = (
        "Time of the provider under “over” divided by the time of the provider, > 1: the provider is faster. Up to: of "
        "the cells at which it is verified faster, the ratio with the highest lower end of its interval, with all its "
        "coordinates. Largest: the largest ratio of any cell, which chance picks as well. Verified: of the cells in "
        "which both have a time."
    )
    table = Table("maxima-table", "Best ratio over each provider", columns, tuple(lines), how_to_read=reading, stub=2)
    return Section("maxima", "How far it wins", (table,))


def _line(view: View, challenger: str, rival: str, ratios: pd.DataFrame) -> tuple[TableCell, ...] | None:
    mine = ratios.loc[(ratios["provider"] == challenger) & ratios["ratio"].notna()]
    if mine.empty:
        return None
    faster, slower = (int((mine["verdict"] == word).sum()) for word in ("faster", "slower"))
    largest = mine.nlargest(1, "ratio").to_dict("records")[0]
    counts = (TableCell(fmt.count(number, len(mine)), number) for number in (faster, slower))
    head = (TableCell(challenger), TableCell(f"{rival}{_role(view, rival)}", rival))
    if not faster:
        where = TableCell(f"largest ratio at {coordinates(view, largest)}")
        return (*head, TableCell("none verified", tone=Tone.FAILED), TableCell(""), where, _plain(largest), *counts)
    best = best_speedups(mine, by=("provider", "baseline")).to_dict("records")[0]
    return (
        *head,
        ratio_cell(best),
        *texts(fmt.ratio_interval(best["ratio_low"], best["ratio_high"]), coordinates(view, best)),
        _plain(largest),
        *counts,
    )


def _plain(row: Row) -> TableCell:
    return replace(ratio_cell(row), level=None)


def _role(view: View, name: str) -> str:
    role = view.run.role(name)
    return f" ({role})" if role and role != name and role != "candidate" else ""


def coordinates(view: View, row: Row) -> str:
    """Write where a ratio was found: sm90, bf16, nf4-g64, cold, llama3.2-1b k/v (small GQA k/v) 512×2048, M=1."""
    shape = shape_of(row)
    pass_ = () if all(part.pass_ == Pass.FWD for part in view.slices) else (str(row["pass"]),)
    setting = (*pass_, str(row["dtype"]), str(row["scheme"]), str(row["cache"]))
    aliases = {(one.model, one.layer): one.alias for one in view.manifest.shapes}
    alias = aliases.get((shape.model, shape.layer), "")
    named = f"{shape.label}{f' ({alias})' if alias else ''} {shape.size}"
    return ", ".join(filter(None, (view.run.device.arch, *setting, named, f"M={int(row['M'])}")))
