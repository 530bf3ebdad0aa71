"""FLOPs counted once per expert although M is the number of rows of all of them."""

import itertools
from collections import defaultdict
from collections.abc import Iterator

from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need, Severity
from ..evidence.rates import PrintedRate, cells_of, time_beside
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from ..reading.assumptions import PER_EXPERT, reachable

SAME = 1.15
"""Times within this factor are the same when the number of experts doubles."""

TILE = 128
"""Rows and columns of a tile of output; fewer tiles than compute units leave some idle, and more experts are free."""

UNITS = 304
"""Compute units of a large device, where none is given."""


def check(case: Case) -> Iterator[Finding]:
    """Look for times that stay when experts double, in tables that count M for each of them."""
    for sheet in case.sheets:
        if sheet.m_is != PER_EXPERT:
            continue
        flat: list[tuple[PrintedRate, PrintedRate]] = []
        over: list[PrintedRate] = []
        for column in sheet.of(ColumnRole.TIME, ColumnRole.RATE):
            if column.role is ColumnRole.RATE and time_beside(sheet, column) is not None:
                continue
            cells = list(cells_of(sheet, column))
            flat += [pair for pair in _doubled(sheet, cells) if _is_flat(sheet, *pair)]
            over += _over(sheet, column, cells)
        if flat or over:
            yield _finding(sheet, flat, over)


def _doubled(sheet: Sheet, cells: list[PrintedRate]) -> Iterator[tuple[PrintedRate, PrintedRate]]:
    """Yield cells that differ in nothing but the number of experts, by a factor of two or more."""
    groups: dict[tuple[object, ...], list[tuple[int, PrintedRate]]] = defaultdict(list)
    for cell in cells:
        sizes = sheet.sizes(cell.row, cell.column)
        rest = tuple(sizes.get(name) for name in ("B", "M", "N", "K", "top_k"))
        texts = (sheet.text(cell.row, one) for one in sheet.of(ColumnRole.LABEL, ColumnRole.DEVICE))
        groups[(*rest, *texts)].append((sizes.get("E", 1), cell))
    for group in groups.values():
        ordered = sorted(group, key=lambda one: one[0])
        for (few, first), (many, second) in itertools.pairwise(ordered):
            if many >= 2 * few:
                yield first, second


def _is_flat(sheet: Sheet, first: PrintedRate, second: PrintedRate) -> bool:
    """True when twice the experts take the same time, and neither idle units nor a launch explain it."""
    if second.time.low > SAME * first.time.high:
        return False
    sizes = sheet.sizes(first.row, first.column)
    if not {"M", "N"} <= sizes.keys():
        return False
    tiles = sizes.get("E", 1) * -(-sizes["M"] // TILE) * -(-sizes["N"] // TILE)
    device = sheet.setting_at(first.row, first.column).device
    units = (device.multiprocessors if device else None) or UNITS
    return tiles >= 2 * units and first.time_s > 5e-5


def _over(sheet: Sheet, column: AnnotatedColumn, cells: list[PrintedRate]) -> list[PrintedRate]:
    """Cells above the peak that are below it when M is counted once."""
    found = []
    for cell in cells:
        setting = sheet.setting_at(cell.row, column)
        roof = setting.peak(column.dtype)
        if roof is None or setting.device is None:
            continue
        most = reachable(setting.device, roof[0])
        if cell.rate.low > most >= cell.rate.high / sheet.sizes(cell.row, column).get("E", 1):
            found.append(cell)
    return found


def _finding(sheet: Sheet, flat: list[tuple[PrintedRate, PrintedRate]], over: list[PrintedRate]) -> Finding:
    reasons = []
    if flat:
        first, second = flat[0]
        few, many = (sheet.sizes(cell.row, cell.column).get("E", 1) for cell in (first, second))
        pairs = f"; {len(flat)} such pairs" if len(flat) > 1 else ""
        reasons.append(
            f"{many} experts take {second.time_s * 1e3:.4g} ms where {few} take {first.time_s * 1e3:.4g} ms at the "
            f"same M ({first.column.name}, lines {sheet.line(first.row)} and {sheet.line(second.row)}{pairs})"
        )
    if over:
        reasons.append(
            f"{len(over)} times of {over[0].column.name} are too short for the peak, and long enough with M counted "
            "once"
        )
    cell = flat[0][0] if flat else over[0]
    message = (
        f"FLOPs are counted as if each expert had M rows, but {' and '.join(reasons)}: M may be the total, and all "
        "TFLOPS too large by the number of experts"
    )
    return RULE.at(
        sheet,
        cell.row,
        message,
        cell.column,
        severity=Severity.QUESTION,
        pairs=float(len(flat)),
        over_peak=float(len(over)),
    )


RULE = Rule(
    "m-convention",
    "M may be the rows of all experts while FLOPs are counted for each: more experts cost no time, or only the factor "
    "of their number lifts rates above the peak",
    "state whether M is per expert or total (--M-is), and count 2 N K FLOPs per row that is multiplied",
    check,
    ((Need.EXPERTS,), (Need.TIMES, Need.SIZED_RATES)),
)
