"""Faster than the device: FLOP/s above the dense peak, bytes per second above the memory."""

from collections.abc import Iterator

from ....analysis.imports.columns import AnnotatedColumn, ColumnRole
from ....analysis.imports.devices import short_name
from ....analysis.imports.words import dtypes_in
from ....shapes.device import DeviceSpec
from ....shapes.problem import Op, Problem
from ..evidence.assumptions import PER_EXPERT, TOTAL, Assumptions, reachable
from ..evidence.finding import Finding, Need, Severity
from ..evidence.pairs import scaled
from ..evidence.rates import PrintedRate, cells_of, time_beside
from ..evidence.rule import Rule
from ..evidence.sheet import Sheet


def check_peak(sheet: Sheet) -> Iterator[Finding]:
    """Compare the FLOP/s that times and sizes imply, and those that are printed, with the dense peak of their type."""
    for column in sheet.of(ColumnRole.TIME, ColumnRole.RATE):
        if column.role is ColumnRole.RATE and time_beside(sheet, column) is not None:
            continue  # judged by its time
        yield from _column(sheet, column)


def _column(sheet: Sheet, column: AnnotatedColumn) -> Iterator[Finding]:
    for cell in _cells(sheet, column):
        setting = sheet.setting_at(cell.row, column)
        roof = setting.peak(column.dtype or _named_type(sheet, cell.row, setting))
        if roof is None:
            continue
        peak, dtype = roof
        assert setting.device is not None
        if cell.rate.low <= reachable(setting.device, peak):
            continue
        rate = (cell.rate.low + cell.rate.high) / 2
        device = short_name(setting.device)
        how = f"{column.name}: {_implied(column)}{_tera(rate)} TFLOPS, {rate / peak:.3g} times the dense "
        message = f"{how}{dtype} peak of {device} ({peak / 1e12:.6g} TFLOPS)"
        severity, more = Severity.IMPOSSIBLE, ""
        sizes = sheet.sizes(cell.row, column)
        if column.role is ColumnRole.TIME and sheet.has_m_choice(cell.row, column) and rate / sizes["E"] <= peak:
            severity = Severity.QUESTION
            more = f"; with M as the rows of all {sizes['E']} experts it would be {_tera(rate / sizes['E'])}"
        elif sizes.get("E", 1) > 1 and sheet.m_is != TOTAL and rate / sizes["E"] <= peak:
            more = f"; counting M once instead of {sizes['E']} times gives {_tera(rate / sizes['E'])}"
        yield PEAK.at(
            sheet,
            cell.row,
            message + more,
            column,
            severity=severity,
            flops_per_s=rate,
            peak_flops_per_s=peak,
            dtype=dtype,
            source=setting.device.source,
        )


def _named_type(sheet: Sheet, row: int, setting: Assumptions) -> str:
    """Return the fastest of the types that a row and the title name, as a column may be of outputs; "" for none."""
    columns = sheet.of(ColumnRole.DTYPE)
    if setting.dtype or setting.device is None or not columns:
        return ""
    text = " ".join([sheet.table.title, *sheet.table.header, *(sheet.text(row, one) for one in columns)])
    rates = setting.device.peak_flops
    return max((name for name in dtypes_in(text) if name in rates), key=lambda name: rates[name], default="")


def _cells(sheet: Sheet, column: AnnotatedColumn) -> Iterator[PrintedRate]:
    if column.role is ColumnRole.TIME:
        yield from cells_of(sheet, column)
        return
    for row, (span,) in sheet.spans(column):  # a rate needs no sizes
        if span.low > 0 and column.detail != "aggregate":
            yield PrintedRate(row, column, 0.0, span, scaled(span, column.unit))


def _tera(rate: float) -> str:
    return f"{rate / 1e12:.4g}" if rate < 1e16 else f"{rate / 1e12:.0f}"


def _implied(column: AnnotatedColumn) -> str:
    return "the time and the sizes imply " if column.role is ColumnRole.TIME else ""


def least_bytes(problem: Problem, setting: Assumptions) -> float:
    """Bytes that must move at least: each weight that has rows, each activation, 2 bytes per output; no scales."""
    used: float = min(problem.weights, problem.rows) if problem.op is not Op.GEMM else problem.weights
    if problem.op is Op.MOE_GEMM:  # experts that tokens reach on average, if they choose at random
        used = problem.E * (1 - (1 - problem.top_k / problem.E) ** problem.M)
    weights = used * problem.N * problem.K * setting.weight_bits / 8
    rows_in = problem.B * problem.M
    return weights + rows_in * problem.K * setting.activation_bits / 8 + 2.0 * problem.rows * problem.N


def check_bandwidth(sheet: Sheet) -> Iterator[Finding]:
    """Compare the bytes per second that times and sizes imply, and those that are printed, with the memory's."""
    for column in sheet.of(ColumnRole.BANDWIDTH):
        for row, (span,) in sheet.spans(column):
            device = sheet.setting_at(row, column).device
            speed = device.bandwidth_bytes_per_s if device else None
            if device and speed and span.low * column.unit > speed:
                yield _fast(sheet, row, column, span.low * column.unit, speed, "", device)
    for column in sheet.of(ColumnRole.TIME):
        for cell in cells_of(sheet, column):
            problem = sheet.problem(cell.row, column, TOTAL if sheet.m_is != PER_EXPERT else PER_EXPERT)
            setting = sheet.setting_at(cell.row, column)
            device = setting.device
            if problem is None or device is None or not (speed := device.bandwidth_bytes_per_s):
                continue
            cache = float(device.last_level_bytes or 0)
            moved = least_bytes(problem, setting)
            if moved / cell.time.high > speed:
                reason = "all" if moved <= cache else "part"
                if (moved - cache) / cell.time.high > speed:
                    reason = "none"
                yield _fast(sheet, cell.row, column, moved / cell.time_s, speed, reason, device)


def _fast(
    sheet: Sheet, row: int, column: AnnotatedColumn, rate: float, speed: float, cached: str, device: DeviceSpec
) -> Finding:
    """Build the finding; `cached`: how much of what moved the last cache may have held, none, part or all of it."""
    name = short_name(device)
    severity = Severity.IMPOSSIBLE if cached == "none" else Severity.MISLEADING
    reason = {
        "": "a cache served it, or bytes are counted that did not move",
        "all": "its operands fit into the last cache: a warm number, which no first use reaches",
        "part": "part of its operands would have to lie in the last cache: a warm number, which no first use reaches",
        "none": "even with the whole last cache full of operands",
    }[cached]
    message = (
        f"{column.name}: at least {rate / 1e9:.4g} GB/s, {rate / speed:.3g} times the memory of {name} "
        f"({speed / 1e9:.5g} GB/s); {reason}"
    )
    return BANDWIDTH.at(
        sheet,
        row,
        message,
        column,
        severity=severity,
        bytes_per_s=rate,
        bandwidth_bytes_per_s=speed,
        source=device.source,
    )


PEAK = Rule(
    "above-peak",
    "FLOP/s that the sizes and the time imply, or that are printed, lie above the dense peak of the device",
    "check what M counts, which type multiplies (--dtype), and that the time covers the whole problem",
    check_peak,
    ((Need.DEVICE,), (Need.TIMES, Need.RATES)),
)

BANDWIDTH = Rule(
    "above-bandwidth",
    "bytes that must move (operands once, no scales) in the time exceed the bandwidth of the memory",
    "measure with a cold cache, or say that the numbers are warm; check --weight-bits and --activation-bits",
    check_bandwidth,
    ((Need.DEVICE,), (Need.TIMES, Need.BANDWIDTHS)),
)
