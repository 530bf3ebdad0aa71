"""A comparison as a whole: what changed, in short, and the geometric means with their intervals."""

import math
from collections.abc import Iterator

from ....analysis.comparison.decide import FALSE_DISCOVERY, Word
from ....analysis.comparison.effects import Order, Status
from ....analysis.comparison.parts import Part, leading, parts
from ....analysis.comparison.result import SUM, Result
from ....analysis.comparison.suite import SuiteChange, by_pass
from ... import formatting as fmt
from ...model import Cells, Column, HowToRead, KeyNumber, KeyNumbers, Remarks, Section, TableCell, table
from .cases import table_of_cases
from .takeaways import takeaways
from .words import (
    FEW,
    SIGN,
    UNKNOWN,
    UNPROVEN,
    change_column,
    how_averaged,
    interval_cell,
    interval_column,
    mean_change,
    part_cells,
    problems,
    rates_of,
    told,
)

HOW = (
    f"{SIGN} Each case is judged by its rounds: slower or faster "
    "when the change exceeds the margin (1%; 3% under 10 µs) beyond chance, with at most "
    f"{FALSE_DISCOVERY:.0%} false ones expected among all that are called; same when the 90% interval lies inside the "
    "margin; inconclusive otherwise, with the smallest change that would have been found in 4 of 5 such comparisons."
)

MOST_CARDS = 3


def headline(result: Result) -> Section:
    """Say what happened to the suite, how many cases moved, and what limits that."""
    how = HOW if result.unverified is None else SIGN
    blocks = (
        KeyNumbers(tuple(_cards(result))),
        *((slowest,) if (slowest := table_of_cases(result, FEW)) else ()),
        *((Remarks(said),) if (said := tuple(takeaways(result))) else ()),
        *((Remarks(result.notes),) if result.notes else ()),
        HowToRead((how,)),
    )
    return Section("compared", "What changed", blocks)


def suite(result: Result) -> Section | None:
    """One row per part: geometric mean rates, and the change with its interval."""
    found = [(part, change) for part in parts(result) if (change := part.change) is not None]
    if not found:
        return None
    _, rates = mean_rates([change for _, change in found])
    rows: list[Cells] = [
        {
            **part_cells(result, part),
            **cells,
            change_column(): mean_change(change),
            interval_column(result): again_cell(part, change),
            Column("cases"): _cases(result, change),
        }
        for (part, change), cells in zip(found, rates, strict=True)
    ]
    again = (
        "what rounding allows: of the printed times, whatever the noise. One value per case, from tables."
        if result.order is Order.IMPORTED
        else f"interval: 95%, over the rounds, of the suite as it is. {how_averaged(result)}"
    )
    how = f"{SIGN} {again} {_marks(found)}".strip()
    title, stub = "Geometric means over the cases that both versions pass", len(part_cells(result, found[0][0]))
    return Section("compared-suite", "The suite", (table("compared-means", title, rows, how_to_read=how, stub=stub),))


def again_cell(part: Part, change: SuiteChange) -> TableCell:
    """Interval of a geometric mean over the rounds; of tables, what rounding lets it be."""
    return _interval(part.rounded() or change.rounds)


def mean_rates(found: list[SuiteChange]) -> tuple[str, list[Cells]]:
    """Unit and cells of the geometric means of the rates of base and head; "" and no cells where none counts."""
    rates = [(one.base_flops_per_s, one.head_flops_per_s) for one in found]
    known = [rate for pair in rates for rate in pair if not math.isnan(rate)]
    unit = fmt.flops_unit(known) if known else ""
    return unit, [_rates(unit, *pair) if unit else {} for pair in rates]


def _rates(unit: str, base: float, head: float) -> Cells:
    if math.isnan(base):
        return rates_of(unit, (TableCell(""), TableCell("")))
    return rates_of(unit, map(TableCell, fmt.rates_in(unit, base, head), (base, head)))


