"""What a run leaves open: where a challenger cannot run, loses, stalls or cannot be explained; and a checklist."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pandas as pd

from ....analysis.crossover.curve import CrossoverStatus
from ....analysis.roofline.bounds import Bound
from ....analysis.roofline.notes import SUSPECT
from ....shapes.plugins import Hook, joining
from ....shapes.run_folder.disturbance import by_others
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Bullets, Section, Table, text_columns, texts
from ...terms import BOUNDS
from ...view import Row, View, shape_of
from ..speedups.decode_grid import compared, name_of, one_model
from .accuracy import by_reason

Item = tuple[bool, str]
"""Whether it is done, and what it is."""


def open_items(view: View) -> Section:
    """List what is done and what is open."""
    items = [*_planned(view), *_correct(view), *_ratios(view), *_crossovers(view), *_limits(view), *_conditions(view)]
    return checklist("open-items", items)


def checklist(section_id: str, items: Iterable[Item]) -> Section:
    """Build the chapter of items, open ones first."""
    done, said = zip(*sorted(items, key=lambda item: item[0]), strict=True)
    return Section(section_id, "Open items", (Bullets(said, done),))


def _planned(view: View) -> Iterator[Item]:
    covered = view.coverage
    if way_out := view.way_out():
        yield False, f"measure what is left of the plan, {fmt.coverage(covered)}: {way_out}"
    else:
        yield True, f"all that was planned is measured: {fmt.coverage(covered)}"
    if view.rounds == 1 and not covered.rounds_to_do:
        yield False, "measure 3 rounds or more: a single one gives no interval of a time or of a ratio"


def _correct(view: View) -> Iterator[Item]:
    cells = view.cells
    checked = cells["verdict"].isin([Verdict.PASSED, Verdict.INCORRECT])
    wrong = cells[cells["verdict"] == Verdict.INCORRECT]
    if len(wrong):
        yield False, f"correct the output of {_by_provider(wrong)}"
    elif checked.any():
        yield True, f"all {int(checked.sum())} outputs that were compared with the reference are correct"
    failed = cells[~cells["verdict"].isin([Verdict.PASSED, Verdict.INCORRECT, Verdict.UNSUPPORTED])]
    if len(failed):
        yield False, f"find out why there is no time for {_by_provider(failed)}: see the cells without a time"
    unsupported = cells[(cells["verdict"] == Verdict.UNSUPPORTED) & cells["provider"].isin(view.challengers)]
    if len(unsupported):
        yield False, f"decide what runs where a challenger cannot: {_by_provider(unsupported)}"


def _by_provider(cells: pd.DataFrame) -> str:
    counts = cells.groupby("provider", sort=False).size()
    return ", ".join(f"{provider} ({fmt.plural(int(count), 'cell')})" for provider, count in counts.items())


def _ratios(view: View) -> Iterator[Item]:
    names = compared(view)
    if not names:
        yield False, f"measure a challenger beside {view.baseline}: {view.uncompared or 'there is no ratio'}"
        return
    for name in names:
        mine = view.ratios[(view.ratios["provider"] == name) & view.ratios["ratio"].notna()]
        undecided, which = view.undecided(name), f"{fmt.plural(len(mine), 'cell')} of {name} against {view.baseline}"
        if len(undecided) and (way_out := view.way_out(undecided=undecided)):
            yield False, f"decide {len(undecided)} of {which}: {way_out}"
        else:
            yield True, f"all {which} are decided" + f", {len(undecided)} of them as ties" * bool(len(undecided))


def _crossovers(view: View) -> Iterator[Item]:
    for median in (one for one in view.analysis.medians if one.is_informative):
        part = view.slice_of(median.setting)
        rows = view.rows(view.analysis.crossovers, part, challenger=median.challenger)
        told = [row for row in rows if CrossoverStatus(row["status"]).is_informative]
        where = f"{median.challenger}, {part.title}"
        above = median.side is CrossoverStatus.ABOVE
        leader, alone = (
            (median.incumbent, CrossoverStatus.BEHIND) if above else (median.challenger, CrossoverStatus.AHEAD)
        )
        beyond = [row for row in told if row["status"] == alone and not row["missing"]]
        if beyond:
            most = max(float(row["M_max"]) for row in beyond)
            yield (
                False,
                f"sweep beyond M={most:g} for the crossover of {fmt.plural(len(beyond), 'shape')} ({where}): "
                f"{leader} is faster up to there",
            )
        undecided = sum(row["status"] == CrossoverStatus.UNDECIDED for row in told)
        if undecided:
            way_out = view.way_out(undecided=view.undecided(median.challenger, median.setting))
            yield (
                False,
                f"verify the crossover of {fmt.plural(undecided, 'shape')} of {len(told)} ({where})"
                f"{f': {way_out}' * bool(way_out)}",
            )
        elif told:
            told_of = fmt.plural(len(told), "shape")
            yield True, f"the crossover, or that there is none in the sweep, is verified for {told_of} ({where})"


def _limits(view: View) -> Iterator[Item]:
    timed = view.cells[view.cells["verdict"] == Verdict.PASSED]
    if not len(timed):
        return
    unplaced = int((timed["bound_class"] == "").sum())
    if unplaced:
        yield False, f"measure the limits of {fmt.plural(unplaced, 'cell')} that have none: rooflens calibrate"
    for bound, what in (
        (Bound.IMPOSSIBLE, "find out why {} {} faster than possible, and use no such time before"),
        (Bound.UNEXPLAINED, "explain {} that {} slower than 1.5 times all known limits added up"),
    ):
        mine = timed[
            (timed["bound_class"] == bound) & (timed["provider"].isin(view.challengers) | (bound == Bound.IMPOSSIBLE))
        ]
        if len(mine):
            verb = "is" if len(mine) == 1 else "are"
            yield False, what.format(f"{fmt.plural(len(mine), 'cell')} of {_names(mine)}", verb)


def _names(cells: pd.DataFrame) -> str:
    return ", ".join(dict.fromkeys(map(str, cells["provider"])))


def _conditions(view: View) -> Iterator[Item]:
    timed = view.cells[view.cells["verdict"] == Verdict.PASSED]
    disturbed = sum(map(by_others, timed["disturbed"]))
    if disturbed:
        yield False, f"measure {fmt.plural(disturbed, 'disturbed cell')} again"
    if len(view.caches) == 1 and len(timed):
        other = "warm" if view.caches[0] == "cold" else "cold"
        yield False, f"measure the {other} cache too: only {view.caches[0]} times are known (--cache cold,warm)"


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
    """List what the run shows of the limits of the challengers; None where it shows none."""
    added = (row for limitations in joining(Hook.LIMITATIONS) for row in limitations(view))
    found = [*_cannot(view), *_loses(view), *_impossible(view), *added, *_fixed(view)]
    reading = "Computed from the cells of this run; what concerns the whole run is in the headline."
    table = limitations_table("limitations-table", "What limits the challengers", found, reading)
    return Section("known-limitations", "Known limitations", (table,)) if found else None


def limitations_table(table_id: str, title: str, found: Iterable[Limitation], reading: str = "") -> Table:
    """One row per limitation."""
    columns = text_columns("limitation", "where", "cause, as far as it is known", "next")
    return Table(table_id, title, columns, tuple(texts(*row) for row in found), reading=reading)


def _cannot(view: View) -> Iterator[Limitation]:
    cells = view.cells[view.cells["provider"].isin(view.challengers) & (view.cells["verdict"] != Verdict.PASSED)]
    for provider, verdict, reason, group in by_reason(cells):
        what = "cannot run" if verdict == Verdict.UNSUPPORTED else f"fails ({verdict.replace('_', ' ')})"
        yield Limitation(f"{provider} {what}", _where(view, group), reason, next_step(verdict))


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
            f"{_where(view, slower)}; most at {_one(view, worst)}: {at_worst}",
            cause,
            f"dispatch to {view.baseline} there: rooflens dispatch {view.run_path}",
        )


def _impossible(view: View) -> Iterator[Limitation]:
    cells = view.cells[view.cells["bound_class"] == Bound.IMPOSSIBLE]
    for provider, group in cells.groupby("provider", sort=False):
        suspects = group["bound_note"].str.partition(SUSPECT)[2].str.partition("; ")[0].value_counts()
        yield Limitation(
            f"{provider}: {fmt.plural(len(group), 'time')} {'is' if len(group) == 1 else 'are'} faster than possible",
            _where(view, group),
            f"suspected first: {suspects.index[0]}",
            "use none of these times before it is known why",
        )


def _fixed(view: View) -> Iterator[Limitation]:
    mine = view.cells["provider"].isin(view.challengers) & (view.cells["bound_class"] == Bound.UNEXPLAINED)
    for provider, group in view.cells[mine & view.cells["is_flat"]].groupby("provider", sort=False):
        yield Limitation(
            f"{provider}: the time does not grow with M, and no limit explains it",
            _where(view, group),
            "a fixed cost: launches, latency of a long K loop, or camping",
            "scan N or K around these sizes: rooflens run --scan, then rooflens camping",
        )


def _where(view: View, cells: pd.DataFrame) -> str:
    """Name the shapes and M of some cells: 12 cells of a, b and 1 more; M=64, 128."""
    layers = one_model(view.shapes)
    labels = list(dict.fromkeys(name_of(shape_of(row), layers) for row in cells.to_dict("records")))
    named = fmt.some(labels, MOST_SHAPES)
    return f"{fmt.plural(len(cells), 'cell')} of {named}; M={fmt.sizes(cells['M'])}"


def _one(view: View, row: Row) -> str:
    shape = shape_of(row)
    return f"{name_of(shape, one_model(view.shapes))} {shape.size}, M={int(row['M'])}, {row['dtype']}, {row['cache']}"
