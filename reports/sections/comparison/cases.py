"""A comparison case by case: what has no counterpart or fails, what was chosen otherwise, and all of it."""

import math
from collections.abc import Iterator

import pandas as pd

from ....analysis.comparison import breakdown
from ....analysis.comparison.attribution import MEANINGS, Attribution
from ....analysis.comparison.effects import Status
from ....analysis.comparison.evidence import settings_of
from ....analysis.comparison.parts import all_cases
from ....analysis.comparison.result import SUM, SUMMED, Result
from ....analysis.frames.coordinates import CASE
from ... import formatting as fmt
from ...model import Cells, Column, Section, Table, TableCell, Text, Tone, table
from ...view import Row
from .words import (
    COMBINED,
    SIDES,
    SIGN,
    UNKNOWN,
    Places,
    case_change,
    change_cell,
    change_cells,
    change_column,
    has_few,
    how_averaged,
    interval_cell,
)

MOST_ROWS = 100

_MEANINGS = {
    Status.BROKEN: "passed in base, does not in head",
    Status.FIXED: "did not pass in base, does in head",
    Status.NEW: "only head offers it",
    Status.REMOVED: "only base offers it",
    Status.FAILED: "passes in neither",
    Status.IMPOSSIBLE: "passes in both, and a time is shorter than the device allows",
}

_PASSES_IN = {Status.FIXED: "head", Status.NEW: "head", Status.BROKEN: "base", Status.REMOVED: "base"}


def outcomes(result: Result) -> Section | None:
    """Cases that are not in both versions, or do not pass in both: status on each side, and the numbers of one side."""
    found = result.effects.cases
    order = {status.value: number for number, status in enumerate(_MEANINGS)}
    others = found[found["status"].isin(list(order))]
    if others.empty:
        return None
    places = Places.of(result)
    others = others.iloc[others["status"].map(order).argsort(kind="stable")]
    rows = [_outcome(places, row) for row in others.head(MOST_ROWS).to_dict("records")]
    rows += [_combined(places, mine) for mine in _whole(others)]
    defined = "; ".join(
        f"{status}: {meaning}" for status, meaning in _MEANINGS.items() if (others["status"] == status).any()
    )
    more = f" The other {len(others) - MOST_ROWS} of {len(others)} are not listed." if len(others) > MOST_ROWS else ""
    own = "its: of the version that passes, the geometric mean over its rounds."
    reading = f"They are in no mean. {defined}. {own}{more}"
    listed = table("compared-others", "Correctness changes and cases without a ratio", rows, reading, stub=2)
    return Section("compared-outcomes", "Not compared", (listed,))


def _outcome(places: Places, row: Row) -> Cells:
    status = Status(row["status"])
    side = _PASSES_IN.get(status, "")
    seconds = float(row[f"{side}_time_s"]) if side else math.nan
    return {
        **places.cells(row),
        "pass": row["pass"],
        "became": TableCell(str(status), tone=Tone.FAILED if status is Status.BROKEN else Tone.PLAIN),
        **{one: row[f"{one}_verdict"] or "absent" for one in SIDES},
        "reason": row["head_reason"] or row["base_reason"],
        **_own(seconds, float(row["flops"])),
    }


def _own(seconds: float, flops: float) -> Cells:
    if math.isnan(seconds):
        return {Column("its time"): "", Column("its rate"): ""}
    rate = flops / seconds if flops > 0 else None
    return {
        Column("its time"): TableCell(fmt.time(seconds), seconds),
        Column("its rate"): TableCell(fmt.flops(rate), rate),
    }


