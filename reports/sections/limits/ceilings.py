"""The limits that cells are held against: each with how it was measured or the document it comes from."""

from typing import Any

from ....shapes.device import DeviceSpec
from ....shapes.published_ceilings import missed
from ....shapes.run_folder.columns import PUBLISHED
from ... import formatting as fmt
from ...cells import share_cell
from ...model import Cells, Column, Scale, Section, TableCell, Text, table
from ...terms import CEILING_KINDS
from ...view import View


def ceilings(view: View) -> Section:
    """List every ceiling, raised ones too; measured ones beside the specification where there is one."""
    rows = view.analysis.ceilings.to_dict("records")
    if not rows:
        text = (
            "No ceiling was measured with this run, so no cell can be placed on a roofline. rooflens calibrate "
            "measures them."
        )
        return Section("ceilings", "Ceilings", (Text(text),))
    specs = {(*_key(row), str(row["pattern"])): float(row["value"]) for row in rows if row["kind"] in PUBLISHED}
    reading = (
        "A bandwidth counts bytes read plus bytes written. Of specification: of the published or derived rate of this "
        "pattern."
    )
    best: dict[tuple[str, str, str], float] = {}
    for row in rows:
        if row["kind"] == "measured":
            best[_key(row)] = max(best.get(_key(row), 0.0), float(row["value"]))
    device = view.run.device.looked_up().spec
    lines = (_line(row, specs, _low(row, best, device)) for row in rows)
    listed = table("ceilings-table", "Limits of this device", lines, how_to_read=reading)
    return Section("ceilings", "Ceilings", (listed,))


def _key(row: dict[Any, Any]) -> tuple[str, str, str]:
    return str(row["ceiling"]), str(row["level"]), str(row["dtype"])


def _low(row: dict[Any, Any], best: dict[tuple[str, str, str], float], device: DeviceSpec | None) -> str:
    """Say that a ceiling misses all known measurements of the device. Only its best pattern can: it alone counts."""
    value = float(row["value"])
    if device is None or row["kind"] != "measured" or value != best[_key(row)] or row["level"] not in ("", "dram"):
        return ""
    known = missed(device, str(row["ceiling"]), str(row["dtype"]), value)
    if known is None:
        return ""
    share = fmt.share(1 - value / known.value)
    return (
        f"{share} below the least that is known of this device ({known.source}): check clocks, power limit and what "
        "else ran on it"
    )


def _line(row: dict[Any, Any], specs: dict[tuple[str, str, str, str], float], low: str) -> Cells:
    """Write one row.

    A specification without a pattern is of all patterns, one with a pattern (fp32 lanes, not integer ones) of it alone.
    """
    value = float(row["value"])
    spec = specs.get((*_key(row), str(row["pattern"])), specs.get((*_key(row), "")))
    fraction = value / spec if spec and row["kind"] == "measured" else None
    note = low
    if fraction is not None and fraction > 1:
        note = "above the specification: the clock, the sparsity or the unit of one of the two is not what it seems"
    return {
        **{name: row[name] for name in ("ceiling", "level", "pattern", "dtype")},
        Column("value"): TableCell(fmt.ceiling(str(row["ceiling"]), value), value),
        "kind": CEILING_KINDS[str(row["kind"])],
        Column("of specification", scale=Scale.BAR): share_cell(fraction, note),
        "source": row["source"],
    }
