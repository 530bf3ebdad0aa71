"""A flat sweep: every problem on a row with time, rate, traffic and what bounds it, in order of B, M and shape."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial

from ....analysis.roofline.bounds import FLAT_GROWTH, FLAT_SPREAD, Bound
from ....analysis.roofline.ceilings import Ceilings
from ....shapes.problem import Op
from ... import formatting as fmt
from ...cells import is_impossible, rate_cell, rate_text, rate_unit, share_cell, time_cell, traffic_cell
from ...model import Block, Bullets, Cells, Column, Scale, Section, Table, TableCell, table
from ...terms import BOUNDS
from ...view import Row, Slice, View, anchors, shape_of, sliced
from .sizes import averaged, counting, size_cells, size_names

MAX_ROWS = 400
"""Rows of one table; beyond it only some M are listed, the first and the last among them."""

FLOOR_ROWS = 3
"""Rows of equal time that make a floor, at least."""

_LAUNCH = "launch-bound: the time is that of launching, so the rate only follows the work"


def flat(view: View) -> Section | None:
    """List the rows of every slice: the challengers open, all other providers folded."""
    if not view.cells["time_s"].notna().any():
        return None
    return sliced("flat", "Every problem", view.slices, partial(_slice, view))


def _slice(view: View, part: Slice) -> Iterator[Block]:
    rows = _by_provider(view, part)
    first = [name for name in rows if name in view.challengers] or list(rows)
    if remarks := tuple(text for name in first for text in _remarks(view, name, rows[name])):
        yield Bullets(remarks)
    yield from tables_of_cells(view, part, first)


def tables_of_cells(view: View, part: Slice, first: Collection[str] = ()) -> Iterator[Table]:
    """List the cells with a time, a table per provider: `first` open, the others as details."""
    rows = _by_provider(view, part)
    for name, table_id in anchors(f"cells-{part.id}", tuple(rows)):
        yield _table(view, part, name, table_id, rows[name], name not in first)


def _by_provider(view: View, part: Slice) -> dict[str, list[Row]]:
    """Rows with a time by provider, challengers first."""
    names = dict.fromkeys((*view.challengers, *view.providers))
    return {name: rows for name in names if (rows := _rows(view, part, name))}


def _rows(view: View, part: Slice, provider: str) -> list[Row]:
    """Rows with a time, in order of B, then M, then the order of the suite."""
    found = view.by_cell(view.cells, part, provider)
    order = {shape: place for place, shape in enumerate(view.shapes)}
    places = sorted(found, key=lambda at: (at[0].B, at[1], order[at[0]]))
    return [found[at] for at in places if fmt.known(found[at]["time_s"])]


def _table(view: View, part: Slice, provider: str, table_id: str, rows: list[Row], detail: bool) -> Table:
    names = size_names(rows)
    listed = _listed(rows)
    limits = Ceilings.of(view.analysis.ceilings)
    unit = rate_unit(rows)
    flops = any(row["op"] != Op.QUANTIZE for row in rows)
    lines: list[Cells] = [
        {
            **size_cells(row, names),
            Column("time"): time_cell(row, note="; ".join(row["remarks"])),
            Column("95% interval"): fmt.time_interval(row["time_low_s"], row["time_high_s"]),
            **({Column("rate", unit): rate_cell(row, unit, limits)} if flops else {}),
            Column("traffic", "GB/s"): traffic_cell(row),
            Column("of bound", scale=Scale.BAR): share_cell(row["fraction_of_bound"]),
            "class": _class(row),
            "shape": shape_of(row).label,
        }
        for row in listed
    ]
    left_out = len(rows) - len(listed)
    thinned = f" {left_out} rows at other M are in cells.csv." if left_out else ""
    present = [bound for bound in Bound if (view.cells["bound_class"] == bound).any()]
    how = (
        f"Time: {averaged(view.cells)} of the round's median. {counting(rows)} Traffic: compulsory "
        "bytes over time. Of bound: time at the bound over measured time. Class: what takes the time"
        f"{_legend(present)}."
    )
    reading = f"{fmt.plural(len(rows), 'problem')}.{thinned}"
    title, stub = view.titled(provider, part), len(names)
    return table(table_id, title, lines, reading, stub=stub, detail=detail, how_to_read=how)


def _listed(rows: list[Row]) -> list[Row]:
    """Thin out M until the table is short enough."""
    sizes = sorted({int(row["M"]) for row in rows})
    step = 1
    kept = set(sizes)
    while sum(int(row["M"]) in kept for row in rows) > MAX_ROWS and step < len(sizes):
        step += 1
        kept = {*sizes[::step], sizes[-1]}
    return [row for row in rows if int(row["M"]) in kept]


def _legend(present: Sequence[Bound]) -> str:
    return f" ({'; '.join(f'{bound}: {BOUNDS[bound]}' for bound in present)})" if present else ", where it is known"


def _class(row: Row) -> TableCell:
    name = str(row["bound_class"])
    if not name or is_impossible(row):  # the time has the footnote of an impossible one
        return TableCell(name or "unknown", name)
    note = "; ".join(filter(None, (_LAUNCH if name == Bound.LAUNCH else "", str(row["bound_note"]))))
    return TableCell(name, name, note=note)


def _remarks(view: View, provider: str, rows: Sequence[Row]) -> Iterator[str]:
    """Say where the time is a floor, and how near to a named peak the highest rate comes."""
    if floor := floor_of(rows):
        least, most = floor[0], floor[-1]
        work = "flops" if all(row["flops"] > 0 for row in floor) else "compulsory_bytes"
        growth = max(row[work] for row in floor) / min(row[work] for row in floor)
        what = "FLOPs" if work == "flops" else "bytes"
        span = _span(float(least["time_s"]), float(most["time_s"]))
        yield (
            f"{provider}: {fmt.count(len(floor), len(rows))} problems take {span}, while their {what} differ "
            f"{growth:.0f}-fold: a fixed cost, so their rates say nothing of the kernel."
        )
    with_rate = [row for row in rows if fmt.known(row["flops_per_s"]) and not is_impossible(row)]
    if not with_rate:
        return
    best = max(with_rate, key=lambda row: float(row["flops_per_s"]))
    names = size_names(rows)
    where = " ".join(f"{name}={int(best[name])}" for name in names)
    yield f"{provider}: the highest rate is {rate_text(best)} at {where}{_of_peak(view, best)}."


def _span(low: float, high: float) -> str:
    first, last = fmt.time(low).split(), fmt.time(high).split()
    if first == last:
        return " ".join(first)
    return f"{first[0]} to {' '.join(last)}" if first[1] == last[1] else f"{' '.join(first)} to {' '.join(last)}"


def floor_of(rows: Sequence[Row]) -> list[Row]:
    """Return the rows within 10 % of the least time, fastest first, if their work grows; else none.

    Work is FLOPs, of quantizations bytes.
    """
    order = sorted((row for row in rows if not is_impossible(row)), key=lambda row: float(row["time_s"]))
    if not order:
        return []
    least = float(order[0]["time_s"])
    floor = [row for row in order if float(row["time_s"]) <= FLAT_SPREAD * least]
    work = [float(row["flops"] or row["compulsory_bytes"]) for row in floor]
    return floor if len(floor) >= FLOOR_ROWS and max(work) >= FLAT_GROWTH * min(work) else []


def _of_peak(view: View, row: Row) -> str:
    """Write what share of the peak of its type a rate is, with the name, value and source of that peak."""
    dtype = str(row["math_dtype"] or row["dtype"])
    limits = Ceilings.of(view.analysis.ceilings)
    peak = limits.published_peak(dtype) or limits.peak(dtype)
    if peak is None:
        return f"; no peak of {dtype} is known here, so there is no share of it"
    share = fmt.share(float(row["flops_per_s"]) / peak.value)
    kind = "measured" if peak.kind == "measured" else "published"
    return f", {share} of the {kind} peak of {dtype}, {fmt.flops(peak.value)} ({peak.source})"
