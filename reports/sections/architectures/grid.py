"""Grids over M with one row per architecture, and one per shape and architecture."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ... import formatting as fmt
from ...cells import mean_cell, ratio_cell, time_text
from ...model import (
    Block,
    Column,
    HowToRead,
    Scale,
    Section,
    Table,
    TableCell,
    Text,
    Tone,
    integer,
    text_columns,
    texts,
)
from ...terms import BOUND_CODES
from ...view import Row, ShapeKey, Slice, anchors, sliced
from ..limits.roofline import bound_cell
from ..speedups.speedup import counted, gemms_cell
from .subject import Architectures, gain, lacking, nowhere

Show = Callable[[Row], TableCell]
"""Makes the cell of a row of one architecture."""

OPEN_ROWS = 16
"""Rows of a grid per shape up to which it stands open."""

HOW = (
    "Each number is the time of {baseline} divided by the time of the provider named above the grid, both on the "
    "architecture of its row: above 1 (blue) that provider is faster there. Ratios of two architectures refer to two "
    "different times of {baseline}; absolute times stand under “Time”. Hatched with ~: undecided, the 95% interval "
    "includes 1. Nothing is averaged over architectures."
)

MEAN_HOW = (
    "Geometric mean over shapes, one row per architecture. At every M only the shapes count that have a ratio on each "
    "architecture with any ratio there, so that the rows compare; the interval runs from the mean of the lower to the "
    "mean of the upper ends."
)

NONE_IN_COMMON = "no shape has a number here on every architecture; see the grid per shape"

SHARE_HOW = (
    "The bound is the least time that the ceilings of the architecture itself allow (its bandwidth, its matrix rate, "
    "its empty launch): 100% is the limit of that device, so a larger share is no shorter time. The ceilings of each "
    "stand under “Conditions”."
)


def speedup(subject: Architectures) -> Section | None:
    """Build, per slice and provider, the grid M x architecture of means and the grid of every shape."""
    title = f"Speedup over {subject.baseline}"
    if not subject.others:
        return Section("speedup", title, (Text(f"Only {subject.baseline} was measured: nothing to compare with."),))
    how = HowToRead((HOW.format(baseline=subject.baseline), MEAN_HOW))
    return sliced("speedup", title, subject.slices, partial(_speedups, subject), (how,))


def roofline(subject: Architectures) -> Section | None:
    """Build the same grids of the share of the roofline; None where no architecture has a ceiling."""
    if not any((view.cells["bound_class"] != "").any() for view in subject.views.values()):
        return None
    how = HowToRead((SHARE_HOW,))
    return sliced("roofline", "Share of the roofline", subject.slices, partial(_rooflines, subject), (how,))


def times(subject: Architectures) -> Section | None:
    """Build the grids of times, which ratios do not show, for every provider."""
    how = (
        "Geometric mean over rounds of the round's median time of one launch, with the digits that its interval leaves."
    )
    return sliced("times", "Time", subject.slices, partial(_times, subject), (HowToRead((how,)),))


def _speedups(subject: Architectures, part: Slice) -> Iterator[Block]:
    has_key = False
    for provider, table_id in anchors(f"speedup-{part.id}", subject.others):
        if not any(subject.means(name, part, provider) for name in subject.names):
            if text := _without(subject, part, provider):
                yield Text(text)
            continue
        yield _means(subject, part, provider, table_id, key=not has_key)
        has_key = True
        known = [gain(row) for name in subject.names for row in subject.rows(name, part, provider).values()]
        yield per_shape(
            subject, part, provider, f"shapes-{table_id}", f"{provider}, shape by shape", _ratio,
            scale=Scale.DIVERGING,
            reading=f"{fmt.ratio_header(subject.baseline, provider)}. {counted(known)}",
            folded=part.is_later or provider not in subject.challengers,
        )  # fmt: skip


def _without(subject: Architectures, part: Slice, provider: str) -> str:
    """Say why a provider has no ratio on any architecture; "" where it is not in this slice at all."""
    reasons = {
        name: next((str(row["why"]) for row in subject.rows(name, part, provider).values() if row["why"]), "")
        for name in subject.names
    }
    told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason)
    return f"No ratio for {provider}. {told}." if told else ""


def _means(subject: Architectures, part: Slice, provider: str, table_id: str, key: bool) -> Table:
    sizes = subject.sizes(part, provider)
    lines = []
    for name in subject.names:
        means, rows = subject.means(name, part, provider), subject.rows(name, part, provider)
        lines.append((TableCell(name), *(_mean(means.get(m), rows, m) for m in sizes)))
    counts = {m: row for name in subject.names for m, row in subject.means(name, part, provider).items()}
    lines.append((TableCell("distinct GEMMs in it"), *(gemms_cell(counts.get(m)) for m in sizes)))
    return Table(
        table_id,
        provider,
        (*text_columns("architecture"), *(Column(f"M={m}", scale=Scale.DIVERGING) for m in sizes)),
        tuple(lines),
        reading=f"{fmt.ratio_header(subject.baseline, provider)}; geometric mean over shapes.",
        key=key,
        footer=1,
    )


def _mean(mean: Row | None, rows: Mapping[tuple[ShapeKey, int], Row], m: int) -> TableCell:
    """Show a mean over common shapes; where there is none, why."""
    if mean is not None:
        cell = mean_cell(mean)
        out = int(mean["left_out"])
        note = f"excludes {fmt.plural(out, 'cell')} that another architecture has no ratio of" if out else ""
        return TableCell(cell.text, cell.value, cell.level, note, cell.tone)
    own = _at(rows, m)
    if any(fmt.known(row["ratio"]) for row in own):
        return TableCell("none in common", note=NONE_IN_COMMON, tone=Tone.FAILED)
    reasons = dict.fromkeys(str(row["why"]) for row in own if row["why"])
    return _ratio(next(row for row in own if row["why"])) if reasons else TableCell("", tone=Tone.MISSING)


def _at(rows: Mapping[tuple[ShapeKey, int], Row], m: int) -> list[Row]:
    return [row for (_, size), row in rows.items() if size == m]


def _ratio(row: Row) -> TableCell:
    return ratio_cell(gain(row))


def per_shape(
    subject: Architectures,
    part: Slice,
    provider: str,
    table_id: str,
    title: str,
    show: Show,
    *,
    scale: Scale = Scale.NONE,
    reading: str = "",
    folded: bool = True,
) -> Table:
    """Build the grid of one provider in one slice: the architectures of a shape one below the other, columns by M."""
    sizes = subject.sizes(part, provider)
    every = {name: subject.rows(name, part, provider) for name in subject.names}
    gone = {name: cell.note for name, rows in every.items() if (cell := nowhere(rows.values()))}
    found = {name: rows for name, rows in every.items() if name not in gone}
    lines = tuple(
        (
            *texts(shape.label, shape.size, name),
            *(show(rows[shape, m]) if (shape, m) in rows else TableCell("", tone=Tone.MISSING) for m in sizes),
        )
        for shape in subject.shapes
        for name, rows in found.items()
        if any((shape, m) in rows for m in sizes)
    )
    return Table(
        table_id,
        title,
        (
            *text_columns("shape"),
            Column("N×K"),
            *text_columns("architecture"),
            *(Column(f"M={m}", scale=scale) for m in sizes),
        ),
        lines,
        reading=" ".join(filter(None, (reading, *(f"Nothing on {name}: {why}." for name, why in gone.items())))),
        stub=3,
        detail=folded or len(lines) > OPEN_ROWS,
    )


def _rooflines(subject: Architectures, part: Slice) -> Iterator[Table]:
    for provider, table_id in anchors(f"roofline-{part.id}", subject.providers):
        if not any(subject.shares(name, part, provider) for name in subject.names):
            continue
        sizes = subject.sizes(part, provider)
        shares = {name: subject.shares(name, part, provider) for name in subject.names}
        counts = {m: integer(int(row["cells"])) for found in shares.values() for m, row in found.items()}
        lines = (
            *(
                (TableCell(name), *(_share(found.get(m), _at(subject.rows(name, part, provider), m)) for m in sizes))
                for name, found in shares.items()
            ),
            (TableCell("shapes in it"), *(counts.get(m, TableCell("")) for m in sizes)),
        )
        columns = (*text_columns("architecture"), *(Column(f"M={m}", scale=Scale.SEQUENTIAL) for m in sizes))
        reading = "Median over the shapes that all architectures have of the share of the bound that is reached."
        yield Table(table_id, provider, columns, lines, how_to_read=reading, footer=1)
        classes = {row["bound_class"] for name in subject.names for row in subject.rows(name, part, provider).values()}
        codes = ", ".join(f"{code} {bound}" for bound, code in BOUND_CODES.items() if bound in classes)
        yield per_shape(
            subject, part, provider, f"shapes-{table_id}", f"{provider}, shape by shape: share of the bound",
            lambda row: lacking(row) or bound_cell(row), scale=Scale.SEQUENTIAL,
            reading=f"The share, then what takes the time: {codes}.",
        )  # fmt: skip


def _share(row: Row | None, own: Sequence[Row]) -> TableCell:
    """Show a median share; where there is none, why."""
    if row is None:
        if any(fmt.known(one["fraction_of_bound"]) for one in own):
            return TableCell("none in common", note=NONE_IN_COMMON, tone=Tone.FAILED)
        return nowhere(own) or TableCell("", tone=Tone.MISSING)
    share, out = float(row["share"]), int(row["left_out"])
    note = f"excludes {fmt.plural(out, 'cell')} that another architecture has no share of" if out else ""
    return TableCell(fmt.share(share), share, share, note)


def _times(subject: Architectures, part: Slice) -> Iterator[Table]:
    for provider, table_id in anchors(f"times-{part.id}", subject.providers):
        if subject.sizes(part, provider):
            yield per_shape(
                subject, part, provider, table_id, provider,
                lambda row: lacking(row) or TableCell(time_text(row), float(row["time_s"])),
            )  # fmt: skip
