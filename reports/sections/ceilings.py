"""The limits that cells are held against: each with how it was measured or the document it comes from."""

from typing import Any

from ...shapes.columns import PUBLISHED
from .. import formatting as fmt
from ..model import Align, Cell, Column, Scale, Section, Table, Text
from ..view import View


def ceilings(view: View) -> Section:
    """List every stored ceiling; measured ones beside the specification where there is one."""
    rows = view.run.ceilings.to_dict("records")
    if not rows:
        text = (
            "No ceiling was measured with this run, so no cell can be placed on a roofline. rooflens calibrate "
            "measures them."
        )
        return Section("ceilings", "Ceilings", (Text(text),))
    specs = {(*_key(row), str(row["pattern"])): float(row["value"]) for row in rows if row["kind"] in PUBLISHED}
    columns = (
        Column("ceiling", align=Align.LEFT),
        Column("level", align=Align.LEFT),
        Column("pattern", align=Align.LEFT),
        Column("dtype", align=Align.LEFT),
        Column("value"),
        Column("kind", align=Align.LEFT),
        Column("of specification", scale=Scale.BAR),
        Column("source", align=Align.LEFT),
    )
    reading = (
        "A bandwidth counts bytes read plus bytes written. Of specification: of the published rate of this pattern."
    )
    best: dict[tuple[str, str, str], float] = {}
    for row in rows:
        if row["kind"] == "measured":
            best[_key(row)] = max(best.get(_key(row), 0.0), float(row["value"]))
    lines = tuple(_line(row, specs, best) for row in rows)
    return Section(
        "ceilings", "Ceilings", (Table("ceilings-table", "Limits of this device", columns, lines, reading=reading),)
    )


def _key(row: dict[Any, Any]) -> tuple[str, str, str]:
    return str(row["ceiling"]), str(row["level"]), str(row["dtype"])


def _line(
    row: dict[Any, Any], specs: dict[tuple[str, str, str, str], float], best: dict[tuple[str, str, str], float]
) -> tuple[Cell, ...]:
    """Write one row. Only the best pattern counts as a ceiling, so that only it can be suspiciously low.

    A specification without a pattern is of all patterns, one with a pattern (fp32 lanes, not integer ones) of it alone.
    """
    value = float(row["value"])
    spec = specs.get((*_key(row), str(row["pattern"])), specs.get((*_key(row), "")))
    fraction = value / spec if spec and row["kind"] == "measured" else None
    note = ""
    if fraction is not None and fraction > 1:
        note = "above the specification: the clock, the sparsity or the unit of one of the two is not what it seems"
    elif fraction is not None and fraction < 0.7 and value == best.get(_key(row)):
        note = "below 70% of the specification: check clocks, power limit and what else ran on the device"
    return (
        Cell(str(row["ceiling"])),
        Cell(str(row["level"])),
        Cell(str(row["pattern"])),
        Cell(str(row["dtype"])),
        Cell(fmt.ceiling(str(row["ceiling"]), value), value),
        Cell(str(row["kind"])),
        Cell(fmt.share(fraction), fraction, fraction, note=note),
        Cell(str(row["source"])),
    )
