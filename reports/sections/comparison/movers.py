"""What moved: largest and smallest gains, time saved, and each pass by itself."""

import pandas as pd

from ....analysis.comparison.decide import Word
from ....analysis.comparison.parts import Part, by_problem, leading, leading_cases, parts, problem_of
from ....analysis.comparison.result import Result
from ... import formatting as fmt
from ...model import Section, Table, TableCell, Text, number_columns, text_columns
from .words import (
    TIMES,
    Places,
    Row,
    case_gain,
    change_cells,
    change_columns,
    gain_column,
    has_few,
    interval_cell,
    interval_column,
    rate_cells,
    rate_columns,
    rate_unit,
    time_cells,
    told,
    verdict_cell,
)

TOP = 10
"""Rows of a list of what gained most, or saved most time."""

MOST_PARTS = 12
"""Lists of single passes; with more parts only those that lead have one, and no more than these."""

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
    tables = []
    if len(gaining):
        reading = _reading(ranked, gaining)
        tables.append(_gains(result, places, "compared-movers", "Largest gains", gaining, reading))
    if len(ranked) > TOP:
        least = rows.sort_values("effect", ascending=False, kind="stable").head(BOTTOM)
        tables.append(_gains(result, places, "compared-least", "Smallest gains", least, _least(ranked, least)))
    tables.append(_saved(result, places, rows))
    return Section("movers", "Movers", (Text(_verified(result, rows)), *tables), _passes(result, places))


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
        f"The first {len(gaining)} of {fmt.plural(len(ranked), 'case')} by throughput gain in {ranking}; interval and "
        f"verdict are of that. {TIMES}"
    )


def _least(ranked: pd.DataFrame, least: pd.DataFrame) -> str:
    negative = int((ranked["effect"] > 0).sum())
    said = f"{negative} of {len(ranked)} are negative" if negative else "all of them are positive: no case loses"
    return f"The last {len(least)} of {len(ranked)} cases by throughput gain, the least first; {said}."


def _gains(result: Result, places: Places, anchor: str, title: str, found: pd.DataFrame, reading: str) -> Table:
    """Rates, gain and verdict in the pass that ranks, and the gain in the other passes."""
    unit = rate_unit(found)
    problems = by_problem(result)
    ranking = list(dict.fromkeys(found["pass"]))
    others = [name for name in dict.fromkeys(part.pass_ for part in parts(result)) if name not in ranking]
    columns = (
        *places.columns,
        *rate_columns(unit),
        *(gain_column(f"gain, {name}") for name in (", ".join(ranking), *others)),
        *(interval_column(result), *text_columns("verdict")),
    )
    rows = tuple(
        (
            *(*places.cells(row), *rate_cells(row, unit), case_gain(row)),
            *(_other(problems, row, name) for name in others),
            *(interval_cell(row["low"], row["high"]), verdict_cell(row)),
        )
        for row in found.to_dict("records")
    )
    return Table(anchor, title, columns, rows, reading, stub=2)


def _other(problems: dict[tuple[object, ...], dict[str, dict[str, object]]], row: Row, name: str) -> TableCell:
    other = problems[problem_of(row)].get(name)
    return TableCell("") if other is None else case_gain(other)


def _saved(result: Result, places: Places, rows: pd.DataFrame) -> Table:
    """Cases by the time that they save or lose, whatever their share: what a user of all of them notices."""
    saved = rows["base_gmean_s"] - rows["head_gmean_s"]
    total = float(saved.abs().sum())
    order = saved.abs().sort_values(ascending=False, kind="stable").index
    lines = [_saving(places, row, total) for row in rows.assign(saved=saved).loc[order].head(TOP).to_dict("records")]
    sums = rows[["base_gmean_s", "head_gmean_s"]].sum()
    base, head = float(sums["base_gmean_s"]), float(sums["head_gmean_s"])
    blank = (TableCell(""),) * (len(places.columns) - 1)
    lines.append(
        (
            *(
                TableCell(f"all {len(rows)} cases"),
                *blank,
                TableCell(fmt.time(base), base),
                TableCell(fmt.time(head), head),
            ),
            *(
                _signed(base - head),
                TableCell(""),
                TableCell(f"{fmt.change(base / head)}, ratio of sums", base / head - 1),
            ),
        )
    )
    columns = (
        *(*places.columns, *number_columns("base", "head", "time saved", "share of all movement")),
        *text_columns("verdict"),
    )
    reading = (
        f"The first {min(TOP, len(rows))} of {len(rows)} cases by time saved or lost (−) in one launch of each, "
        "which long launches decide. share: of the sum of all absolute differences."
    )
    return Table("compared-saved", "Most time saved or lost", columns, tuple(lines), reading, stub=2, footer=1)


def _saving(places: Places, row: Row, total: float) -> tuple[TableCell, ...]:
    saved = float(row["saved"])
    part = abs(saved) / total if total else 0.0
    return (
        *(*places.cells(row), *time_cells(row), _signed(saved), TableCell(fmt.share(part), part)),
        verdict_cell(row),
    )


def _signed(seconds: float) -> TableCell:
    sign = fmt.MINUS if seconds < 0 else ""
    return TableCell(f"{sign}{fmt.time(abs(seconds))}", seconds)


def _passes(result: Result, places: Places) -> tuple[Section, ...]:
    """Per pass the cases whose time fell most, with their times; folded, and nothing where none fell."""
    found = parts(result)
    shown = found if len(found) <= MOST_PARTS else leading(result)[:MOST_PARTS]
    tables = (_pass(result, places, part, number) for number, part in enumerate(shown, start=1))
    falling = tuple(table for table in tables if table)
    return (Section("compared-passes", "Each pass by itself", falling, folded=True),) if falling else ()


def _pass(result: Result, places: Places, part: Part, number: int) -> Table | None:
    ranked = part.cases.sort_values("effect", kind="stable")
    rows = ranked[ranked["effect"] < 0].head(TOP).to_dict("records")
    if not rows:
        return None
    return Table(
        f"compared-pass-{number}",
        f"Largest time reductions, {told(result, part)}",
        (*places.columns, *change_columns(result)),
        tuple((*places.cells(row), *change_cells(row)) for row in rows),
        reading=f"The first {len(rows)} of {len(part.cases)} cases. {TIMES} interval: of the throughput gain.",
        stub=2,
        detail=True,
    )
