"""What moved: largest gains and losses, and time saved; where head is slower, the smaller losses by number."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pandas as pd

from ....analysis.comparison.decide import Word
from ....analysis.comparison.parts import (
    PROBLEM,
    Part,
    all_cases,
    by_problem,
    leading,
    leading_cases,
    parts,
    problem_of,
)
from ....analysis.comparison.result import Result
from ... import formatting as fmt
from ...model import Bullets, Cells, Column, Section, Table, TableCell, Text, table
from ...view import Row
from .words import (
    SIGN,
    Places,
    case_change,
    change_column,
    has_few,
    how_averaged,
    interval_cell,
    interval_column,
    rate_cells,
    rate_unit,
    time_cells,
    told,
    verdict_cell,
)

TOP = 10
"""Rows of a list of what gained most, or saved most time."""

BOTTOM = 5
"""Rows of the list of what gained least, where nothing lost."""

MOST_LOSSES = 20

LARGE = 0.05
"""A loss of time that is listed whether it is verified or not."""

BANDS = ((0.05, 0.025), (0.025, 0.01))
"""Smaller losses, named by their numbers: from and to, as shares."""

Passes: TypeAlias = Mapping[str, Row]
"""Rows of a problem by pass; the sum is one of them."""


def movers(result: Result) -> Section | None:
    """Rank the gains and the time saved; None where a single table holds all cases, or nothing is compared."""
    if has_few(result):
        return None
    rows = leading_cases(result)
    gaining = rows[rows["effect"] < 0].sort_values("effect", kind="stable")
    most = (f"The first {min(TOP, len(gaining))} of", gaining.head(TOP))
    lists = [("compared-movers", "Largest gains", *most)] if len(gaining) else []
    if len(gaining) == len(rows) > TOP:
        least = gaining.sort_values("effect", ascending=False, kind="stable").head(BOTTOM)
        lists.append(("compared-least", "Smallest gains", "No case loses. The last five of", least))
    places = Places.of(result)
    tables = [
        _table(
            *(result, places, anchor, title, found),
            f"{which} {fmt.plural(len(rows), 'case')} by change of time in {_ranking(result)}; rates, interval and "
            f"verdict are of that. {how_averaged(result)}".strip(),
        )
        for anchor, title, which, found in lists
    ]
    said = Text(_verified(result, rows, bool(lists)))
    return Section("movers", "Movers", (said, *tables, _saved(places, rows)))


def _ranking(result: Result) -> str:
    return ", ".join(dict.fromkeys(part.pass_ for part in leading(result)))


def _verified(result: Result, rows: pd.DataFrame, has_lists: bool) -> str:
    ranking = _ranking(result)
    if result.unverified is not None:
        ranked = len(result.unverified.ranked)
        beyond = f"{ranked} of {len(result.unverified.cases)} exceed" if ranked else "no change exceeds"
        return (
            f"Ranked by {ranking}. None is verified: there is one value per case, and {beyond} what the tables exclude."
        )
    moved = int(rows["word"].isin([Word.SLOWER.value, Word.FASTER.value]).sum())
    if not moved:
        lists = (
            " The lists show the largest differences that were seen, none of them proven: without a change they are "
            "what noise looks like."
        )
        return f"No case is verified to have changed in {ranking}.{lists * has_lists}"
    told = f"Ranked by {ranking}, of which {moved} of {fmt.plural(len(rows), 'case')} are verified to have changed"
    lists = (
        "; the rank is by point estimate, which exaggerates the changes at the ends of a list: see interval and verdict"
    )
    return f"{told}{lists * has_lists}."


def _table(result: Result, places: Places, anchor: str, title: str, found: pd.DataFrame, reading: str) -> Table:
    """Rates, interval and verdict of each row, and the change in every pass of its problem."""
    names = list(dict.fromkeys(part.pass_ for part in (*leading(result), *parts(result))))
    unit, problems = rate_unit(found), by_problem(result)
    listed = [(row, problems[problem_of(row)]) for row in found.to_dict("records")]
    rows: list[Cells] = [
        {
            **places.cells(row),
            **({"pass": row["pass"]} if len(names) > 1 else {}),
            **rate_cells(row, unit),
            **{change_column(f"change, {name}"): case_change(passes[name]) if name in passes else "" for name in names},
            interval_column(result): interval_cell(row["low"], row["high"]),
            "verdict": verdict_cell(row),
            **({"verified slower in": _slower_in(passes, names)} if len(names) > 1 else {}),
        }
        for row, passes in listed
    ]
    return table(anchor, title, rows, reading, stub=2)


def _slower_in(passes: Passes, names: Iterable[str]) -> str:
    slower = (name for name in names if name in passes and passes[name]["word"] == Word.SLOWER)
    return ", ".join(slower) or "none"


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


def losses(result: Result) -> Section | None:
    """Build the chapter; None where a single table holds all cases, or nothing is compared."""
    if has_few(result):
        return None
    rows = all_cases(result)
    places = Places.of(result)
    flagged = rows[(rows["word"] == Word.SLOWER.value) | (np.expm1(rows["effect"]) >= LARGE)]
    said = Text(_said(result, rows, flagged))
    tables = (_regressions(result, places, flagged),) if len(flagged) else ()
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
    seen = f"{large or 'none'} {'lose' if large > 1 else 'loses'} 5% or more by point estimate"
    return f"{proof} Of {len(rows)} passes and sums that are compared, {seen}."


def _regressions(result: Result, places: Places, flagged: pd.DataFrame) -> Table:
    """One row per problem that has a flagged pass, that which loses most, the worst first."""
    worst = flagged.sort_values("effect", ascending=False, kind="stable").drop_duplicates([*PROBLEM])
    more = f" The other {len(worst) - MOST_LOSSES} are among all cases." if len(worst) > MOST_LOSSES else ""
    reading = (
        "Cases that are verified to be slower in a pass, or take 5% more time in one; the worst first, by point "
        f"estimate of the pass that loses most, of which each row is. {SIGN}{more}"
    )
    return _table(result, places, "compared-regressions", "Cases that lose", worst.head(MOST_LOSSES), reading)


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
