"""TFLOPS of launches: the time stays the same whatever the work, so that the rate only follows the FLOP count."""

from collections.abc import Iterator, Sequence

from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need, Severity
from ..evidence.rates import PrintedRate, cells_of, time_beside
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from ..reading.assumptions import Assumptions
from .roof import least_bytes

FLAT = 1.10
"""Times within this factor of the shortest are the same."""

GROWTH = 4.0
"""FLOPs grow by this at least while the time stays."""

FEWEST = 4
"""Cells that make a floor."""

BUSY = 0.25
"""Share of the memory's or the matrix units' rate from which on these explain a flat time."""

MORE_BYTES = 2.0
"""Growth of the bytes that a memory at whatever efficiency would show in the time."""

IDLE = 0.10
"""Share of the memory's rate below which the memory explains nothing."""


def check(case: Case) -> Iterator[Finding]:
    """Look at every column of rates, in its times where they are printed, else in those that it implies."""
    for sheet in case.sheets:
        for rate in sheet.of(ColumnRole.RATE):
            column = time_beside(sheet, rate) or rate
            by_device: dict[str, list[PrintedRate]] = {}
            for cell in cells_of(sheet, column):
                if cell.flops > 0:
                    device = sheet.setting_at(cell.row, column).device
                    by_device.setdefault(device.name if device else "", []).append(cell)
            for cells in by_device.values():
                if floor := floor_of(sheet, cells):
                    yield _finding(sheet, rate, column, cells, floor)


def floor_of(sheet: Sheet, cells: Sequence[PrintedRate]) -> list[PrintedRate]:
    """Return those cells of one device that are at the floor: the shortest times, flat while work grows."""
    if len(cells) < FEWEST:
        return []
    setting = sheet.setting_at(cells[0].row, cells[0].column)
    shortest = min(cell.time_s for cell in cells)
    moved = [_bytes(sheet, cell, setting) for cell in cells]
    flat = [
        (cell, size)
        for cell, size in zip(cells, moved, strict=True)
        if cell.time.low <= FLAT * shortest and not _is_busy(cell, size, setting)
    ]
    if len(flat) < FEWEST or _growth([cell.flops for cell, _ in flat]) < GROWTH:
        return []
    device = setting.device
    speed = device.bandwidth_bytes_per_s if device else None
    is_idle = speed is not None and max(size / cell.time_s for cell, size in flat) < IDLE * speed
    same_bytes = _growth([size for _, size in flat]) < MORE_BYTES
    return [] if same_bytes and not is_idle else [cell for cell, _ in flat]


def _bytes(sheet: Sheet, cell: PrintedRate, setting: Assumptions) -> float:
    problem = sheet.problem(cell.row, cell.column)
    assert problem is not None  # a cell has FLOPs
    return least_bytes(problem, setting)


def _is_busy(cell: PrintedRate, size: float, setting: Assumptions) -> bool:
    """True where memory or matrix units keep the time."""
    device, roof = setting.device, setting.peak()
    speed = device.bandwidth_bytes_per_s if device else None
    if speed is not None and size / cell.time_s > BUSY * speed:
        return True
    return roof is not None and cell.flops / cell.time_s > BUSY * roof[0]


def _growth(values: Sequence[float]) -> float:
    return max(values) / max(min(values), 1e-300) if values else 0.0


def _finding(
    sheet: Sheet,
    rate: AnnotatedColumn,
    column: AnnotatedColumn,
    cells: Sequence[PrintedRate],
    floor: Sequence[PrintedRate],
) -> Finding:
    times = [cell.time_s for cell in floor]
    lines = ranges([sheet.line(cell.row) for cell in floor])
    growth = _growth([cell.flops for cell in floor])
    common = _common(sheet, floor, cells)
    message = (
        f"{rate.name}: {len(floor)} of {len(cells)} rows{common} take {min(times) * 1e6:.1f} to "
        f"{max(times) * 1e6:.1f} us while their FLOPs differ by a factor of {growth:.3g} (lines {lines}): "
        "the time of a launch or of one pass through the pipeline, so the rate only repeats the FLOP count"
    )
    return RULE.at(
        sheet,
        floor[0].row,
        message,
        column,
        severity=Severity.MISLEADING,
        shortest_s=min(times),
        longest_s=max(times),
        growth_of_flops=growth,
        rows=float(len(floor)),
    )


def _common(sheet: Sheet, floor: Sequence[PrintedRate], cells: Sequence[PrintedRate]) -> str:
    """Say which bound on a size separates these rows from all others (" with B <= 64"), "" when none does."""
    here = {(cell.row, id(cell.column)) for cell in floor}
    others = [cell for cell in cells if (cell.row, id(cell.column)) not in here]
    for name in ("B", "E", "M", "N", "K"):
        inside = [sheet.sizes(cell.row, cell.column).get(name) for cell in floor]
        outside = [sheet.sizes(cell.row, cell.column).get(name) for cell in others]
        known = [size for size in inside if size is not None]
        rest = [size for size in outside if size is not None]
        if known and rest and len(known) == len(inside) and len(rest) == len(outside) and max(known) < min(rest):
            return f" (all with {name} <= {max(known)})"
    return ""


def ranges(numbers: Sequence[int]) -> str:
    """Write line numbers: 84-101, 105."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in found)


RULE = Rule(
    "launch-floor",
    "the time stays within 10 % while FLOPs grow 4 times or more, and neither memory nor matrix units are busy",
    "print the time beside the rate; compare such rows by time, and call them launch-bound",
    check,
    ((Need.SIZED_RATES, Need.TIMED_RATES),),
)
