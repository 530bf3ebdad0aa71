"""All rules, in the order of a report, what cannot be first; and what of their needs a table has."""

from ....analysis.imports.columns import ColumnRole
from ..evidence.baseline import against_rows
from ..evidence.finding import Need
from ..evidence.pairs import MEASURED, pair_of
from ..evidence.rates import cells_of, time_beside
from ..evidence.rule import Rule
from ..evidence.sheet import Sheet
from . import pattern, peak_share, ratios, repeats, roof, zeros
from .pattern import windows

RULES: tuple[Rule, ...] = (
    zeros.RULE,
    roof.PEAK,
    roof.BANDWIDTH,
    peak_share.RULE,
    ratios.VALUES,
    ratios.LABEL,
    repeats.ROWS,
    repeats.COPIES,
    pattern.RULE,
)


def available(sheet: Sheet) -> set[Need]:
    """Say what a table has that checks need."""
    rates, times = sheet.of(ColumnRole.RATE), sheet.of(ColumnRole.TIME)
    derived = sheet.of(ColumnRole.RATIO, ColumnRole.CHANGE, ColumnRole.DIFFERENCE)
    sizes = [sheet.sizes(row) for row in range(len(sheet))]
    facts = {
        Need.DEVICE: any(sheet.setting_at(row, one).device for one in sheet.columns for row in range(len(sheet))),
        Need.SIZES: any(sizes),
        Need.TIMES: any(next(cells_of(sheet, one), None) for one in times),
        Need.RATES: bool(rates),
        Need.BANDWIDTHS: bool(sheet.of(ColumnRole.BANDWIDTH)),
        Need.MEASURED: bool(sheet.of(*MEASURED)),
        Need.FIGURES: any(one.is_result for figures in windows(sheet) for one in figures),
        Need.SHARES: bool((rates or sheet.of(ColumnRole.BANDWIDTH)) and sheet.of(ColumnRole.PEAK_SHARE)),
        Need.SIDES: any(pair_of(sheet, one) or against_rows(sheet, one) for one in derived),
        Need.TIMED_RATES: any((time := time_beside(sheet, one)) and next(cells_of(sheet, time), None) for one in rates),
    }
    return {need for need, is_there in facts.items() if is_there}
