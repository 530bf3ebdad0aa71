"""What a comparison leaves open: where head is slower, outputs that were checked, what to do next, and a checklist."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ....analysis.comparison import breakdown
from ....analysis.comparison.decide import Word
from ....analysis.comparison.effects import Order, Status
from ....analysis.comparison.parts import Part, all_cases, by_problem, parts, problem_of
from ....analysis.comparison.result import SUM, Result
from ....analysis.run.remedy import remedy
from ....shapes.run_folder.disturbance import by_others
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Bullets, Column, Section, Table, TableCell, Text, integer, number_columns, text_columns
from ...terms import REMEDIES
from ..summary.accuracy import SKIPPED, bar_text, floor_of
from ..summary.open_items import Limitation, next_step
from .words import (
    SIDES,
    SIGN,
    Places,
    case_change,
    change_column,
    group_cells,
    group_columns,
    has_few,
    pass_cell,
    problems,
    rate_columns,
    told,
)


def tally(result: Result) -> Section | None:
    """Count the outcomes of both versions, in cases and in problems, with the pass bar; None of tables."""
    cases = result.effects.cases
    if result.order is Order.IMPORTED or cases.empty:
        return None
    verdicts = [verdict for verdict in Verdict if any((cases[f"{side}_verdict"] == verdict).any() for side in SIDES)]
    words = ["skipped" if verdict in SKIPPED else verdict.value.replace("_", " ") for verdict in verdicts]
    columns = (*text_columns("version"), *number_columns("cases", *words, "problems", "problems that pass everywhere"))
    lines = []
    for side in SIDES:
        found = cases[cases[f"{side}_verdict"] != ""]
        counted = found[~found[f"{side}_verdict"].isin(SKIPPED)]
        lacking = counted[counted[f"{side}_verdict"] != Verdict.PASSED]
        whole = problems(counted) - problems(lacking)
        numbers = [len(found), *((found[f"{side}_verdict"] == verdict).sum() for verdict in verdicts)]
        lines.append((TableCell(side), *map(integer, (*numbers, problems(found), whole))))
    bars = ", ".join(
        f"{scheme} with {dtype} {bar_text(floor_of(str(scheme), str(dtype)))}"
        for scheme, dtype in cases[["scheme", "dtype"]].drop_duplicates().itertuples(index=False)
    )
    how = (
        "A case is a problem in one pass, by one provider. Every output is checked against the fp64 product of the "
        f"same quantized bits before it is timed and after. Pass bar: {bars}. Skipped: declined with a reason."
    )
    table = Table("compared-tally", "Outputs checked", columns, tuple(lines), how_to_read=how)
    return Section("compared-correctness", "Correctness", (table,))


def limitations(result: Result) -> Section | None:
    """List where head fails or loses, why as far as it is known, and what to do next; None where it does neither."""
    found = [*_fails(result), *_loses(result)]
    if not found:
        return None
    columns = text_columns("limitation", "where", "cause, as far as it is known", "next")
    lines = tuple(tuple(map(TableCell, row)) for row in found)
    return Section(
        "compared-limitations",
        "Known limitations",
        (Table("compared-limitations-table", "What limits head", columns, lines),),
    )


def _fails(result: Result) -> Iterator[Limitation]:
    cases, places = result.effects.cases, Places.of(result)
    failing = cases[cases["status"].isin([Status.BROKEN, Status.FAILED, Status.DECLINED])]
    keys = ["provider", "pass", "head_verdict", "head_reason"]
    for (provider, pass_, verdict, reason), group in failing.groupby(keys, sort=False):
        if verdict in ("", Verdict.PASSED):
            continue
        what = "cannot run" if verdict in SKIPPED else f"fails ({str(verdict).replace('_', ' ')})"
        yield Limitation(
            f"{provider}, {pass_}: {what}",
            _where(places, group),
            str(reason) or "no reason was stored",
            next_step(str(verdict)),
        )


def _loses(result: Result) -> Iterator[Limitation]:
    cases, places = result.effects.cases, Places.of(result)
    chosen = set(breakdown.other_choices(result.effects).index)
    slower = cases[cases["word"] == Word.SLOWER.value]
    for (provider, pass_), group in slower.groupby(["provider", "pass"], sort=False):
        otherwise = len(chosen & set(group.index))
        cause = "the code: configuration and dispatch are the same"
        action = "see what ran, and the machine code of both: rooflens isa"
        if otherwise:
            cause = f"another configuration, kernel or dispatch in {fmt.count(otherwise, len(group))} of them"
            action = "see the other choices; rooflens compare --git --tune separates the effects of code and choice"
        yield Limitation(f"{provider}, {pass_}: verified slower than base", _where(places, group), cause, action)


def _where(places: Places, cases: pd.DataFrame) -> str:
    rows = cases.to_dict("records")
    return f"{fmt.plural(len(rows), 'case')}: {places.numbering.title} {places.numbers(rows, most=6)}"


def open_items(result: Result) -> Section:
    """A checklist of what the comparison settles and what it does not, open items first."""
    items = sorted(_items(result), key=lambda item: item[0])
    done, said = (tuple(part) for part in zip(*items, strict=True))
    return Section("compared-open-items", "Open items", (Bullets(said, done),))


def _items(result: Result) -> Iterator[tuple[bool, str]]:
    cases = result.effects.cases
    compared = fmt.plural(result.count_of(Status.COMPARED), "case")
    if result.order is Order.IMPORTED:
        yield False, "measure both versions: tables have one value per case, so nothing in them is verified"
    else:
        if result.order is Order.INTERLEAVED:
            yield True, "both versions were measured in turn"
        else:
            yield False, "measure both versions in turn, with rooflens compare --git: one ran after the other"
        undecided = result.count(Word.INCONCLUSIVE)
        way_out = REMEDIES[remedy(more_rounds=True, device_changed=bool(result.withheld))]
        yield (
            (False, f"decide {undecided} of {compared} that are inconclusive: {way_out}")
            if undecided
            else (True, f"all {compared} that both versions pass are decided")
        )
        slower = fmt.plural(count, "case") if (count := result.count(Word.SLOWER)) else ""
        sums = f"{count} sums of {SUM}" if result.sums is not None and (count := result.count_sums(Word.SLOWER)) else ""
        lost = " and ".join(filter(None, (slower, sums)))
        yield not lost, f"explain or accept what is verified slower: {lost}" if lost else "nothing is verified slower"
    for status, words in (
        (Status.BROKEN, "correct what passed in base and fails in head"),
        (Status.FAILED, "correct what passes in neither version"),
        (Status.REMOVED, "decide what replaces what only base offers"),
    ):
        if count := result.count_of(status):
            yield False, f"{words}: {fmt.plural(count, 'case')}"
    if not result.count_of(Status.BROKEN):
        yield True, "nothing that passed in base fails in head"
    disturbed = sum(
        by_others("; ".join(sides)) for sides in zip(cases["base_disturbed"], cases["head_disturbed"], strict=True)
    )
    if disturbed:
        yield False, f"measure {fmt.plural(disturbed, 'disturbed case')} again"


def arithmetic_means(result: Result) -> Section | None:
    """Arithmetic means of the rates, which some documents print; None where no case has FLOPs."""
    found = [(part, part.cases[part.cases["flops"] > 0]) for part in parts(result)]
    found = [(part, cases) for part, cases in found if len(cases)]
    if not found:
        return None
    means = [[float((cases["flops"] / cases[f"{side}_gmean_s"]).mean()) for side in SIDES] for _, cases in found]
    unit = fmt.flops_unit(rate for pair in means for rate in pair)
    lines = tuple(
        (
            *(*group_cells(result, part), pass_cell(part)),
            *map(TableCell, fmt.rates_in(unit, base, head), (base, head)),
            TableCell(f"{fmt.MINUS if head < base else '+'}{fmt.flops_in(unit, abs(head - base))}", head - base),
            integer(len(cases)),
        )
        for (part, cases), (base, head) in zip(found, means, strict=True)
    )
    columns = (
        *(*group_columns(result), *text_columns("pass"), *rate_columns(unit)),
        *(Column("difference", unit), Column("cases")),
    )
    table = Table(
        "compared-arithmetic", "Arithmetic mean, as the document printed it", columns, lines, stub=len(columns) - 4,
        reading="Arithmetic mean of the rates of the cases that both versions pass: the fastest cases decide it.",
    )  # fmt: skip
    text = Text("It is no ratio of times and no geometric mean: it is here to be set beside a document that prints it.")
    return Section("compared-arithmetic-mean", "Arithmetic mean", (table, text))


LARGE = 0.05
"""A loss of time that is listed whether it is verified or not."""

BANDS = ((0.05, 0.025), (0.025, 0.01))
"""Smaller losses, named by their numbers: from and to, as shares."""

MOST = 20


def losses(result: Result) -> Section | None:
    """Build the chapter; None where a single table holds all cases, or nothing is compared."""
    if has_few(result):
        return None
    rows = all_cases(result)
    places = Places.of(result)
    flagged = rows[(rows["word"] == Word.SLOWER.value) | (np.expm1(rows["effect"]) >= LARGE)]
    said = Text(_said(result, rows, flagged))
    tables = (_table(result, places, flagged),) if len(flagged) else ()
    bands = tuple(line for part in parts(result) for line in _bands(result, places, part))
    return Section("compared-losses", "Regressions", (said, *tables, *((Bullets(bands),) if bands else ())))


def _said(result: Result, rows: pd.DataFrame, flagged: pd.DataFrame) -> str:
    verified = int((rows["word"] == Word.SLOWER.value).sum())
    if result.unverified is not None:
        proof = "One value per case: nothing is verified to be slower."
    elif verified:
        proof = f"{fmt.plural(verified, 'pass of a case is', 'passes of cases are')} verified to be slower."
    else:
        proof = "Nothing is verified to be slower."
    large = int((np.expm1(flagged["effect"]) >= LARGE).sum())
    seen = f"{large or 'none'} {'lose' if large else 'loses'} 5% or more by point estimate"
    return f"{proof} Of {len(rows)} passes and sums that are compared, {seen}."


def _table(result: Result, places: Places, flagged: pd.DataFrame) -> Table:
    """One row per problem that has a flagged pass, the worst first, with all its passes."""
    problems = by_problem(result)
    worst = flagged.sort_values("effect", ascending=False, kind="stable").to_dict("records")
    keys = list(dict.fromkeys(problem_of(row) for row in worst))
    names = list(dict.fromkeys(part.pass_ for part in parts(result)))
    columns = (
        *places.columns,
        *(change_column(f"change, {name}") for name in names),
        *text_columns("verified slower in"),
    )
    rows = tuple(_row(places, problems[key], names) for key in keys[:MOST])
    more = f" The other {len(keys) - MOST} are among all cases." if len(keys) > MOST else ""
    reading = (
        "Cases that are verified to be slower in a pass, or take 5% more time in one; the worst first, by point "
        f"estimate. {SIGN}{more}"
    )
    return Table("compared-regressions", "Cases that lose", columns, rows, reading, stub=2)


def _row(places: Places, passes: dict[str, dict[str, Any]], names: list[str]) -> tuple[TableCell, ...]:
    first = next(iter(passes.values()))
    slower = [name for name in names if name in passes and passes[name]["word"] == Word.SLOWER.value]
    return (
        *places.cells(first),
        *(case_change(passes[name]) if name in passes else TableCell("") for name in names),
        TableCell(", ".join(slower) or "none"),
    )


def _bands(result: Result, places: Places, part: Part) -> Iterator[str]:
    """Name the cases in each band; a band includes its end that is nearer to zero."""
    cases = part.cases
    lost = part.changes()
    for most, least in BANDS:
        inside = cases[(lost < most) & (lost >= least) & (cases["word"] != Word.SLOWER.value).to_numpy()]
        rows = inside.sort_values("effect", ascending=False, kind="stable").to_dict("records")
        if rows:
            span = f"between +{least * 100:g}% and +{most * 100:g}%"
            one = fmt.plural(len(rows), "further case lies", "further cases lie")
            proof = "" if result.unverified is not None else ", none of them verified"
            yield f"{told(result, part)}: {one} {span}{proof}: {places.numbering.title} {places.numbers(rows)}."
