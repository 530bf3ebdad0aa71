"""All rules, in the order of a report: what cannot be first."""

from ..evidence.context import Rule
from . import (
    changes_stated,
    counts,
    experts,
    floor,
    order,
    parts,
    pattern,
    peak_share,
    ratios,
    repeats,
    roof,
    rounding,
    slow,
    winner,
)

RULES: tuple[Rule, ...] = (
    roof.PEAK,
    roof.BANDWIDTH,
    experts.RULE,
    parts.RULE,
    peak_share.RULE,
    ratios.VALUES,
    ratios.LABEL,
    changes_stated.RULE,
    winner.RULE,
    order.RULE,
    counts.RULE,
    slow.RULE,
    repeats.TIMES,
    repeats.ROWS,
    repeats.COPIES,
    rounding.RULE,
    floor.RULE,
    pattern.RULE,
)