def _whole(others: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the passes of a problem that add up: all of them pass on the same one side."""
    wanted = others[others["pass"].isin(SUMMED) & ~_impossible(others)]
    keys = [name for name in CASE if name != "pass"]
    for _, mine in wanted.groupby(keys, sort=False, dropna=False):
        sides = {_PASSES_IN.get(Status(word), "") for word in mine["status"]}
        if len(mine) == len(SUMMED) and len(sides) == 1 and sides != {""}:
            yield mine


def _impossible(others: pd.DataFrame) -> "pd.Series[bool]":
    """True where the time of the side that passes is impossible: shown with the reason, and in no sum."""
    sides = others["status"].map(lambda word: _PASSES_IN.get(Status(word), ""))
    return ((sides == "base") & others["base_impossible"]) | ((sides == "head") & others["head_impossible"])


def _combined(places: Places, mine: pd.DataFrame) -> Cells:
    first = mine.to_dict("records")[0]
    side = _PASSES_IN[Status(first["status"])]
    statuses = ", ".join(dict.fromkeys(str(word) for word in mine["status"]))
    named: Cells = {**places.cells(first), "pass": TableCell(SUM, note=COMBINED), "became": statuses}
    return named | _own(float(mine[f"{side}_time_s"].sum()), float(mine["flops"].sum()))


def choices(result: Result) -> Section | None:
    """Cases in which the versions chose another configuration, kernel or dispatch: their change is the choice's too."""
    found = breakdown.other_choices(result.effects)
    if found.empty:
        return None
    places = Places.of(result)
    rows: list[Cells] = [
        {
            **places.cells(row),
            "pass": row["pass"],
            change_column(): case_change(row),
            "verdict": row["word"],
            "chosen otherwise": "; ".join(_chosen(row)),
        }
        for row in found.to_dict("records")
    ]
    listed = table("compared-choices-table", "Other choices", rows, f"Base → head. {SIGN}", stub=2, detail=True)
    text = f"In {fmt.plural(len(rows), 'case')} the versions ran another configuration, kernel or dispatch."
    causes = (_causes(places, result.causes),) if result.causes is not None else ()
    return Section("compared-choices", "Other choices", (Text(text), *causes, listed), folded=not causes)


def _chosen(row: Row) -> Iterator[str]:
    """Say what was chosen otherwise; of a configuration, the settings that differ."""
    for name in ("dispatched", "config", "kernels"):
        base, head = str(row[f"base_{name}"]), str(row[f"head_{name}"])
        if base == head:
            continue
        gone, come = (set(settings_of(text)) for text in (base, head))
        if name == "config" and (gone or come):
            less, more = (" ".join(sorted(part)) or "none" for part in (gone - come, come - gone))
            yield f"{less} → {more}"
        else:
            yield f"{name} {base or 'unknown'} → {head or 'unknown'}"


def _causes(places: Places, causes: pd.DataFrame) -> Table:
    rows: list[Cells] = [
        {
            **places.cells(row),
            "pass": row["pass"],
            change_column("total"): _part(row, "total"),
            **{change_column(f"by the {name}"): _part(row, name) for name in ("code", "choice")},
            "cause": TableCell(row["cause"], note=MEANINGS[Attribution(row["cause"])]),
        }
        for row in causes.to_dict("records")
    ]
    reading = (
        f"{SIGN} Both versions ran both configurations in turn. By the code: the "
        "mean change of a configuration that both run; by the choice: the mean change between the configurations in "
        "one version. Their factors multiply to the total."
    )
    return table("compared-causes", "Why these cases changed", rows, how_to_read=reading, stub=2)


def _part(row: Row, name: str) -> TableCell:
    if math.isnan(row[name]):
        return UNKNOWN
    cell = change_cell(row[name], row[f"{name}_low"], row[f"{name}_high"])
    bounds = interval_cell(row[f"{name}_low"], row[f"{name}_high"])
    return TableCell(f"{cell.text} {bounds.text}", cell.value, cell.level)


def cases(result: Result) -> Section | None:
    """Every compared case and every sum, unless all of them stand under the headline."""
    listed = None if has_few(result) else table_of_cases(result)
    return Section("compared-all", "All cases", (listed,), folded=True) if listed else None


def table_of_cases(result: Result, most: int | None = None) -> Table | None:
    """One row per compared case and sum, slowest change first, `most` of them; None where nothing is compared."""
    found = all_cases(result).sort_values("effect", ascending=False, kind="stable")
    if found.empty:
        return None
    places = Places.of(result)
    passes = ("pass",) if found["pass"].nunique() > 1 else ()
    rows: list[Cells] = [
        {**places.cells(row), **{name: row[name] for name in passes}, **change_cells(result, row)}
        for row in found.iloc[:most].to_dict("records")
    ]
    title = f"{len(rows)} of {len(found)} compared cases" if len(rows) < len(found) else "All compared cases"
    name = "compared-slowest" if most else "compared-cases"
    reading = f"{SIGN} {how_averaged(result)}".strip()
    return table(name, f"{title}, slowest change first", rows, reading, stub=2, detail=most is None)
