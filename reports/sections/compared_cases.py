"""A comparison case by case: what moved, what has no counterpart, what was chosen otherwise, and all of it."""

import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from ...analysis.comparison import breakdown
from ...analysis.comparison.attribution import MEANINGS, Cause
from ...analysis.comparison.decide import Word
from ...analysis.comparison.effects import Status
from ...analysis.comparison.result import SUM, Result
from ...analysis.comparison.unverified import Unverified
from ...analysis.coordinates import size_label
from .. import formatting as fmt
from ..model import Align, Cell, Column, Scale, Section, Table, Text, Tone
from .compared_suite import change_cell, interval

Row = Mapping[Hashable, Any]

MOST_MOVERS = 20

_VARYING = ("pass", "dtype", "scheme", "cache")
"""Columns that are shown where they differ between cases."""

_PLACE = (Column("case", align=Align.LEFT), Column("provider", align=Align.LEFT), Column("M"))

_TONES = {
    Word.SLOWER: Tone.FAILED,
    Word.FASTER: Tone.BEST,
    Word.SAME: Tone.PLAIN,
    **dict.fromkeys((Word.INCONCLUSIVE, Word.UNVERIFIED), Tone.UNDECIDED),
}

_MEANINGS = {
    Status.BROKEN: "passed in base, does not in head",
    Status.FIXED: "did not pass in base, does in head",
    Status.NEW: "only head offers it",
    Status.REMOVED: "only base offers it",
    Status.FAILED: "passes in neither",
    Status.DECLINED: "neither offers it",
}


def movers(result: Result) -> Section | None:
    """The cases that changed most surely, and the sums of their passes that did."""
    if result.unverified is not None:
        return _ranked(result.unverified)
    moved = result.effects.cases["word"].isin([Word.SLOWER.value, Word.FASTER.value]).sum()
    found = breakdown.movers(result.effects, MOST_MOVERS)
    if found.empty:
        return None
    some = found[found["word"].isin([Word.SLOWER.value, Word.FASTER.value])]
    if some.empty:
        said = "No case is verified to have changed. The largest differences that were seen, none of them proven:"
        differences = _table("compared-movers", "Largest differences", found.head(5))
        return Section("movers", "Movers", (Text(said), differences, *_moved_sums(result)))
    left = f" The other {moved - len(some)} are among all cases below." if moved > len(some) else ""
    reading = f"verified ones, the surest first.{left}"
    return Section("movers", "Movers", (_table("compared-movers", "Movers", some, reading), *_moved_sums(result)))


def _moved_sums(result: Result) -> tuple[Table, ...]:
    found = result.moved_sums()
    reading = "the passes of a case added round by round; verified ones, the surest first."
    return () if found.empty else (_table("compared-moved-sums", f"Movers, {SUM}", found, reading),)


def _ranked(found: Unverified) -> Section:
    ranked = found.ranked.head(MOST_MOVERS)
    if ranked.empty:
        return Section("movers", "Movers", (Text("No change exceeds what the tables themselves exclude."),))
    reading = "changes beyond the bounds of the tables, those first that rounding cannot explain; none is verified."
    return Section("movers", "Movers", (_table("compared-movers", "Movers", ranked, reading),))


def outcomes(result: Result) -> Section | None:
    """Cases that are not in both versions, or do not pass in both; they are in no mean."""
    cases = result.effects.cases
    order = {status.value: number for number, status in enumerate(_MEANINGS)}
    others = cases[~cases["status"].isin([Status.COMPARED.value, Status.DECLINED.value])]
    if others.empty:
        return None
    others = others.iloc[others["status"].map(order).argsort(kind="stable")]
    columns = (
        *_PLACE,
        *(Column("status", align=Align.LEFT), Column("reason", align=Align.LEFT)),
    )
    varying = _varying(cases)
    rows = tuple(
        (
            *_place(row, varying),
            Cell(row["status"], tone=Tone.FAILED if row["status"] == Status.BROKEN else Tone.PLAIN),
            Cell(row["head_reason"] or row["base_reason"] or _MEANINGS[Status(row["status"])]),
        )
        for row in others.to_dict("records")
    )
    defined = "; ".join(
        f"{status}: {meaning}" for status, meaning in _MEANINGS.items() if (others["status"] == status).any()
    )
    return Section(
        "compared-outcomes",
        "Not compared",
        (Table("compared-others", "Cases without a ratio", columns, rows, defined),),
    )


