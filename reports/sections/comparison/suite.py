"""A comparison as a whole and by model: what changed, in short, and the geometric means with both intervals."""

import math
from collections.abc import Iterator

import pandas as pd

from ....analysis.comparison.decide import FALSE_DISCOVERY, Word
from ....analysis.comparison.effects import Order, Status
from ....analysis.comparison.numbering import SHAPE_SIZES
from ....analysis.comparison.parts import GROUP, Part, leading, parts
from ....analysis.comparison.result import SUM, Result
from ....analysis.comparison.suite import SuiteChange, by_pass
from ... import formatting as fmt
from ...model import (
    Column,
    HowToRead,
    KeyNumber,
    KeyNumbers,
    Remarks,
    Section,
    Table,
    TableCell,
    integer,
    number_columns,
    text_columns,
)
from .cases import table_of_cases
from .takeaways import takeaways
from .words import (
    FEW,
    SIGN,
    TIMES,
    UNKNOWN,
    UNPROVEN,
    Places,
    change_column,
    group_cells,
    group_columns,
    interval_cell,
    mean_change,
    pass_cell,
    problems,
    rate_columns,
    share_text,
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
        *((table,) if (table := table_of_cases(result, FEW)) else ()),
        *((Remarks(said),) if (said := tuple(takeaways(result))) else ()),
        *((Remarks(result.notes),) if result.notes else ()),
        HowToRead((how,)),
    )
    return Section("compared", "What changed", blocks)


def suite(result: Result) -> Section | None:
    """One row per part: geometric mean rates, the change with both intervals, and once per distinct GEMM."""
    found = [(part, change) for part in parts(result) if (change := part.change()) is not None]
    if not found:
        return None
    unit, rates = mean_rates([change for _, change in found])
    columns = (
        *(*group_columns(result), *text_columns("pass"), *(rate_columns(unit) if unit else ())),
        *(change_column(), _again_column(result), *number_columns("over the cases", "cases", "distinct GEMMs")),
        change_column("change over those"),
    )
    rows = tuple(
        (
            *(*group_cells(result, part), pass_cell(part), *(cells if unit else ()), mean_change(change)),
            *(again_cell(part, change), _interval(change.spread), _cases(result, change), *_distinct(part)),
        )
        for (part, change), cells in zip(found, rates, strict=True)
    )
    again = (
        "what rounding allows: of the printed times, whatever the noise. One value per case, from tables."
        if result.order is Order.IMPORTED
        else f"if measured again: 95% interval over the rounds, of the suite as it is. {TIMES}"
    )
    table = Table(
        "compared-means",
        "Geometric means over the cases that both versions pass",
        columns,
        rows,
        how_to_read=f"{SIGN} {again} {_marks(found)}over the cases: how much they "
        "disagree, which more rounds do not narrow. distinct GEMMs: the same GEMM under several models counts once.",
        stub=len(group_columns(result)) + 1,
    )
    return Section("compared-suite", "The suite", (table,))


def again_cell(part: Part, change: SuiteChange) -> TableCell:
    """Interval of a geometric mean over the rounds; of tables, what rounding lets it be."""
    if rounded := part.rounded():
        return _interval((rounded.low, rounded.high))
    return _interval(change.rounds)


def mean_rates(found: list[SuiteChange]) -> tuple[str, list[tuple[TableCell, TableCell]]]:
    """Unit and cells of the geometric means of the rates of base and head; the unit is "" where none counts."""
    rates = [(one.base_flops_per_s, one.head_flops_per_s) for one in found]
    known = [rate for pair in rates for rate in pair if not math.isnan(rate)]
    unit = fmt.flops_unit(known) if known else ""
    return unit, [
        _rates(unit, base, head) if not math.isnan(base) else (TableCell(""), TableCell("")) for base, head in rates
    ]


def _rates(unit: str, base: float, head: float) -> tuple[TableCell, TableCell]:
    texts = fmt.rates_in(unit, base, head)
    return TableCell(texts[0], base), TableCell(texts[1], head)


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


def _again_column(result: Result) -> Column:
    return Column("what rounding allows" if result.order is Order.IMPORTED else "if measured again")


def _interval(bounds: tuple[float, float] | None) -> TableCell:
    return interval_cell(math.log(bounds[0]), math.log(bounds[1])) if bounds and bounds[0] > 0 else UNKNOWN


def _distinct(part: Part) -> tuple[TableCell, TableCell]:
    found = part.change(unique=True)
    return (integer(found.cases), mean_change(found)) if found else (UNKNOWN, UNKNOWN)


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
    return [(part, change) for part in leading(result) if (change := part.change()) is not None]


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


