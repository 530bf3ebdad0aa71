"""Tables of what commands list: a header per column, a row of plain values each."""

from collections.abc import Collection, Iterable, Sequence

from .model import Column, Layout, Table, TableCell
from .render.layout import is_numeric


def listing(
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str = "",
    *,
    once: Collection[str] = (),
    long: Sequence[str] = (),
    heading: Collection[str] = (),
) -> Table:
    """Build a table of `rows` under `names`; unknown values (None) are blank, numbers stand to the right.

    `once`: columns that a terminal states in one line above the table where all rows agree. `long`: texts of sentences,
    the first to leave its row first. `heading`: what several rows have in common. See `Table.layout`.
    """
    body = [["" if value is None else str(value) for value in row] for row in rows]
    cells = zip(*body, strict=True) if body else [()] * len(names)
    columns = tuple(Column(name, is_text=not is_numeric(texts)) for name, texts in zip(names, cells, strict=True))
    lines = tuple(tuple(map(TableCell, row)) for row in body)
    return Table("listing", title, columns, lines, layout=Layout(tuple(once), tuple(long), tuple(heading)))
