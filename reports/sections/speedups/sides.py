"""The three sides of a comparison within one run: the kernel, what it replaces, and a reference for both.

`maxima` lists how far a challenger wins at best over each of the others.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from ....analysis.frames.speedup import best_speedups, speedups
from ....shapes.problem import Pass
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...cells import ratio_cell
from ...model import Column, Scale, Section, Table, TableCell, Tone, number_columns, text_columns, texts
from ...view import Row, View, shape_of

_ORDER = ("candidate", "stock_triton", "dequant_blas", "upstream")
"""Roles in the order in which they stand for what is replaced, where the baseline is the reference."""


class Sides(NamedTuple):
    """Names of providers; "" where the run has none for a side.

    new        the first challenger with a time, the first other provider where no challenger has one
    old        the baseline; where that is the reference, the first other provider by role: a candidate that is no
               challenger, then stock Triton, then dequantize and BLAS, then upstream
    reference  a provider of that role: the baseline if it is one, else the first
    """

    old: str
    new: str
    reference: str

    @property
    def named(self) -> tuple[str, ...]:
        """The sides that there are, old first."""
        return tuple(name for name in self if name)


def sides(view: View) -> Sides | None:
    """Name the sides; None where only one provider has a time."""
    timed = set(view.cells.loc[view.cells["verdict"] == Verdict.PASSED, "provider"])
    present = [name for name in view.providers if name in timed]
    if len(present) < 2:
        return None
    references = [name for name in (view.baseline, *present) if name in timed and view.run.is_reference(name)]
    reference = next(iter(references), "")
    wanted = [name for name in (*view.challengers, *view.others) if name in timed and name != reference]
    new = next(iter(wanted), "")
    if not new:
        return None
    if view.baseline in timed and view.baseline not in (reference, new):
        return Sides(view.baseline, new, reference)
    return Sides(next(_replaced(view, present, (new, reference)), ""), new, reference)


def _replaced(view: View, present: list[str], taken: tuple[str, ...]) -> Iterator[str]:
    left = [name for name in present if name not in taken and not view.run.is_reference(name)]
    rest = [name for name in left if name not in view.run.challengers]
    for role in _ORDER:
        yield from (name for name in rest if view.run.role(name) == role)
    yield from left


def ratios_over(view: View, base: str) -> pd.DataFrame:
    """Return the ratios over any provider, as `analysis.frames.speedup` has those over the baseline."""
    return view.ratios if base == view.baseline else speedups(view.cells, view.analysis.rounds, base)


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
    counts = (
        TableCell(fmt.count(faster, len(mine)), faster),
        TableCell(fmt.count(slower, len(mine)), slower),
    )
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
    cell = ratio_cell(row)
    return TableCell(cell.text, cell.value, note=cell.note, tone=cell.tone)


def _role(view: View, name: str) -> str:
    role = view.run.role(name)
    return f" ({role})" if role and role != name and role != "candidate" else ""


def coordinates(view: View, row: Row) -> str:
    """Write where a ratio was found: sm90, bf16, nf4-g64, cold, llama3.2-1b k/v (small GQA k/v) 512×2048, M=1."""
    shape = shape_of(row)
    pass_ = () if all(part.pass_ == Pass.FWD for part in view.slices) else (str(row["pass"]),)
    setting = (*pass_, str(row["dtype"]), str(row["scheme"]), str(row["cache"]))
    alias = _aliases(view).get((shape.model, shape.layer), "")
    named = f"{shape.label}{f' ({alias})' if alias else ''} {shape.size}"
    return ", ".join(filter(None, (view.run.device.arch, *setting, named, f"M={int(row['M'])}")))


def _aliases(view: View) -> dict[Any, str]:
    return {(shape.model, shape.layer): shape.alias for shape in view.manifest.shapes}
