"""Crossovers of every architecture side by side: the medians over shapes, and shape by shape."""

from collections.abc import Iterator
from functools import partial

from ....analysis.crossover.across_shapes import MedianCrossover
from ....analysis.crossover.curve import CrossoverStatus
from ....analysis.run.architectures import crossings_apart, side
from ... import formatting as fmt
from ...cells import median_text, position_cell, wins_text
from ...model import (
    Column,
    HowToRead,
    Section,
    Table,
    TableCell,
    Text,
    Tone,
    integer,
    number_columns,
    text_columns,
    texts,
)
from ...view import Row, Slice, anchors, shape_of, sliced
from ..speedups.crossover import HOW
from .subject import Architectures, nowhere

APART_HOW = (
    "Apart: on two architectures the winner changes between M that do not overlap, so that no one threshold suits both."
)


def crossovers(subject: Architectures) -> Section | None:
    """Build the table of medians, then one table per slice and challenger."""
    medians = {
        (median.challenger, *median.setting, name): median
        for name, view in subject.views.items()
        for median in view.medians
        if median.is_informative
    }
    if not medians:
        told = "; ".join(
            f"{name}: {view.uncompared or 'no two M at any shape'}" for name, view in subject.views.items()
        )
        return Section("crossover", "Crossover M", (Text(f"No crossover. {told}."),))
    blocks = (HowToRead((HOW,)), _medians(subject, medians))
    return sliced("crossover", "Crossover M", subject.slices, partial(_slice, subject), blocks)


def _medians(subject: Architectures, medians: dict[tuple[str, ...], MedianCrossover]) -> Table:
    lines = []
    for part in subject.slices:
        for challenger in subject.challengers:
            place = (challenger, *part.setting)
            found = {name: medians.get((*place, name)) for name in subject.names}
            if any(found.values()):
                cells = (_median(one, _why(subject, name, part, challenger)) for name, one in found.items())
                lines.append((*texts(challenger, part.title), *(cell for three in cells for cell in three)))
    columns = (
        *text_columns("challenger", "operands"),
        *(
            column
            for name in subject.names
            for column in (Column(name, unit="M"), *number_columns("95% interval", "shapes"))
        ),
    )
    reading = (
        f"The median over shapes of the crossover with {subject.baseline}, of all shapes of each architecture: beyond "
        "the last M and before the first count in it. Then the interval, and the shapes in it."
    )
    return Table("median-crossover", "Median crossover over shapes", columns, tuple(lines), reading=reading, stub=2)


def _why(subject: Architectures, name: str, part: Slice, challenger: str) -> TableCell:
    no_time = nowhere(subject.rows(name, part, challenger).values())
    return no_time or TableCell("none", note="no two M at which both have a time there", tone=Tone.FAILED)


def _median(median: MedianCrossover | None, why: TableCell) -> tuple[TableCell, ...]:
    if median is None:
        return (why, *texts("", ""))
    return (
        TableCell(median_text(median), median.median_M, note="; ".join(median.warnings), tone=Tone.BEST),
        TableCell(median.interval_text),
        integer(len(median.places)),
    )


def _slice(subject: Architectures, part: Slice) -> Iterator[Table | None]:
    for challenger, table_id in anchors(f"crossover-{part.id}", subject.challengers):
        yield _shapes(subject, part, challenger, table_id)


def _shapes(subject: Architectures, part: Slice, challenger: str, table_id: str) -> Table | None:
    frame = subject.crossovers
    rows = frame.loc[(frame["challenger"] == challenger) & part.mask(frame)]
    sides = [side(rows, name).to_dict("records") for name in subject.names]
    if not any(_is_told(row) for found in sides for row in found):
        return None
    reasons = [_why(subject, name, part, challenger) for name in subject.names]
    apart = crossings_apart(rows, subject.names).tolist()
    lines = tuple(
        (
            *texts(shape_of(found[0]).label, shape_of(found[0]).size),
            *(cell for row, why in zip(found, reasons, strict=True) for cell in _position(row, why)),
            *((TableCell("yes" if is_apart else "no"),) if len(subject.names) > 1 else ()),
        )
        for *found, is_apart in zip(*sides, apart, strict=True)
    )
    columns = (
        *text_columns("shape"),
        Column("N×K"),
        *(
            column
            for name in subject.names
            for column in (Column(name, unit="M"), Column("between"), *text_columns("wins at"))
        ),
        *(text_columns("apart") if len(subject.names) > 1 else ()),
    )
    counted = f" {APART_HOW} {fmt.count(sum(apart), len(lines))} shapes." if len(subject.names) > 1 else ""
    reading = f"An estimate of the crossover, between which measured M it lies, and where {challenger} wins.{counted}"
    return Table(
        table_id, f"{challenger} against {subject.baseline}", columns, lines, reading=reading,
        detail=part.is_later or len(lines) > 24,
    )  # fmt: skip


def _is_told(row: Row) -> bool:
    return bool(row["status"]) and CrossoverStatus(row["status"]).is_informative


def _position(row: Row, why: TableCell) -> tuple[TableCell, ...]:
    """Show where one architecture crosses, between which M, and where the challenger wins."""
    if not row["status"]:
        return (why, *texts("", ""))
    cell = position_cell(row)
    if not _is_told(row):
        return (cell, *texts("", ""))
    return (cell, *texts(fmt.m_interval(row["low_M"], row["high_M"]), wins_text(row)))