def _marks(found: list[tuple[Part, SuiteChange]]) -> str:
    """What ~ means, where a mean has it."""
    return f"{UNPROVEN} " if any(change.unproven for _, change in found) else ""


def _cases(result: Result, change: SuiteChange) -> TableCell:
    """Number of cases in a mean; a footnote says how many are not, and why."""
    uncounted = (Status.COMPARED, Status.DECLINED)
    others = [
        f"{count} {status}" for status in Status if status not in uncounted and (count := result.count_of(status))
    ]
    left = f"{fmt.plural(change.left_out, 'case')} without all rounds excluded" if change.left_out else ""
    said = f"not in any mean, over all passes: {', '.join(others)}" if others else ""
    return TableCell(str(change.cases), change.cases, note="; ".join(filter(None, (left, said))))


def _interval(bounds: tuple[float, float] | None) -> TableCell:
    return interval_cell(math.log(bounds[0]), math.log(bounds[1])) if bounds and bounds[0] > 0 else UNKNOWN


def _cards(result: Result) -> Iterator[KeyNumber]:
    if result.no_result:
        seen = (f"{told(result, part)} {mean_change(change).text}" for part, change in _leading(result))
        means = fmt.some(list(seen), MOST_CARDS)
        detail = f"geometric means of the times, which prove nothing: {means}" if means else ""
        yield KeyNumber("No result", result.no_result, detail)
    else:
        yield from _changes(result)
    if result.unverified is None:
        slower, faster = result.count(Word.SLOWER), result.count(Word.FASTER)
        yield KeyNumber("Slower, verified", str(slower), _others(result), slower)
        yield KeyNumber("Faster, verified", str(faster), _called(result), faster)
    else:
        ranked = len(result.unverified.ranked)
        yield KeyNumber("Beyond the bounds of the tables", str(ranked), f"none verified; {_called(result)}", ranked)
    for status, what in ((Status.BROKEN, "passed in base, do not in head"), (Status.FIXED, "pass in head only")):
        if count := result.count_of(status):
            yield KeyNumber(status.value.capitalize(), str(count), what, count)
    for name, found in by_pass(result.selection).items() if result.selection is not None else ():
        bounds = _interval(found.rounds).text
        yield KeyNumber(
            f"Head's own configurations, {name}",
            mean_change(found).text,
            f"{'unproven, ' * found.unproven}time over head with those of base, {bounds}: what choosing again is worth",
            found.ratio - 1,
        )


def _leading(result: Result) -> list[tuple[Part, SuiteChange]]:
    return [(part, change) for part in leading(result) if (change := part.change) is not None]


def _changes(result: Result) -> Iterator[KeyNumber]:
    """One card per leading part, unless there are many: the chapter of the suite has them all."""
    found = _leading(result)
    for part, change in found if len(found) <= MOST_CARDS else ():
        again = again_cell(part, change)
        words = "rounding allows" if result.order is Order.IMPORTED else "95% interval over rounds"
        interval = "no interval" if again is UNKNOWN else f"{words} {again.text}"
        proof = "unproven, " if change.unproven else ""
        detail = f"{proof}geometric mean of {fmt.plural(change.cases, 'case')}, {interval}"
        yield KeyNumber(f"Change of time, {told(result, part)}", mean_change(change).text, detail, change.ratio - 1)


def _others(result: Result) -> str:
    sums = f"; sums of {SUM}: {result.count_sums(Word.SLOWER)} slower, {result.count_sums(Word.FASTER)} faster"
    said = f"{result.count(Word.SAME)} same, {result.count(Word.INCONCLUSIVE)} inconclusive"
    return said + sums * (result.sums is not None)


def _called(result: Result) -> str:
    cases = result.effects.cases
    compared = cases[cases["status"] == Status.COMPARED]
    in_problems = f" ({fmt.plural(problems(compared), 'problem')})"
    return f"of {fmt.plural(len(compared), 'case')}{in_problems} that both versions pass"
