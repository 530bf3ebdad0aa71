"""The decode grid: layer x M with its ties, the times behind it, and what the baseline is."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ....analysis.frames.speedup import bands
from ... import formatting as fmt
from ...cells import ratio_cell, time_cell
from ...model import Block, Cells, Column, HowToRead, Scale, Section, Table, TableCell, Text, Tone, table
from ...view import Row, ShapeKey, Slice, View, anchors, shape_of, sliced
from .sizes import averaged, counting, shape_names, size_cells
from .speedup import grid, heat

FEW = 8
"""Undecided cells of a grid up to which each has a footnote with its own band; beyond it they share one."""

NO_CLAIM = "not claimed as a speedup"

_ONE_ROUND = f"one round, so no band and no interval: {NO_CLAIM}"

Band = tuple[float, float, int]
"""Least and largest ratio of a round, and the number of rounds."""


def decode_grid(view: View) -> Section | None:
    """Build the grids of the challengers in every slice, each with the times of its representative cells."""
    names = compared(view)
    if not names:
        return None
    frame = bands(view.ratios, view.analysis.rounds)
    found = {str(cell): (float(low), float(high), int(count)) for cell, low, high, count in frame.itertuples(name=None)}
    doubt = f" A cell with ~ is undecided: its 95% interval includes 1, so it is {NO_CLAIM}."
    any_tie = (view.ratios.loc[view.ratios["provider"].isin(names), "verdict"] == "undecided").any()
    lead = Text(
        "Layers in the order of the model, columns by M. Above 1 the provider named above a grid is faster than "
        f"{view.baseline}.{doubt if any_tie else ''}"
    )
    legend = view.legend_of(names).strip()
    how = (HowToRead((legend,)),) if legend else ()
    title, build = f"Speedup over {view.baseline}", partial(_slice, view, names, found)
    return sliced("grid", title, view.slices, build, (lead, *how))


def compared(view: View) -> tuple[str, ...]:
    """Return the challengers that have a ratio somewhere; where none has, the other providers that do."""
    known = set(view.ratios.loc[view.ratios["ratio"].notna(), "provider"])
    challengers = tuple(name for name in view.challengers if name in known)
    return challengers or tuple(name for name in view.others if name in known)


def _slice(view: View, names: Iterable[str], found: Mapping[str, Band], part: Slice) -> Iterator[Block | None]:
    has_key = False
    for place, (provider, table_id) in enumerate(anchors(f"grid-{part.id}", tuple(names))):
        rows = view.by_cell(view.ratios, part, provider)
        if not any(fmt.known(row["ratio"]) for row in rows.values()):
            continue
        undecided = [row for row in rows.values() if row["verdict"] == "undecided"]
        shared = _shared(undecided, found) if len(undecided) > FEW else ""
        layers = one_model([shape for shape, _ in rows])
        head = heads_of((shape for shape, _ in rows), layers)
        show = partial(_cell, shared=shared, found=found)
        listed = grid(view, part, provider, table_id, rows, key=not has_key, detail=place > 0, head=head, show=show)
        has_key = True
        yield listed
        if place == 0:
            yield heat(view, part, provider, listed, rows)
        if shared:
            yield _ties(undecided, found, f"ties-{table_id.removeprefix('grid-')}", provider, layers)
    yield _representatives(view, part, names)


def heads_of(shapes: Iterable[ShapeKey], layers: bool) -> Callable[[ShapeKey], Cells]:
    """Head the rows of a grid with the name of the shape, of its layer alone where `layers`, and with its sizes."""
    names = shape_names(shapes)
    return lambda shape: {**name_cell(shape, layers), **size_cells(shape._asdict(), names)}


def name_cell(shape: ShapeKey, layers: bool) -> Cells:
    """Head a row with the name of a shape."""
    return {"layer" if layers else "shape": name_of(shape, layers)}


def one_model(shapes: Iterable[ShapeKey]) -> bool:
    """True where the model goes without saying."""
    return len({shape.model for shape in shapes}) == 1


def name_of(shape: ShapeKey, layers: bool) -> str:
    """Name the row of a shape."""
    return shape.layer if layers else shape.label


def _cell(row: Row | None, shared: str, found: Mapping[str, Band]) -> TableCell:
    cell = ratio_cell(row)
    if row is None or cell.tone is not Tone.UNDECIDED:
        return cell
    own = shared or _band_note(found.get(str(row["cell_id"])))
    return replace(cell, note="; ".join(filter(None, (own, cell.note))))


def _band_note(band: Band | None) -> str:
    if band is None or band[2] < 2:
        return _ONE_ROUND
    low, high, count = band
    return f"run-to-run {fmt.ratio(low)} to {fmt.ratio(high)} over {fmt.plural(count, 'round')}; {NO_CLAIM}"


def _shared(rows: Iterable[Row], found: Mapping[str, Band]) -> str:
    own = [found[str(row["cell_id"])] for row in rows if str(row["cell_id"]) in found]
    if not own or all(count < 2 for _, _, count in own):
        return _ONE_ROUND
    low, high = min(low for low, _, _ in own), max(high for _, high, _ in own)
    return (
        f"{NO_CLAIM}; run-to-run {fmt.ratio(low)} to {fmt.ratio(high)} over all such cells, each in the table of ties"
    )


def _ties(rows: Iterable[Row], found: Mapping[str, Band], table_id: str, provider: str, layers: bool) -> Table:
    lines: list[Cells] = []
    for row in rows:
        low, high, count = found.get(str(row["cell_id"]), (math.nan, math.nan, 0))
        shape, ratio = shape_of(row), float(row["ratio"])
        lines.append(
            {
                **name_cell(shape, layers),
                Column("N×K"): shape.size,
                Column("M"): int(row["M"]),
                Column("ratio"): TableCell(fmt.ratio(ratio), ratio, tone=Tone.UNDECIDED),
                Column("95% interval"): fmt.ratio_interval(row["ratio_low"], row["ratio_high"]),
                Column("least round"): TableCell(fmt.ratio(low), low),
                Column("largest round"): TableCell(fmt.ratio(high), high),
                Column("rounds"): count,
            }
        )
    reading = (
        f"Cells of {provider} whose 95% interval includes 1 or is unknown: {NO_CLAIM}. Least and largest: ratio of the "
        "medians of a single round."
    )
    return table(table_id, f"Ties of {provider} and their run-to-run band", lines, how_to_read=reading, detail=True)


class _Pick(NamedTuple):
    """A representative cell: why it was chosen, and its coordinates."""

    why: str
    shape: ShapeKey
    M: int


def _representatives(view: View, part: Slice, names: Iterable[str]) -> Table | None:
    """Show the times behind some ratios, in every cache state; the table is in the first slice that has the cells.

    That slice is the first of those that differ in their cache state only.
    """
    alike = [other for other in view.slices if other.setting[:-1] == part.setting[:-1]]
    provider = next(iter(names))
    known = {
        other: {at: row for at, row in view.by_cell(view.ratios, other, provider).items() if fmt.known(row["ratio"])}
        for other in alike
    }
    if part is not next((other for other in alike if known[other]), None):
        return None
    chosen: dict[tuple[ShapeKey, int], list[str]] = {}
    for other in alike:
        for pick in _picks(known[other], other.cache if len(alike) > 1 else ""):
            why = chosen.setdefault((pick.shape, pick.M), [])
            if pick.why not in why:
                why.append(pick.why)
    layers = one_model([shape for shape, _ in known[part]])
    head = heads_of((shape for shape, _ in chosen), layers)
    cells = {row["cell_id"]: row for other in alike for row in view.rows(view.cells, other)}
    lines: list[Cells] = [
        {
            "cell": ", ".join(why),
            **head(shape),
            Column("M"): m,
            "cache": other.cache,
            Column(view.baseline, key="old"): time_cell(cells[row["baseline_cell_id"]]),
            Column(provider, key="new"): time_cell(cells[row["cell_id"]]),
            Column("ratio", scale=Scale.DIVERGING): ratio_cell(row),
            Column("95% interval"): fmt.ratio_interval(row["ratio_low"], row["ratio_high"]),
        }
        for (shape, m), why in chosen.items()
        for other in alike
        if (row := known[other].get((shape, m)))
    ]
    rows = [row for rows in known.values() for row in rows.values()]
    reading = (
        f"{fmt.ratio_header(view.baseline, provider)}. Times: {averaged(view.cells)} of the round's "
        f"median. {counting(rows)}"
    )
    title = f"Times of representative cells, {view.baseline} and {provider}"
    return table(f"absolute-{part.id}", title, lines, stub=2, how_to_read=reading)


def _picks(rows: Mapping[tuple[ShapeKey, int], Row], cache: str) -> list[_Pick]:
    """Choose the smallest and the largest weight at the smallest M, and the largest and the smallest ratio."""
    if not rows:
        return []
    least = min(m for _, m in rows)
    first = [shape for shape, m in rows if m == least]
    small, large = min(first, key=_weights), max(first, key=_weights)
    best, worst = (pick(rows, key=lambda at: float(rows[at]["ratio"])) for pick in (max, min))
    suffix = f" ({cache})" if cache else ""
    if len(first) == 1:
        ends = [_Pick("smallest M", small, least)]
    elif _weights(small) == _weights(large):
        ends = [_Pick("first layer at the smallest M", small, least)]
    else:
        ends = [_Pick("smallest weight", small, least), _Pick("largest weight", large, least)]
    if best == worst:
        return ends
    return [*ends, _Pick(f"largest ratio{suffix}", *best), _Pick(f"smallest ratio{suffix}", *worst)]


def _weights(shape: ShapeKey) -> int:
    return shape.B * shape.E * shape.N * shape.K
