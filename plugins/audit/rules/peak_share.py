"""Percentages of a peak that the device does not have."""

import math
from collections.abc import Iterator

from ....analysis.imports.columns import AnnotatedColumn, ColumnRole
from ....analysis.imports.consistency import ValueRange
from ....analysis.imports.devices import short_name
from ..evidence.assumptions import Assumptions
from ..evidence.finding import Finding, Need, Severity
from ..evidence.pairs import ratio, scaled
from ..evidence.rule import Rule
from ..evidence.sheet import Sheet

CLOSE = 0.01
"""Relative: published peaks of one part differ by so much from source to source."""

BESIDE = 0.03
"""Relative: a peak with sparsity that is named because it may have been meant."""

FEWEST = 2
"""Rows that agree on a peak which no other row can be without."""

AGREEING = 2
"""Rows that agree, for each that does not."""


def check(sheet: Sheet) -> Iterator[Finding]:
    """Compare the peak that rate and percentage imply with the published one, and with those of other rows."""
    for share in sheet.of(ColumnRole.PEAK_SHARE):
        told = list(_column(sheet, share)) if share.detail != "bandwidth" else []
        yield from told or [*_disagreeing(sheet, share)] or _above(sheet, share)


def _column(sheet: Sheet, share: AnnotatedColumn) -> Iterator[Finding]:
    """One finding per column of percentages, at the first row that tells."""
    rates = [one for one in sheet.of(ColumnRole.RATE) if dict(one.fixed) == dict(share.fixed)]
    beside = [one for one in rates if one.side == share.side] or rates
    if len(beside) != 1:
        return
    rate = beside[0]
    values = [cell.value for cell in share.cells if cell is not None]
    marked = any(cell is not None and cell.unit == "%" for cell in share.cells)
    named = "%" in share.name or "pct" in share.name or "percent" in share.name
    whole = 100 if marked or named or max(values, default=0.0) > 1.5 else 1
    implied: list[tuple[int, ValueRange]] = []
    for row, (printed, percent) in sheet.spans(rate, share):
        if sheet.setting_at(row, rate).device is None or percent.low <= 0 or printed.low <= 0:
            continue
        implied.append((row, scaled(ratio(printed, percent), rate.unit * whole)))
    dtype = share.dtype or rate.dtype
    wrong = [(row, ends) for row, ends in implied if not _matches(ends, _own(sheet.setting_at(row, rate), dtype))]
    if 2 * len(wrong) > len(implied) or len(wrong) > 2:  # one finding for all
        row, ends = min(wrong, key=lambda one: one[1].high - one[1].low)
        yield _finding(sheet, row, share, rate, ends, len(wrong), len(implied))
    else:
        for row, ends in wrong:
            yield _finding(sheet, row, share, rate, ends, 1, len(implied))


def _finding(
    sheet: Sheet, row: int, share: AnnotatedColumn, rate: AnnotatedColumn, ends: ValueRange, wrong: int, told: int
) -> Finding:
    setting, cell = sheet.setting_at(row, rate), rate.cells[row]
    assert setting.device is not None
    assert cell is not None
    own, value = _own(setting, share.dtype or rate.dtype), cell.value * rate.unit
    middle = math.sqrt(ends.low * ends.high) or (ends.low + ends.high) / 2
    sparse = [name for name, peak in own.items() if abs(2 * peak / middle - 1) <= BESIDE]
    matches = f", twice the dense {sparse[0]} peak: the figure with sparsity" if sparse else ""
    true = ", ".join(f"{100 * value / peak:.2g} % of its {name} peak ({peak / 1e12:.6g})" for name, peak in own.items())
    rows = f"; {wrong} rows" if wrong > 1 else ""
    message = (
        f"{rate.name} {sheet.quoted(row, rate)} as {sheet.quoted(row, share)} of peak ({share.name}) implies a peak of "
        f"{middle / 1e12:.4g} TFLOPS ({ends.low / 1e12:.4g} to {ends.high / 1e12:.4g}){matches}. On "
        f"{short_name(setting.device)} it is {true}{rows}"
    )
    return RULE.at(
        sheet,
        row,
        message,
        share,
        severity=Severity.QUESTION if wrong == told > 1 else Severity.CONTRADICTION,
        ends=ends,
        implied_peak_flops_per_s=middle,
        source=setting.device.source,
    )


def _disagreeing(sheet: Sheet, share: AnnotatedColumn) -> Iterator[Finding]:
    """Find rows whose peak is not that of most rows of the same device and type, whatever it is."""
    roles = (ColumnRole.BANDWIDTH,) if share.detail == "bandwidth" else (ColumnRole.RATE, ColumnRole.BANDWIDTH)
    rate = next((found[0] for role in roles if len(found := sheet.of(role)) == 1), None)
    if rate is None or dict(rate.fixed) != dict(share.fixed):
        return
    groups: dict[tuple[str, ...], list[tuple[int, ValueRange]]] = {}
    for row, (printed, percent) in sheet.spans(rate, share):
        if percent.low > 0 and printed.low > 0:
            key = tuple(sheet.text(row, one) for one in sheet.of(ColumnRole.DEVICE, ColumnRole.DTYPE))
            groups.setdefault(key, []).append((row, ratio(printed, percent)))
    for rows in groups.values():
        common = max((sum(one.meets(ValueRange(ends.low, ends.low)) for _, one in rows), ends.low) for _, ends in rows)
        outside = [(row, ends) for row, ends in rows if not ends.meets(ValueRange(common[1], common[1]))]
        if common[0] < FEWEST or common[0] < AGREEING * len(outside):
            continue
        for row, ends in outside:
            message = (
                f"{rate.name} {sheet.quoted(row, rate)} as {sheet.quoted(row, share)} ({share.name}) implies a peak of "
                f"{100 * ends.low:.4g} to {100 * ends.high:.4g}, where {common[0]} other rows agree on "
                f"{100 * common[1]:.4g}"
            )
            yield RULE.at(sheet, row, message, share)


def _above(sheet: Sheet, share: AnnotatedColumn) -> Iterator[Finding]:
    """Find the first row above 100 %, whatever the peak is."""
    for row, (percent,) in sheet.spans(share):
        if percent.low > 100:
            message = f"{share.name} {sheet.quoted(row, share)} is above 100 %"
            yield RULE.at(sheet, row, message, share, severity=Severity.QUESTION)
            return


def _own(setting: Assumptions, dtype: str) -> dict[str, float]:
    """Peaks of the device that may be meant: that of the type, else all."""
    assert setting.device is not None
    rates = setting.device.peak_flops
    for name in (dtype, setting.dtype):
        if name in rates:
            return {name: rates[name]}
    return dict(rates)


def _matches(ends: ValueRange, peaks: dict[str, float]) -> bool:
    return any(ends.low <= peak * (1 + CLOSE) and peak * (1 - CLOSE) <= ends.high for peak in peaks.values())


RULE = Rule(
    "percent-of-peak",
    "a rate and its percentage of peak imply a peak that the device does not have, or another one than other rows",
    "name the peak, its value and its source: the dense one of the type that multiplies",
    check,
    ((Need.SHARES,),),
)