def models(result: Result) -> Section | None:
    """Build the chapter; None where all cases are of one model."""
    found = parts(result)
    names = list(dict.fromkeys(str(name) for part in found for name in part.cases["model"]))
    if len(names) < 2:
        return None
    return Section("compared-models", "By model", (_means(result, names), *_percentages(result, names)))


def _means(result: Result, names: list[str]) -> Table:
    """Per model and leading part: rates of base and head, and the change of time."""
    rows = [
        (name, mine, change)
        for part in leading(result)
        for name in names
        if (change := (mine := part.of_model(name)).change()) is not None
    ]
    unit, rates = mean_rates([change for *_, change in rows])
    words = [word for word in result.words if word is not Word.UNVERIFIED]
    places = Places.of(result)
    cases = result.effects.cases
    excluded = cases.loc[~cases["status"].isin([Status.COMPARED, Status.DECLINED]), [*SHAPE_SIZES, *GROUP, "status"]]
    columns = (
        *(*text_columns("model"), *group_columns(result), *text_columns("pass"), Column("cases")),
        *(rate_columns(unit) if unit else ()),
        *(change_column(), Column("if measured again"), *(Column(word.value) for word in words)),
    )
    lines = tuple(
        (
            *(
                TableCell(name),
                *group_cells(result, part),
                pass_cell(part),
                _count(excluded, places, name, part, change),
            ),
            *(cells if unit else ()),
            *(mean_change(change), again_cell(part, change)),
            *(TableCell(str(count := part.words()[word]), count) for word in words),
        )
        for (name, part, change), cells in zip(rows, rates, strict=True)
    )
    reading = (
        "Geometric means over the cases of a model that both versions pass. "
        f"{SIGN} {f'{UNPROVEN} ' if any(change.unproven for *_, change in rows) else ''}"
        f"{'None is verified.' if not words else 'Then how many of them have which verdict.'}"
    )
    return Table("compared-by-model", "Models: geometric means", columns, lines, reading, stub=1)


def _count(excluded: pd.DataFrame, places: Places, model: str, part: Part, change: SuiteChange) -> TableCell:
    """Number of cases; a footnote names those of the model that are in no mean, and why."""
    mine = (excluded["model"] == model) & (excluded[[*GROUP]] == list(part.group)).all(axis=1)
    rows = excluded[mine].to_dict("records")
    statuses = ", ".join(dict.fromkeys(str(row["status"]) for row in rows))
    without = f"without {places.numbering.title} {places.numbers(rows)}: {statuses}" if rows else ""
    left = f"{fmt.plural(change.left_out, 'case')} without all rounds excluded" if change.left_out else ""
    return TableCell(str(change.cases), change.cases, note="; ".join(filter(None, (without, left))))


def _percentages(result: Result, names: list[str]) -> tuple[Table, ...]:
    """Per model the arithmetic mean of the percentages in every pass; one table per group."""
    by_group: dict[tuple[str, ...], list[Part]] = {}
    for part in parts(result):
        by_group.setdefault(part.group, []).append(part)
    tables = []
    for number, mine in enumerate(by_group.values()):
        columns = (
            *(*text_columns("model"), Column("cases")),
            *(change_column(f"change, {part.pass_}") for part in mine),
        )
        rows = [_percentage_row(name, mine) for name in names]
        rows.sort(key=lambda row: float(row[-1].value) if isinstance(row[-1].value, float) else math.inf)
        said = ", ".join(cell.text for cell in group_cells(result, mine[0]))
        tables.append(
            Table(
                f"compared-model-means-{number + 1}",
                "Models: means of the percentages" + (f", {said}" if said else ""),
                columns,
                tuple(rows),
                how_to_read=f"Arithmetic means over the cases of a model, sorted by the last column. {SIGN} Not to be "
                "compared with the geometric means.",
                detail=True,
            )
        )
    return tuple(tables)


def _percentage_row(model: str, mine: list[Part]) -> tuple[TableCell, ...]:
    cells, counts = [], []
    for part in mine:
        own = part.of_model(model)
        changes = own.changes()
        counts.append(len(changes))
        if not len(changes):
            cells.append(UNKNOWN)
            continue
        mean = float(changes.mean())
        cells.append(TableCell(share_text(mean, own.cases), mean, -math.log2(1 + mean) * 4))
    low, high = min(counts), max(counts)
    return (TableCell(model), TableCell(str(high) if low == high else f"{low} to {high}", high), *cells)
