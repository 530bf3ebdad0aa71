"""Where head is slower: every verified or large loss in any pass, and the smaller ones by number, band by band."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from ....analysis.comparison.decide import Word
from ....analysis.comparison.parts import Part, all_cases, by_problem, parts, problem_of
from ....analysis.comparison.result import Result
from ... import formatting as fmt
from ...model import Bullets, Cells, Section, Table, Text, table
from .words import SIGN, Places, case_change, change_column, has_few, told

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
    rows = [_row(places, problems[key], names) for key in keys[:MOST]]
    more = f" The other {len(keys) - MOST} are among all cases." if len(keys) > MOST else ""
    reading = (
        "Cases that are verified to be slower in a pass, or take 5% more time in one; the worst first, by point "
        f"estimate. {SIGN}{more}"
    )
    return table("compared-regressions", "Cases that lose", rows, reading, stub=2)


def _row(places: Places, passes: dict[str, dict[str, Any]], names: list[str]) -> Cells:
    slower = [name for name in names if name in passes and passes[name]["word"] == Word.SLOWER.value]
    return {
        **places.cells(next(iter(passes.values()))),
        **{change_column(f"change, {name}"): case_change(passes[name]) if name in passes else "" for name in names},
        "verified slower in": ", ".join(slower) or "none",
    }


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
