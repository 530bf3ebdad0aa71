"""Speedup grids: shape x M, one per provider, each cell the ratio of the baseline's time to the provider's."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

import pandas as pd

from ....analysis.frames.speedup import bands
from ... import formatting as fmt
from ...cells import mean_cell, ratio_cell
from ...model import Block, Cells, Column, HowToRead, Scale, Section, Table, Text, table
from ...view import Row, ShapeKey, Slice, View, anchors, sliced
from .sides import compared
from .sizes import averaged, label_and_size

HOW = (
    "Each number is the time of {baseline} divided by the time of the provider named above the grid: above 1 (blue) "
    "that provider is faster, below 1 (red) it is slower; the {averaged} of the ratio of the round's medians. "
    "Hatched with ~: undecided, the 95% interval includes 1 or is unknown: it is not claimed as a speedup. ~1.0× is a "
    "measured tie: the whole interval rounds to 1.0. A number has no more digits than its interval leaves. The "
    "interval of a geometric mean runs from the mean of the lower to the mean of the upper ends."
)


def speedup(view: View) -> Section | None:
    """Build the grids of every slice; the first slice is open, the others unfold."""
    return _grids(view, view.others)


def speedup_of_challengers(view: View) -> Section | None:
    """Build the grids of the challengers alone."""
    return _grids(view, compared(view))


def _grids(view: View, names: tuple[str, ...]) -> Section | None:
    if not view.others:
        text = f"Only {view.baseline} was measured, so there is nothing to compare it with."
        return Section("speedup", "Speedup", (Text(text),))
    if view.baseline not in view.providers:
        text = f"The baseline {view.baseline} has no cell in this run, so there is no ratio. Times are given below."
        return Section("speedup", f"Speedup over {view.baseline}", (Text(text),))
    if view.ratios["ratio"].isna().all():
        return Section("speedup", f"Speedup over {view.baseline}", tuple(_nothing(view)))
    definitions = (
        HOW.format(baseline=view.baseline, averaged=averaged(view.ratios, "ratio")),
        view.legend_of(names).strip(),
    )
    lead = HowToRead(tuple(filter(None, definitions)))
    build = partial(_slice, view, names, bands(view.ratios, view.analysis.rounds))
    return sliced("speedup", f"Speedup over {view.baseline}", view.slices, build, (lead,))


def _nothing(view: View) -> Iterator[Text]:
    """Say why no provider has a ratio, once per reason for the whole run."""
    without: dict[str, list[str]] = {}
    for provider in view.others:
        rows = view.rows(view.ratios, provider=provider)
        without.setdefault(_common_reason(rows), []).append(provider)
    for reason, names in without.items():
        yield Text(f"No ratio for {', '.join(names)}: {reason}")


def _slice(view: View, names: tuple[str, ...], scatter: pd.DataFrame, part: Slice) -> Iterator[Block | None]:
    has_key = False
    without: dict[str, list[str]] = {}
    for provider, table_id in anchors(f"speedup-{part.id}", names):
        rows = view.by_cell(view.ratios, part, provider)
        if not rows:
            continue
        if all(math.isnan(row["ratio"]) for row in rows.values()):
            without.setdefault(_common_reason(rows.values()), []).append(provider)
            continue
        detail = part.is_later or (has_key and len(view.shapes) > 12)
        yield _grid(view, part, provider, table_id, rows, scatter, key=not has_key, detail=detail)
        has_key = True
    yield from (Text(f"No ratio for {', '.join(names)}: {reason}") for reason, names in without.items())


def _grid(
    view: View,
    part: Slice,
    provider: str,
    table_id: str,
    rows: Mapping[tuple[ShapeKey, int], Row],
    scatter: pd.DataFrame,
    *,
    key: bool,
    detail: bool,
) -> Table:
    """Build the grid of one provider in one slice, shapes by M, with the geometric mean of each column under it."""
    known = {m for (_, m), row in rows.items() if not math.isnan(row["ratio"])}
    columns = {m: Column(f"M={m}", scale=Scale.DIVERGING) for m in view.Ms_in(rows) if m in known}
    empty = {m: [row for (_, at), row in rows.items() if at == m] for m in view.Ms_in(rows) if m not in known}
    lines: list[Cells] = [
        {**label_and_size(shape), **{columns[m]: ratio_cell(rows.get((shape, m))) for m in columns}}
        for shape in view.shapes_in(rows)
    ]
    means = {int(row["M"]): row for row in view.rows(view.analysis.means, part, provider=provider)}
    first = next(iter(lines[0]))
    footer: list[Cells] = [
        {first: "geometric mean", **{columns[m]: mean_cell(means.get(m)) for m in columns}},
        {first: "distinct GEMMs in it", **{columns[m]: int(means[m]["gemms"]) for m in columns if m in means}},
    ]
    several = len(lines) > 1
    return table(
        table_id,
        view.titled(f"Speedup of {view.named(provider)} over {view.baseline}", part),
        lines + footer * several,
        _reading(rows.values(), empty, scatter),
        detail=detail,
        key=key,
        footer=len(footer) * several,
    )


def _reading(rows: Iterable[Row], empty: Mapping[int, list[Row]], scatter: pd.DataFrame) -> str:
    """Count the ratios, and what is left out; say how far the undecided ones scatter, and what qualifies them.

    `empty` has the rows of each M without any ratio, which has no column.
    """
    listed = list(rows)
    known = [row for row in listed if not math.isnan(row["ratio"])]
    counts = {word: sum(row["verdict"] == word for row in known) for word in ("faster", "slower", "undecided")}
    told = f"{fmt.plural(len(known), 'cell')}: {', '.join(f'{count} {word}' for word, count in counts.items())}"
    own = scatter[scatter.index.isin([row["cell_id"] for row in known if row["verdict"] == "undecided"])]
    if (own["rounds"] > 1).any():
        told += f" (their rounds up to {fmt.ratio(float((own['high'] / own['low']).max()))} apart)"
    if left_out := len(listed) - len(known):
        told += f"; {fmt.plural(left_out, 'cell')} without both times excluded"
    if empty:
        why = _common_reason(chain(*empty.values())).rstrip(".")
        told += f"; no ratio at M={fmt.some([*map(str, empty)], 20)}{f' ({why})' * bool(why)}"
    return "; ".join([told, *dict.fromkeys(str(row["reason"]) for row in known if row["reason"])]) + "."


def _common_reason(rows: Iterable[Row]) -> str:
    reasons = list(dict.fromkeys(str(row["reason"]) for row in rows if row["reason"]))
    if len(reasons) == 1:
        return f"{reasons[0]}."
    return f"{len(reasons)} reasons, listed under “Correctness”." if reasons else ""
