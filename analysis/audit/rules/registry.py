"""All rules, in the order of a report: what cannot be first."""

from ..evidence.context import Rule
from .changes_stated import RULE as CONTRADICTORY_CHANGES
from .counts import RULE as COUNTS
from .experts import RULE as M_CONVENTION
from .floor import RULE as LAUNCH_FLOOR
from .order import RULE as ORDER
from .parts import RULE as PART_ABOVE_WHOLE
from .pattern import RULE as PATTERN
from .peak_share import RULE as PERCENT_OF_PEAK
from .ratios import LABEL as RATIO_LABEL
from .ratios import VALUES as DOES_NOT_FOLLOW
from .repeats import COPIES as COPIED_NUMBERS
from .repeats import ROWS as REPEATED_ROWS
from .repeats import TIMES as EQUAL_TIMES
from .roof import BANDWIDTH as ABOVE_BANDWIDTH
from .roof import PEAK as ABOVE_PEAK
from .rounding import RULE as BELOW_RESOLUTION
from .slow import RULE as IMPLAUSIBLY_SLOW
from .stated import RULE as STATED_SUMMARY
from .winner import RULE as WINNER

RULES: tuple[Rule, ...] = (
    ABOVE_PEAK,
    ABOVE_BANDWIDTH,
    M_CONVENTION,
    PART_ABOVE_WHOLE,
    PERCENT_OF_PEAK,
    DOES_NOT_FOLLOW,
    RATIO_LABEL,
    CONTRADICTORY_CHANGES,
    WINNER,
    ORDER,
    COUNTS,
    STATED_SUMMARY,
    IMPLAUSIBLY_SLOW,
    EQUAL_TIMES,
    REPEATED_ROWS,
    COPIED_NUMBERS,
    BELOW_RESOLUTION,
    LAUNCH_FLOOR,
    PATTERN,
)
