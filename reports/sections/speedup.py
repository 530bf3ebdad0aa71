"""Speedup grids: shape x M, one per provider, each cell the ratio of the baseline's time to the provider's."""

import math
from collections.abc import Iterable, Iterator, Mapping

from .. import formatting as fmt
from ..model import Align, Cell, Column, Scale, Section, Table, Text, Tone
from ..view import Row, ShapeKey, Slice, View, anchors, chapter

HOW = (
    "Each number is the time of {baseline} divided by the time of the provider named above the grid: above 1 (blue) "
    "that provider is faster, below 1 (red) it is slower. Hatched with ~: undecided, the 95% interval includes 1. "
    "~1.0× is a measured tie: the whole interval rounds to 1.0. The interval of a "
    "geometric mean runs from the mean of the lower to the mean of the upper ends."
)


def speedup(view: View) -> Section:
    """Build the grids of every slice; the first slice is open, the others unfold."""
    if not view.others:
        text = f"Only {view.baseline} was measured, so there is nothing to compare it with."
        return Section("speedup", "Speedup", (Text(text),))
    if view.baseline not in view.providers:
        text = f"The baseline {view.baseline} has no cell in this run, so there is no ratio. Times are given below."
        return Section("speedup", f"Speedup over {view.baseline}", (Text(text),))
    if view.ratios["ratio"].isna().all():
        return Section("speedup", f"Speedup over {view.baseline}", tuple(_nothing(view)))
    parts = tuple(_slice(view, part, number) for number, part in enumerate(view.slices))
    lead = Text(HOW.format(baseline=view.baseline))
    return chapter("speedup", f"Speedup over {view.baseline}", (lead,), parts)


def _nothing(view: View) -> Iterator[Text]:
    """Say why no provider has a ratio, once per reason for the whole run."""
    without: dict[str, list[str]] = {}
    for provider in view.others:
        rows = view.rows(view.ratios, provider=provider)
        without.setdefault(_common_reason(rows), []).append(provider)
    for reason, names in without.items():
        yield Text(f"No ratio for {', '.join(names)}: {reason}")


def _slice(view: View, part: Slice, number: int) -> Section:
    blocks: list[Table | Text] = []
    without: dict[str, list[str]] = {}
    for provider, table_id in anchors(f"speedup-{part.id}", view.others):
        rows = view.by_cell(view.ratios, part, provider)
        if not rows:
            continue
        if all(math.isnan(row["ratio"]) for row in rows.values()):
            without.setdefault(_common_reason(rows.values()), []).append(provider)
            continue
        key = not any(isinstance(block, Table) for block in blocks)
        detail = bool(number) or (provider not in view.challengers and key is False and len(view.shapes) > 12)
        blocks.append(_grid(view, part, provider, table_id, rows, key, detail))
    blocks += [Text(f"No ratio for {', '.join(names)}: {reason}") for reason, names in without.items()]
    return Section(f"speedup-{part.id}", part.title, tuple(blocks), folded=number > 0)


def _grid(
    view: View,
    part: Slice,
    provider: str,
    table_id: str,
    rows: Mapping[tuple[ShapeKey, int], Row],
    key: bool,
    detail: bool,
) -> Table:
    sizes = view.Ms_in(rows)
    columns = (
        Column("shape", align=Align.LEFT),
        Column("N×K"),
        *(Column(f"M={m}", scale=Scale.DIVERGING) for m in sizes),
    )
    common = _common_note(rows)
    lines = [
        (Cell(shape.label), Cell(shape.size), *(ratio_cell(rows.get((shape, m)), common) for m in sizes))
        for shape in view.shapes_in(rows)
    ]
    means = {int(row["M"]): row for row in view.rows(view.analysis.means, part, provider=provider)}
    footer = [
        (Cell("geometric mean"), Cell(""), *(_mean_cell(means.get(m)) for m in sizes)),
        (Cell("distinct GEMMs in it"), Cell(""), *(_count_cell(means.get(m)) for m in sizes)),
    ]
    several = len(lines) > 1
    return Table(
        table_id,
        provider,
        columns,
        tuple(lines + footer) if several else tuple(lines),
        reading=_reading(view.baseline, provider, rows, common),
        detail=detail,
        key=key,
        footer=len(footer) if several else 0,
    )


def _common_note(rows: Mapping[tuple[ShapeKey, int], Row]) -> str:
    """Return the note that qualifies every ratio of a grid, "" when they differ."""
    notes = {str(row["note"]) for row in rows.values() if not math.isnan(row["ratio"])}
    return notes.pop() if len(notes) == 1 else ""


def _reading(baseline: str, provider: str, rows: Mapping[tuple[ShapeKey, int], Row], common: str) -> str:
    remarks = dict.fromkeys(
        str(row["reason"]) for row in rows.values() if row["reason"] and not math.isnan(row["ratio"])
    )
    return "; ".join([fmt.ratio_header(baseline, provider), *remarks, *([common] if common else [])])


def ratio_cell(row: Row | None, common: str) -> Cell:
    """Show the ratio of one cell: a tie, an undecided, a decided one, or why there is none.

    Its note becomes a footnote where it is not the one that all cells have in `common`.
    """
    if row is None:
        return Cell("", tone=Tone.MISSING)
    value = float(row["ratio"])
    if math.isnan(value):
        reason = str(row["reason"])
        return Cell(_word(reason), note=reason, tone=Tone.FAILED)
    level = math.log2(value)
    note = "" if row["note"] == common else str(row["note"])
    if row["verdict"] != "undecided":
        return Cell(fmt.ratio(value), value, level, note)
    return Cell(_undecided(row), value, level, note, Tone.UNDECIDED)


def _undecided(row: Row) -> str:
    """Write a ratio or a mean whose interval includes 1, or that has none: a tie where the whole interval is one."""
    is_tie = f"{row['ratio_low']:.1f}" == f"{row['ratio_high']:.1f}" == "1.0"
    return fmt.tie() if is_tie else fmt.undecided(float(row["ratio"]))


def _word(reason: str) -> str:
    """Return the verdict that a reason begins with, or a dash when the other side is missing."""
    word = reason.split(":")[0].strip()
    return word if word and " " not in word else "no ratio"


def _mean_cell(row: Row | None) -> Cell:
    if row is None or math.isnan(row["ratio"]):
        return Cell("")
    value, excluded = float(row["ratio"]), int(row["excluded"])
    note = f"leaves out {fmt.plural(excluded, 'cell')} in which a side has no time" if excluded else ""
    if row["ratio_low"] > 1 or row["ratio_high"] < 1:
        return Cell(fmt.ratio(value), value, math.log2(value), note=note)
    return Cell(_undecided(row), value, math.log2(value), note, Tone.UNDECIDED)


def _count_cell(row: Row | None) -> Cell:
    return Cell("") if row is None else Cell(str(row["gemms"]), int(row["gemms"]))


def _common_reason(rows: Iterable[Row]) -> str:
    reasons = list(dict.fromkeys(str(row["reason"]) for row in rows if row["reason"]))
    if len(reasons) == 1:
        return f"{reasons[0]}."
    return f"{len(reasons)} reasons, listed under “Failed and missing cells”." if reasons else ""
