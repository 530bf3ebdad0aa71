"""What a comparison leaves open: outputs that were checked, limits of head with what to do next, and a checklist."""

from collections.abc import Iterator

import pandas as pd

from ....analysis.comparison import breakdown
from ....analysis.comparison.decide import Word
from ....analysis.comparison.effects import Order, Status
from ....analysis.comparison.parts import all_cases, parts, problem_of
from ....analysis.comparison.result import SUM, Result
from ....analysis.run.remedy import remedy
from ....shapes.run_folder.disturbance import by_others
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Cells, Column, Section, TableCell, Text, table
from ..summary.correctness import SKIPPED, bar_text, floor_of
from ..summary.known_limitations import Limitation, left_to_do, limitations_table, next_step
from ..summary.open_items import checklist
from .words import SIDES, Places, part_cells, problems, rates_of


def tally(result: Result) -> Section | None:
    """Count the outcomes of both versions, in cases and in problems, with the pass bar; None of tables."""
    cases = result.effects.cases
    if result.order is Order.IMPORTED or cases.empty:
        return None
    verdicts = [verdict for verdict in Verdict if any((cases[f"{side}_verdict"] == verdict).any() for side in SIDES)]
    rows = []
    for side in SIDES:
        found = cases[cases[f"{side}_verdict"] != ""]
        counted = found[~found[f"{side}_verdict"].isin(SKIPPED)]
        lacking = counted[counted[f"{side}_verdict"] != Verdict.PASSED]
        row: Cells = {"version": side, Column("cases"): len(found)}
        for verdict in verdicts:
            word = "skipped" if verdict in SKIPPED else verdict.value.replace("_", " ")
            row[Column(word)] = int((found[f"{side}_verdict"] == verdict).sum())
        whole = problems(counted) - problems(lacking)
        rows.append(row | {Column("problems"): problems(found), Column("problems that pass everywhere"): whole})
    bars = ", ".join(
        f"{scheme} with {dtype} {bar_text(floor_of(str(scheme), str(dtype)))}"
        for scheme, dtype in cases[["scheme", "dtype"]].drop_duplicates().itertuples(index=False)
    )
    how = (
        "A case is a problem in one pass, by one provider. Every output is checked against the fp64 product of the "
        f"same quantized bits before it is timed and after. Pass bar: {bars}. Skipped: declined with a reason."
    )
    checked = table("compared-tally", "Outputs checked", rows, how_to_read=how)
    return Section("compared-correctness", "Correctness", (checked,))


def limitations(result: Result) -> Section | None:
    """List where head fails or loses, why as far as it is known, and what to do next; None where it does neither."""
    listed = limitations_table("compared-limitations-table", "What limits head", _limitations(result))
    return Section("compared-limitations", "Known limitations", listed) if listed else None


def _limitations(result: Result) -> tuple[Limitation, ...]:
    return (*_fails(result), *_loses(result))


def _fails(result: Result) -> Iterator[Limitation]:
    cases, places = result.effects.cases, Places.of(result)
    failing = cases[cases["status"].isin([Status.BROKEN, Status.FAILED, Status.DECLINED])]
    keys = ["provider", "pass", "status", "head_verdict", "head_reason"]
    for (provider, pass_, status, verdict, reason), group in failing.groupby(keys, sort=False):
        if verdict in ("", Verdict.PASSED):
            continue
        what = "cannot run" if verdict in SKIPPED else f"fails ({str(verdict).replace('_', ' ')})"
        before = " that passed in base" if status == Status.BROKEN else ""
        yield Limitation(
            f"{provider}, {pass_}: {what} at {fmt.plural(len(group), 'case')}{before}",
            _where(places, group),
            str(reason) or "no reason was stored",
            next_step(str(verdict)),
        )


def _loses(result: Result) -> Iterator[Limitation]:
    places, rows = Places.of(result), all_cases(result)
    others = breakdown.other_choices(result.effects).to_dict("records")
    chosen = {(*problem_of(row), pass_) for row in others for pass_ in (row["pass"], SUM)}
    for (provider, pass_), group in rows[rows["word"] == Word.SLOWER.value].groupby(["provider", "pass"], sort=False):
        otherwise = sum((*problem_of(row), pass_) in chosen for row in group.to_dict("records"))
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
    return checklist("compared-open-items", _items(result))


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
        way_out = remedy(more_rounds=True, device_changed=bool(result.withheld))
        yield (
            (False, f"decide {undecided} of {compared} that are inconclusive: {way_out}")
            if undecided
            else (True, f"all {compared} that both versions pass are decided")
        )
        if not any(_loses(result)):
            yield True, "nothing is verified slower"
    yield from left_to_do(_limitations(result))
    if count := result.count_of(Status.REMOVED):
        yield False, f"decide what replaces what only base offers: {fmt.plural(count, 'case')}"
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
    rows: list[Cells] = [
        {
            **part_cells(result, part),
            **rates_of(unit, map(TableCell, fmt.rates_in(unit, base, head), (base, head))),
            Column("difference", unit): TableCell(
                f"{fmt.MINUS if head < base else '+'}{fmt.flops_in(unit, abs(head - base))}", head - base
            ),
            Column("cases"): len(cases),
        }
        for (part, cases), (base, head) in zip(found, means, strict=True)
    ]
    reading = "Arithmetic mean of the rates of the cases that both versions pass: the fastest cases decide it."
    stub = len(rows[0]) - 4
    listed = table("compared-arithmetic", "Arithmetic mean, as the document printed it", rows, reading, stub=stub)
    text = Text("It is no ratio of times and no geometric mean: it is here to be set beside a document that prints it.")
    return Section("compared-arithmetic-mean", "Arithmetic mean", (listed, text))
