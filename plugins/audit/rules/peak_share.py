"""Percentages of a peak that the device does not have."""

import math
from collections.abc import Iterator
from dataclasses import replace

from ....analysis.imports.consistency import ValueRange
from ....shapes.device import specs
from ....shapes.errors import quote, shorten
from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need
from ..evidence.pairs import ratio
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from ..reading.assumptions import Assumptions, devices_in, short_name
from ..reading.claims import PeakClaim, StatedPeak, peak_claims, stated_peaks
from ..reading.printed import read_printed

CLOSE = 0.01
"""Relative: published peaks of one part differ by so much from source to source."""

BESIDE = 0.03
"""Relative: other peaks that are named because the claim may have meant them."""

FEWEST = 2
"""Rows that agree on a peak which no other row can be without."""

AGREEING = 2
"""Rows that agree, for each that does not."""

_SCALES = {"tflops": 1e12, "gflops": 1e9, "pflops": 1e15}


def check(case: Case) -> Iterator[Finding]:
    """Compare the peak that rate and percentage imply with the published one, in columns, claims and rows of claims."""
    for sheet in case.sheets:
        for share in [one for one in sheet.of(ColumnRole.PEAK_SHARE) if one.detail != "bandwidth"]:
            told = list(_column(sheet, share))
            yield from told or _disagreeing(sheet, share)
        for share in [one for one in sheet.of(ColumnRole.PEAK_SHARE) if one.detail == "bandwidth"]:
            yield from _disagreeing(sheet, share)
        for claim in _claim_rows(sheet):
            yield from _claimed(claim, case.setting)
    for claim in peak_claims(case.claims):
        yield from _claimed(claim, case.setting)
    for peak in stated_peaks(case.claims):
        yield from _stated(peak, case.setting)


def _column(sheet: Sheet, share: AnnotatedColumn) -> Iterator[Finding]:
    """One finding per column of percentages, at the first row that tells."""
    rates = [one for one in sheet.of(ColumnRole.RATE) if dict(one.fixed) == dict(share.fixed)]
    beside = [one for one in rates if one.side == share.side] or rates
    if share.beside is not None:
        beside = [one for one in beside if one.index == share.beside]
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
        ends = ratio(printed, percent)
        implied.append((row, ValueRange(ends.low * rate.unit * whole, ends.high * rate.unit * whole)))
    dtype = share.dtype or rate.dtype
    wrong = [(row, ends) for row, ends in implied if not _matches(ends, _own(sheet.setting_at(row, rate), dtype))]
    if not wrong or (2 * len(wrong) <= len(implied) and len(wrong) < 3):
        for row, ends in wrong:
            yield _finding(sheet, row, share, rate, ends, dtype, 1)
        return
    row, ends = min(wrong, key=lambda one: one[1].high - one[1].low)
    yield _finding(sheet, row, share, rate, ends, dtype, len(wrong))


def _finding(
    sheet: Sheet, row: int, share: AnnotatedColumn, rate: AnnotatedColumn, ends: ValueRange, dtype: str, count: int
) -> Finding:
    value = rate.cells[row]
    assert value is not None
    said = f"{rate.name} {sheet.quoted(row, rate)} as {sheet.quoted(row, share)} of peak ({share.name})"
    message, evidence = _explain(said, ends, value.value * rate.unit, sheet.setting_at(row, rate), dtype)
    rows = f"; {count} rows" if count > 1 else ""
    return replace(RULE.at(sheet, row, message + rows, share), evidence=evidence)


def _disagreeing(sheet: Sheet, share: AnnotatedColumn) -> Iterator[Finding]:
    """Find rows whose peak is not that of most rows of the same device and type, whatever it is."""
    roles = (ColumnRole.BANDWIDTH,) if share.detail == "bandwidth" else (ColumnRole.RATE, ColumnRole.BANDWIDTH)
    rate = next((found[0] for role in roles if len(found := sheet.of(role)) == 1), None)
    if share.beside is not None:
        rate = sheet.columns[share.beside]
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


def _claimed(claim: PeakClaim, setting: Assumptions) -> Iterator[Finding]:
    setting = _setting_of(claim, setting)
    if setting.device is None:
        return
    percent = claim.percent.span
    ends = ratio(claim.span, ValueRange(percent.low / 100, percent.high / 100))
    if _matches(ends, _own(setting, claim.dtype)):
        return
    said = f"{claim.rate.text} as {claim.percent.text}% of peak"
    message, evidence = _explain(said, ends, claim.rate.value * claim.unit, setting, claim.dtype)
    found = RULE.said(claim.where, claim.line, message, f'"{shorten(claim.text)}"')
    yield replace(found, evidence=evidence)


