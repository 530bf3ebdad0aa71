"""What moved: largest gains and losses, and time saved."""

import pandas as pd

from ....analysis.comparison.decide import Word
from ....analysis.comparison.parts import by_problem, leading, leading_cases, parts, problem_of
from ....analysis.comparison.result import Result
from ... import formatting as fmt
from ...model import Cells, Column, Section, Table, TableCell, Text, table
from ...view import Row
from .words import (
    TIMES,
    Places,
    case_change,
    change_column,
    has_few,
    interval_cell,
    interval_column,
    rate_cells,
    rate_unit,
    time_cells,
    verdict_cell,
)

TOP = 10
"""Rows of a list of what gained most, or saved most time."""

BOTTOM = 5
"""Rows of the list of what gained least."""


def movers(result: Result) -> Section | None:
    """Build the chapter; None where a single table holds all cases, or nothing is compared."""
    rows = leading_cases(result)
    if has_few(result):
        return None
    places = Places.of(result)
    ranked = rows.sort_values("effect", kind="stable")
    gaining = ranked[ranked["effect"] < 0].head(TOP)
    tables: list[Table] = []
    if len(gaining):
        reading = _reading(ranked, gaining)
        tables.append(_gains(result, places, "compared-movers", "Largest gains", gaining, reading))
    if len(ranked) > TOP:
        worst = rows.sort_values("effect", ascending=False, kind="stable").head(BOTTOM)
        losing = worst[worst["effect"] > 0]
        title, least = ("Largest losses", losing) if len(losing) else ("Smallest gains", worst)
        tables.append(_gains(result, places, "compared-least", title, least, _least(ranked, least)))
    tables.append(_saved(places, rows))
    return Section("movers", "Movers", (Text(_verified(result, rows)), *tables))


def _verified(result: Result, rows: pd.DataFrame) -> str:
    ranking = ", ".join(dict.fromkeys(part.pass_ for part in leading(result)))
    if result.unverified is not None:
        ranked = len(result.unverified.ranked)
        beyond = f"{ranked} of {len(result.unverified.cases)} exceed" if ranked else "no change exceeds"
        return (
            f"Ranked by {ranking}. None is verified: there is one value per case, and {beyond} what the tables exclude."
        )
    moved = int(rows["word"].isin([Word.SLOWER.value, Word.FASTER.value]).sum())
    if not moved:
        return (
            f"No case is verified to have changed in {ranking}. The lists show the largest differences that were seen, "
            "none of them proven: without a change they are what noise looks like."
        )
    return (
        f"Ranked by {ranking}, of which {moved} of {fmt.plural(len(rows), 'case')} are verified to have changed; the "
        "rank is by point estimate, which exaggerates the changes at the ends of a list: see interval and verdict."
    )


def _reading(ranked: pd.DataFrame, gaining: pd.DataFrame) -> str:
    ranking = ", ".join(dict.fromkeys(ranked["pass"]))
    return (
        f"The first {len(gaining)} of {fmt.plural(len(ranked), 'case')} by change of time in {ranking}; interval and "
        f"verdict are of that. {TIMES}"
    )


def _least(ranked: pd.DataFrame, least: pd.DataFrame) -> str:
    losing = int((ranked["effect"] > 0).sum())
    said = f"{losing} of {len(ranked)} lose" if losing else "no case loses"
    return f"The last {len(least)} of {len(ranked)} cases by change of time, the slowest first; {said}."


def _gains(result: Result, places: Places, anchor: str, title: str, found: pd.DataFrame, reading: str) -> Table:
    """Rates, change and verdict in the pass that ranks, and the change in the other passes."""
    unit = rate_unit(found)
    problems = by_problem(result)
    ranking = list(dict.fromkeys(found["pass"]))
    others = [name for name in dict.fromkeys(part.pass_ for part in parts(result)) if name not in ranking]
    rows: list[Cells] = [
        {
            **places.cells(row),
            **rate_cells(row, unit),
            change_column(f"change, {', '.join(ranking)}"): case_change(row),
            **{change_column(f"change, {name}"): _other(problems, row, name) for name in others},
            interval_column(result): interval_cell(row["low"], row["high"]),
            "verdict": verdict_cell(row),
        }
        for row in found.to_dict("records")
    ]
    return table(anchor, title, rows, reading, stub=2)


def _other(problems: dict[tuple[object, ...], dict[str, dict[str, object]]], row: Row, name: str) -> TableCell:
    other = problems[problem_of(row)].get(name)
    return TableCell("") if other is None else case_change(other)


def _saved(places: Places, rows: pd.DataFrame) -> Table:
    """Cases by the time that they save or lose, whatever their share: what a user of all of them notices."""
    added = rows["head_gmean_s"] - rows["base_gmean_s"]
    total = float(added.abs().sum())
    order = added.abs().sort_values(ascending=False, kind="stable").index
    lines = [_added(places, row, total) for row in rows.assign(added=added).loc[order].head(TOP).to_dict("records")]
    sums = {name: float(rows[name].sum()) for name in ("base_gmean_s", "head_gmean_s")}
    base, head = sums.values()
    ratio = TableCell(f"{fmt.change(head / base)}, ratio of sums", head / base - 1)
    whole: Cells = {"case": f"all {len(rows)} cases", Column("head − base"): _signed(head - base), "verdict": ratio}
    reading = (
        f"The first {min(TOP, len(rows))} of {len(rows)} cases by time lost (+) or saved (−) in one launch of each, "
        "which long launches decide. share: of the sum of all absolute differences."
    )
    listed = [*lines, whole | time_cells(sums)]
    return table("compared-saved", "Most time saved or lost", listed, reading, stub=2, footer=1)


def _added(places: Places, row: Row, total: float) -> Cells:
    added = float(row["added"])
    part = abs(added) / total if total else 0.0
    return {
        **places.cells(row),
        **time_cells(row),
        Column("head − base"): _signed(added),
        Column("share of all movement"): TableCell(fmt.share(part), part),
        "verdict": verdict_cell(row),
    }


def _signed(seconds: float) -> TableCell:
    sign = fmt.MINUS if seconds < 0 else "+" if seconds > 0 else ""
    return TableCell(f"{sign}{fmt.time(abs(seconds))}", seconds)
