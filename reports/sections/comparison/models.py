"""A comparison by model: geometric means, and means of the percentages, which are other numbers."""

import math
from collections.abc import Iterator

import pandas as pd

from ....analysis.comparison.decide import Word
from ....analysis.comparison.effects import Status
from ....analysis.comparison.numbering import SHAPE_SIZES
from ....analysis.comparison.parts import GROUP, Part, leading, parts
from ....analysis.comparison.result import Result
from ....analysis.comparison.suite import SuiteChange
from ... import formatting as fmt
from ...model import Cells, Column, Section, Table, TableCell, table
from .suite import mean_rates
from .words import SIGN, UNKNOWN, UNPROVEN, Places, change_column, group_cells, mean_change, part_cells, share_text


def models(result: Result) -> Section | None:
    """Build the chapter; None where all cases are of one model."""
    found = parts(result)
    names = list(dict.fromkeys(str(name) for part in found for name in part.cases["model"]))
    if len(names) < 2:
        return None
    return Section("compared-models", "By model", (_means(result, names), *_percentages(result, names)))


def _means(result: Result, names: list[str]) -> Table:
    """Per model and leading part: rates of base and head, and the change of time."""
    found = [
        (name, mine, change)
        for part in leading(result)
        for name in names
        if (change := (mine := part.of_model(name)).change) is not None
    ]
    _, rates = mean_rates([change for *_, change in found])
    words = [word for word in result.words if word is not Word.UNVERIFIED]
    places = Places.of(result)
    cases = result.effects.cases
    excluded = cases.loc[~cases["status"].isin([Status.COMPARED, Status.DECLINED]), [*SHAPE_SIZES, *GROUP, "status"]]
    rows: list[Cells] = [
        {
            "model": name,
            **part_cells(result, part),
            Column("cases"): _count(excluded, places, name, part, change),
            **cells,
            change_column(): mean_change(change),
            **{Column(word.value): part.words()[word] for word in words},
        }
        for (name, part, change), cells in zip(found, rates, strict=True)
    ]
    reading = (
        "Geometric means over the cases of a model that both versions pass. "
        f"{SIGN} {f'{UNPROVEN} ' if any(change.unproven for *_, change in found) else ''}"
        f"{'None is verified.' if not words else 'Then how many of them have which verdict.'}"
    )
    return table("compared-by-model", "Models: geometric means", rows, reading)


def _count(excluded: pd.DataFrame, places: Places, model: str, part: Part, change: SuiteChange) -> TableCell:
    """Number of cases; a footnote names those of the model that are in no mean, and why."""
    mine = (excluded["model"] == model) & (excluded[[*GROUP]] == list(part.group)).all(axis=1)
    rows = excluded[mine].to_dict("records")
    statuses = ", ".join(dict.fromkeys(str(row["status"]) for row in rows))
    without = f"without {places.numbering.title} {places.numbers(rows)}: {statuses}" if rows else ""
    left = f"{fmt.plural(change.left_out, 'case')} without all rounds excluded" if change.left_out else ""
    return TableCell(str(change.cases), change.cases, note="; ".join(filter(None, (without, left))))


def _percentages(result: Result, names: list[str]) -> Iterator[Table]:
    """Per model the arithmetic mean of the percentages in every pass; one table per group."""
    by_group: dict[tuple[str, ...], list[Part]] = {}
    for part in parts(result):
        by_group.setdefault(part.group, []).append(part)
    how = (
        f"Arithmetic means over the cases of a model, sorted by the last column. {SIGN} Not to be compared with the "
        "geometric means."
    )
    for number, mine in enumerate(by_group.values(), start=1):
        rows = sorted((_percentage_row(name, mine) for name in names), key=_last_value)
        title = ", ".join(["Models: means of the percentages", *map(str, group_cells(result, mine[0]).values())])
        yield table(f"compared-model-means-{number}", title, rows, how_to_read=how, detail=True)


def _last_value(row: Cells) -> float:
    *_, last = row.values()
    return float(last.value) if isinstance(last, TableCell) and isinstance(last.value, float) else math.inf


def _percentage_row(model: str, mine: list[Part]) -> Cells:
    own = [part.of_model(model) for part in mine]
    counts = [len(part.cases) for part in own]
    low, high = min(counts), max(counts)
    changes: Cells = {change_column(f"change, {part.pass_}"): _mean_of_percentages(part) for part in own}
    count = TableCell(str(high) if low == high else f"{low} to {high}", high)
    return {"model": model, Column("cases"): count, **changes}


def _mean_of_percentages(part: Part) -> TableCell:
    if part.cases.empty:
        return UNKNOWN
    mean = float(part.changes().mean())
    return TableCell(share_text(mean, part.cases), mean, -math.log2(1 + mean) * 4)