def _setting_of(said: StatedPeak, setting: Assumptions) -> Assumptions:
    named = devices_in(said.text)
    return setting.on(named) if len(named) == 1 else setting


def _stated(peak: StatedPeak, setting: Assumptions) -> Iterator[Finding]:
    """Find a peak that a claim calls dense, or just a peak, and that the device has with sparsity only."""
    setting = _setting_of(peak, setting)
    if setting.device is None:
        return
    own = {peak.dtype: setting.device.peak_flops[peak.dtype]} if peak.dtype in setting.device.peak_flops else {}
    if not own or _matches(peak.span, own) or abs(peak.rate.value * peak.unit / 2 / own[peak.dtype] - 1) > BESIDE:
        return
    message = (
        f"{quote(peak.rate.text)} is twice the dense {peak.dtype} peak of {short_name(setting.device)} "
        f"({own[peak.dtype] / 1e12:.6g} TFLOPS): the figure with sparsity"
    )
    yield RULE.said(peak.where, peak.line, message, f'"{shorten(peak.text)}"')


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


def _explain(
    said: str, ends: ValueRange, rate: float, setting: Assumptions, dtype: str
) -> tuple[str, dict[str, float | str]]:
    device = setting.device
    assert device is not None
    own = _own(setting, dtype)
    middle = math.sqrt(ends.low * ends.high) or (ends.low + ends.high) / 2
    true = ", ".join(
        f"{100 * rate / peak:.2g} % of its {name} peak ({peak / 1e12:.6g})"
        for name, peak in sorted(own.items(), key=lambda one: one[1])
        if name in ("bf16", "fp16", "fp8") or not {"bf16", "fp16", "fp8"} & set(own)
    )
    others = [
        f"{short_name(other)} {name}"
        for other in specs()
        for name, peak in other.peak_flops.items()
        if abs(peak / middle - 1) <= BESIDE and not (other.name == device.name and name in own)
    ]
    sparse = [name for name, peak in own.items() if abs(2 * peak / middle - 1) <= BESIDE]
    matches = "no device in the table has such a peak"
    if sparse:
        matches = f"that is twice the dense {sparse[0]} peak: the figure with sparsity"
    elif others:
        matches = f"that is the peak of {', '.join(others[:4])}"
    message = (
        f"{said} implies a peak of {middle / 1e12:.4g} TFLOPS ({ends.low / 1e12:.4g} to {ends.high / 1e12:.4g}); "
        f"{matches}. On {short_name(device)} it is {true}"
    )
    evidence: dict[str, float | str] = {
        "implied_peak_flops_per_s": middle,
        "low": ends.low,
        "high": ends.high,
        "source": device.source,
    }
    evidence |= {f"share_of_{name}_peak": rate / peak for name, peak in own.items()}
    return message, evidence


def _claim_rows(sheet: Sheet) -> Iterator[PeakClaim]:
    """Rows of a table of statements: one with a rate, one with a percentage of peak, for the same device and shape."""
    places = {column.name.lower(): column for column in sheet.columns}
    if not {"value", "unit", "what"} <= set(places):
        return
    context = [places[name] for name in ("device", "shape", "scope") if name in places]
    rates: dict[tuple[str, ...], int] = {}
    for row in range(len(sheet)):
        if sheet.text(row, places["unit"]).lower() in _SCALES:
            rates[tuple(sheet.text(row, one) for one in context)] = row
    for row in range(len(sheet)):
        percent = sheet.text(row, places["unit"]).lower() in ("percent", "%", "pct")
        key = tuple(sheet.text(row, one) for one in context)
        if not percent or "peak" not in sheet.text(row, places["what"]).lower() or key not in rates:
            continue
        about = [
            "~" if "qualifier" in places and sheet.text(one, places["qualifier"]) else "" for one in (rates[key], row)
        ]
        rate = read_printed(about[0] + sheet.text(rates[key], places["value"]))
        share = read_printed(about[1] + sheet.text(row, places["value"]))
        if rate is not None and share is not None and rate.value and share.value:
            unit = _SCALES[sheet.text(rates[key], places["unit"]).lower()]
            text = " ".join(filter(None, key))
            yield PeakClaim(sheet.titled.table.where, sheet.line(row), text, rate, unit, "", share)


RULE = Rule(
    "percent-of-peak",
    "a rate and its percentage of peak imply a peak that the device does not have, or another one than other rows",
    "name the peak, its value and its source: the dense one of the type that multiplies",
    check,
    ((Need.SHARES,),),
)
