"""Known limitations, computed: where providers cannot run, lose, stall or cannot be explained, and what to do."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import pandas as pd

from ....analysis.roofline.bounds import Bound
from ....analysis.roofline.notes import SUSPECT
from ....shapes.plugins import Hook, joining
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Cells, Section, Table, table
from ...terms import BOUNDS
from ...view import Row, View, shape_of
from ..speedups.sides import compared
from .correctness import by_reason

MOST_SHAPES = 3
"""Shapes that are named; the rest is counted."""

_NEXT = {
    Verdict.UNSUPPORTED: "dispatch to another provider there",
    Verdict.INCORRECT: "do not use it there; correct it, then rooflens run again",
    Verdict.OOM: "measure it on a device with more memory, or leave these sizes out",
    Verdict.TIMEOUT: "give it more time with timeout_s or build_timeout_s, or leave these sizes out",
}
"""What to do about a verdict; about the others, see the log."""

_SEE_LOG = "worker.log of the run has its output; correct it, then rooflens run again"


class Limitation(NamedTuple):
    """One row: what is limited, where, what is known of the cause, and what to do next."""

    what: str
    where: str
    cause: str
    action: str


def next_step(verdict: str) -> str:
    """Say what to do about a verdict."""
    return _NEXT.get(Verdict(verdict), _SEE_LOG)


def known_limitations(view: View) -> Section | None:
    """List what the run shows of the limits of the providers; None where it shows none."""
    reading = "Computed from the cells of this run; what concerns the whole run is in the headline."
    listed = limitations_table("limitations-table", "What limits the providers", limitations_of(view), reading)
    return Section("known-limitations", "Known limitations", listed) if listed else None


@lru_cache(maxsize=2)
def limitations_of(view: View) -> tuple[Limitation, ...]:
    """Collect the limits that a run shows, those that plugins know of among them."""
    added = (row for limitations in joining(Hook.LIMITATIONS) for row in limitations(view))
    return (*_cannot(view), *_loses(view), *_impossible(view), *added, *_unexplained(view))


def left_to_do(found: Iterable[Limitation]) -> Iterator[tuple[bool, str]]:
    """Yield the open items of a checklist that limitations leave: what to do next about each."""
    yield from ((False, text) for text in dict.fromkeys(f"{one.what}: {one.action}" for one in found))


def limitations_table(table_id: str, title: str, found: Iterable[Limitation], reading: str = "") -> tuple[Table, ...]:
    """One row per limitation; no table without any."""
    names = ("limitation", "where", "cause", "next")
    rows: list[Cells] = [dict(zip(names, row, strict=True)) for row in found]
    return (table(table_id, title, rows, reading),) if rows else ()


def _cannot(view: View) -> Iterator[Limitation]:
    declined = (view.cells["verdict"] == Verdict.UNSUPPORTED) & ~view.cells["provider"].isin(view.challengers)
    cells = view.cells[(view.cells["verdict"] != Verdict.PASSED) & ~declined]
    for provider, verdict, reason, group in by_reason(cells):
        what = "cannot run" if verdict == Verdict.UNSUPPORTED else f"fails ({verdict.replace('_', ' ')})"
        yield Limitation(f"{provider} {what}", _where(group), reason, next_step(verdict))


def _loses(view: View) -> Iterator[Limitation]:
    """Cells at which a challenger is verified to be slower than the baseline."""
    for provider in compared(view):
        mine = view.ratios[view.ratios["provider"] == provider]
        known, slower = mine[mine["ratio"].notna()], mine[mine["verdict"] == "slower"]
        if slower.empty:
            continue
        classes = view.cells.set_index("cell_id").loc[slower["cell_id"], "bound_class"]
        named = classes[classes != ""].value_counts()
        cause = "unknown: no limit is known for these cells"
        if len(named):
            word = str(named.index[0])
            cause = f"{word} at {fmt.count(int(named.iloc[0]), len(classes))} of them: {BOUNDS[Bound(word)]}"
        worst = slower.nsmallest(1, "ratio").to_dict("records")[0]
        at_worst = fmt.ratio(worst["ratio"], worst["ratio_low"], worst["ratio_high"])
        yield Limitation(
            f"{provider} is verified slower than {view.baseline} at {fmt.count(len(slower), len(known))} cells",
            f"{_where(slower)}; most at {_one(worst)}: {at_worst}",
            cause,
            f"dispatch to {view.baseline} there: rooflens dispatch {view.run_path}",
        )


def _impossible(view: View) -> Iterator[Limitation]:
    cells = view.cells[view.cells["bound_class"] == Bound.IMPOSSIBLE]
    for provider, group in cells.groupby("provider", sort=False):
        suspects = group["bound_note"].str.partition(SUSPECT)[2].str.partition("; ")[0].value_counts()
        yield Limitation(
            f"{provider}: {fmt.plural(len(group), 'time')} {'is' if len(group) == 1 else 'are'} faster than possible",
            _where(group),
            f"suspected first: {suspects.index[0]}",
            "use none of these times before it is known why",
        )


def _unexplained(view: View) -> Iterator[Limitation]:
    mine = view.cells["provider"].isin(view.challengers) & (view.cells["bound_class"] == Bound.UNEXPLAINED)
    for (provider, is_flat), group in view.cells[mine].groupby(["provider", "is_flat"], sort=False):
        what = "the time does not grow with M, and no limit explains it" if is_flat else BOUNDS[Bound.UNEXPLAINED]
        yield Limitation(
            f"{provider}: {what}",
            _where(group),
            "a fixed cost: launches, latency of a long K loop, or camping" if is_flat else "unknown",
            "scan N or K around these sizes: rooflens run --scan, then rooflens camping"
            if is_flat
            else "see where its time goes: rooflens roofline --gaps",
        )


def _where(cells: pd.DataFrame) -> str:
    """Name the shapes and M of some cells: 12 cells of a, b and 1 more; M=64, 128."""
    labels = list(dict.fromkeys(shape_of(row).label for row in cells.to_dict("records")))
    named = fmt.some(labels, MOST_SHAPES)
    return f"{fmt.plural(len(cells), 'cell')} of {named}; M={fmt.sizes(cells['M'])}"


def _one(row: Row) -> str:
    shape = shape_of(row)
    return f"{shape.label} {shape.size}, M={int(row['M'])}, {row['dtype']}, {row['cache']}"
