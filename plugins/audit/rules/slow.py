"""Times a thousand times too long: milliseconds that were microseconds."""

from collections.abc import Iterator

from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need, Severity
from ..evidence.rates import PrintedRate, cells_of
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from .roof import least_bytes

SLOW = 0.01
"""Share of both roofs below which a kernel is slower than any that is worth a table."""

LIKELY = 0.05
"""Share from which on a kernel is an ordinary one."""

LAUNCH_S = 20e-6
"""Time at the roof from which on no launch matters."""

UNIT = 1000.0


def check(case: Case) -> Iterator[Finding]:
    """Look for columns of which every time is far too long, and an ordinary one in the next smaller unit."""
    for sheet in case.sheets:
        for column in sheet.of(ColumnRole.TIME):
            shares = [(cell, share) for cell in cells_of(sheet, column) if (share := _share(sheet, cell)) is not None]
            if not shares or not all(share < SLOW and UNIT * share <= 1 for _, share in shares):
                continue
            cell, share = max(shares, key=lambda one: one[1])
            if UNIT * share >= LIKELY and share * cell.time_s > LAUNCH_S:
                yield _finding(sheet, column, cell, share, len(shares))


def _share(sheet: Sheet, cell: PrintedRate) -> float | None:
    """Share of the nearer roof that a time reaches; None where no device or no work is known."""
    setting = sheet.setting_at(cell.row, cell.column)
    roof, problem = setting.peak(cell.column.dtype), sheet.problem(cell.row, cell.column)
    if roof is None or problem is None or setting.device is None:
        return None
    limits = [cell.flops / roof[0]]
    if speed := setting.device.bandwidth_bytes_per_s:
        limits.append(least_bytes(problem, setting) / speed)
    return max(limits) / cell.time.high


def _finding(sheet: Sheet, column: AnnotatedColumn, cell: PrintedRate, share: float, count: int) -> Finding:
    rows = f"; the same is true of all {count} rows" if count > 1 else ""
    message = (
        f"{column.name}: {sheet.quoted(cell.row, column)} is {cell.time_s:.3g} s, {100 * share:.2g} % of what the "
        f"device can do; a thousandth of it would be {100 * UNIT * share:.2g} %{rows}"
    )
    return RULE.at(
        sheet, cell.row, message, column, severity=Severity.QUESTION, time_s=cell.time_s, share_of_roof=share
    )


RULE = Rule(
    "implausibly-slow",
    "all times of a column are below 1 % of what the device can do, and ordinary ones in the next smaller unit",
    "check the unit of the times (us or ms), and whether they are those of one launch",
    check,
    ((Need.DEVICE,), (Need.TIMES,)),
)
