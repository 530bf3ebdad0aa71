"""How far a challenger wins at best: one headline per provider that it is compared with, each with all coordinates."""

from dataclasses import replace

import pandas as pd

from ....analysis.frames.speedup import best_speedups
from ....shapes.problem import Pass
from ... import formatting as fmt
from ...cells import ratio_cell
from ...model import Cells, Column, Scale, Section, TableCell, Tone, table
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
    reading = (
        "Time of the provider under “over” divided by the time of the provider, > 1: the provider is faster. Up to: of "
        "the cells at which it is verified faster, the ratio with the highest lower end of its interval, with all its "
        "coordinates. Largest: the largest ratio of any cell, which chance picks as well. Verified: of the cells in "
        "which both have a time."
    )
    listed = table("maxima-table", "Best ratio over each provider", lines, how_to_read=reading, stub=2)
    return Section("maxima", "How far it wins", (listed,))


def _line(view: View, challenger: str, rival: str, ratios: pd.DataFrame) -> Cells | None:
    mine = ratios.loc[(ratios["provider"] == challenger) & ratios["ratio"].notna()]
    if mine.empty:
        return None
    faster, slower = (int((mine["verdict"] == word).sum()) for word in ("faster", "slower"))
    largest = mine.nlargest(1, "ratio").to_dict("records")[0]
    cell, interval, at = (
        TableCell("none verified", tone=Tone.FAILED),
        "",
        f"largest ratio at {coordinates(view, largest)}",
    )
    if faster:
        best = best_speedups(mine, by=("provider", "baseline")).to_dict("records")[0]
        cell, interval = ratio_cell(best), fmt.ratio_interval(best["ratio_low"], best["ratio_high"])
        at = coordinates(view, best)
    return {
        "provider": challenger,
        "over": TableCell(f"{rival}{_role(view, rival)}", rival),
        Column("up to", scale=Scale.DIVERGING): cell,
        Column("95% interval"): interval,
        "at": at,
        Column("largest"): replace(ratio_cell(largest), level=None),
        Column("verified faster"): TableCell(fmt.count(faster, len(mine)), faster),
        Column("verified slower"): TableCell(fmt.count(slower, len(mine)), slower),
    }


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
