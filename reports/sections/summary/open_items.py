"""A checklist of what a run leaves open and what it settles: undecided, limited, unmeasured."""

from collections.abc import Iterable, Iterator

from ....analysis.crossover.curve import CrossoverStatus
from ....shapes.run_folder.disturbance import by_others
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Bullets, Section
from ...view import View
from ..speedups.sides import compared
from .known_limitations import left_to_do, limitations_of

Item = tuple[bool, str]
"""Whether it is done, and what it is."""


def open_items(view: View) -> Section:
    """List what is done and what is open."""
    measured = (*_planned(view), *_ratios(view), *_crossovers(view), *_conditions(view))
    return checklist("open-items", (*measured, *left_to_do(limitations_of(view))))


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
            ends = {float(row["M_max"]) for row in beyond}
            end = f"M={ends.pop():g}" if len(ends) == 1 else "the largest M of each"
            yield (
                False,
                f"sweep beyond {end} for the crossover of {fmt.plural(len(beyond), 'shape')} ({where}): "
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


def _conditions(view: View) -> Iterator[Item]:
    checked = view.cells["verdict"].isin([Verdict.PASSED, Verdict.INCORRECT])
    timed = view.cells[view.cells["verdict"] == Verdict.PASSED]
    if len(timed) and len(timed) == checked.sum():
        yield True, f"all {len(timed)} outputs that were compared with the reference are correct"
    if unplaced := int((timed["bound_class"] == "").sum()):
        yield False, f"measure the limits of {fmt.plural(unplaced, 'cell')} that have none: rooflens calibrate"
    disturbed = sum(map(by_others, timed["disturbed"]))
    if disturbed:
        yield False, f"measure {fmt.plural(disturbed, 'disturbed cell')} again"
    if len(view.caches) == 1 and len(timed):
        other = "warm" if view.caches[0] == "cold" else "cold"
        yield False, f"measure the {other} cache too: only {view.caches[0]} times are known (--cache cold,warm)"