def choices(result: Result) -> Section | None:
    """Cases in which the versions chose another configuration, kernel or dispatch: their change is the choice's too."""
    found = breakdown.other_choices(result.effects)
    if found.empty:
        return None
    varying = _varying(result.effects.cases)
    rows = []
    for row in found.to_dict("records"):
        differing = [name for name in ("dispatched", "config", "kernels") if row[f"base_{name}"] != row[f"head_{name}"]]
        told = "; ".join(f"{name} {row[f'base_{name}']} → {row[f'head_{name}']}" for name in differing)
        rows.append((*_place(row, varying), change_cell(math.exp(row["effect"])), Cell(row["word"]), Cell(told)))
    columns = (
        *_PLACE,
        Column("time, head over base", scale=Scale.DIVERGING),
        *(Column("verdict", align=Align.LEFT), Column("chosen otherwise", align=Align.LEFT)),
    )
    table = Table("compared-choices-table", "Other choices", columns, tuple(rows), detail=True)
    said = f"In {fmt.plural(len(rows), 'case')} the versions ran another configuration, kernel or dispatch."
    causes = (_causes(result.causes),) if result.causes is not None else ()
    return Section("compared-choices", "Other choices", (Text(said), *causes, table), folded=not causes)


def _causes(causes: pd.DataFrame) -> Table:
    """What the replay says: both configurations in both versions."""
    varying = _varying(causes)
    rows = tuple(
        (
            *_place(row, varying),
            *(_part(row, name) for name in ("total", "code", "choice")),
            Cell(row["cause"], note=MEANINGS[Cause(row["cause"])]),
        )
        for row in causes.to_dict("records")
    )
    columns = (
        *_PLACE,
        *(Column(name, scale=Scale.DIVERGING) for name in ("total", "by the code", "by the choice")),
        Column("cause", align=Align.LEFT),
    )
    reading = (
        "Both versions ran both configurations in turn. By the code: the mean change of a configuration that both run; "
        "by the choice: the mean change between the configurations in one version. They add up to the total."
    )
    return Table("compared-causes", "Why these cases changed", columns, rows, reading)


def _part(row: Row, name: str) -> Cell:
    if math.isnan(row[name]):
        return Cell("unknown", tone=Tone.MISSING)
    bounds = (math.exp(row[f"{name}_low"]), math.exp(row[f"{name}_high"]))
    cell = change_cell(math.exp(row[name]))
    return Cell(f"{cell.text} {interval(bounds)}", cell.value, cell.level)


def cases(result: Result) -> Section | None:
    """Every compared case."""
    found = result.effects.cases[result.effects.cases["status"] == Status.COMPARED]
    if found.empty:
        return None
    return Section(
        "compared-all", "All cases", (_table("compared-cases", "All cases", found, detail=True),), folded=True
    )


def _table(anchor: str, title: str, found: pd.DataFrame, reading: str = "", detail: bool = False) -> Table:
    varying = _varying(found)
    columns = (
        *_PLACE,
        *(Column("base"), Column("head"), Column("time, head over base", scale=Scale.DIVERGING)),
        *(Column("interval"), Column("verdict", align=Align.LEFT)),
    )
    rows = tuple(_row(row, varying) for row in found.to_dict("records"))
    return Table(anchor, title, columns, rows, reading, detail=detail)


def _row(row: Row, varying: list[str]) -> tuple[Cell, ...]:
    word = Word(row["word"])
    known = not math.isnan(row["low"])
    bounds = (math.exp(row["low"]), math.exp(row["high"])) if known else None
    note = "; ".join(f"{side}: {text}" for side in ("base", "head") if (text := row[f"{side}_disturbed"]))
    found = f", would find {fmt.change(math.exp(row['smallest']))}" if word is Word.INCONCLUSIVE and known else ""
    return (
        *_place(row, varying),
        Cell(fmt.time(row["base_time_s"]), row["base_time_s"]),
        Cell(fmt.time(row["head_time_s"]), row["head_time_s"]),
        change_cell(math.exp(row["effect"])) if not math.isnan(row["effect"]) else Cell("unknown", tone=Tone.MISSING),
        Cell(interval(bounds) or "none"),
        Cell(f"{word}{found}", tone=_TONES[word], note=note),
    )


def _place(row: Row, varying: list[str]) -> tuple[Cell, Cell, Cell]:
    return Cell(_name(row, varying)), Cell(row["provider"]), Cell(str(row["M"]), int(row["M"]))


def _name(row: Row, varying: list[str]) -> str:
    """Name the shape, and what else tells this case from the others."""
    others = " ".join(str(row[name]) for name in varying)
    return f"{row['model']} {row['layer']} ({size_label(row, '×')})" + (f" {others}" if others else "")


def _varying(cases: pd.DataFrame) -> list[str]:
    return [name for name in _VARYING if cases[name].nunique() > 1]
