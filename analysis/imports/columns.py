"""One column of a table as it was read: its role, its numbers with their rounding, and what the user may say of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ...shapes.errors import UsageError, quote, unknown_name
from . import words as known
from .consistency import ValueRange
from .printed import SECONDS, Printed
from .rounding import Rounding, RoundingKind

NOT_ROUNDED = Rounding(RoundingKind.NONE)


class ColumnRole(StrEnum):
    """What a column holds."""

    SIZE = "size"
    SHAPE = "shape"
    TIME = "time"
    RATE = "rate"
    BANDWIDTH = "bandwidth"
    BYTES = "bytes"
    WORK = "FLOPs"
    THROUGHPUT = "throughput"
    RATIO = "ratio"
    CHANGE = "change"
    DIFFERENCE = "difference"
    PEAK_SHARE = "share of peak"
    STATISTIC = "statistic"
    ID = "id"
    DTYPE = "dtype"
    DEVICE = "device"
    LABEL = "label"
    OTHER = "not used"


@dataclass(frozen=True, slots=True)
class AnnotatedColumn:
    """A column and its printed numbers.

    name     header, as messages repeat it
    side     words that tell columns of one role apart ("old", "bf16"); pass_ fwd, bwd, step, ... or ""
    unit     seconds, FLOP/s or bytes/s per printed one
    detail   which sizes ("M,N,K": all three), which statistic, which kind of change (reduction, gain)
    sides    those that the header of a ratio or change names: "a/b", of a speedup from one to the other "a>b", or of
             one against another "base<head"
    dtype    type that the header names; fixed: sizes that the header fixes ("M=16")
    mixed    each cell has the step of its own last digit: cells have several units, or nobody kept trailing zeros
    unread   cells with a text where a number was expected
    digits   most significant digits of a cell, where cells have different numbers of decimals; else 0
    """

    index: int
    name: str
    role: ColumnRole
    cells: tuple[Printed | None, ...]
    side: str = ""
    pass_: str = ""
    unit: float = 1.0
    detail: str = ""
    dtype: str = ""
    core: frozenset[str] = frozenset()
    fixed: Mapping[str, int] = field(default_factory=dict)
    rounding: Rounding = NOT_ROUNDED
    mixed: bool = False
    unread: int = 0
    digits: int = 0
    sides: str = ""
    _spans: list[ValueRange | None] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def is_whole(self) -> bool:
        """True where no cell has decimals, or all are multiples of 16, as pandas prints sizes ("4096.0"), or small."""
        cells = [cell for cell in self.cells if cell is not None]
        return all("." not in cell.digits or cell.value % 16 == 0 or cell.value in range(16) for cell in cells)

    def step(self, row: int) -> float:
        """Distance of neighbouring numbers at this row, in the printed unit; 0: not rounded."""
        cell = self.cells[row]
        if cell is not None and self.mixed:
            return cell.step
        if cell is None or not cell.value or self.rounding.kind is RoundingKind.NONE:
            return 10.0**-self.rounding.places if self.rounding.kind is RoundingKind.DECIMALS else 0.0
        return min(cell.step, max(self.rounding.step(cell.digits), self._digit_step(cell)))

    def _digit_step(self, cell: Printed) -> float:
        """Step of a cell where all have as many significant digits: `%g` prints 102786 beside 15218.9."""
        if not self.digits:
            return 0.0
        return Rounding(RoundingKind.DIGITS, self.digits).step(cell.digits)

    def span(self, row: int) -> ValueRange | None:
        """Numbers that this cell stands for, in the printed unit; None where it is empty."""
        if not self._spans:
            self._spans.extend(None if one is None else one.within(self.step(at)) for at, one in enumerate(self.cells))
        return self._spans[row]


TEXTS = ("op", "pass", "scheme", "cache", "model", "layer", "provider", "verdict")
"""Names of what a row is of."""

GIVEN: Mapping[str, tuple[ColumnRole, float, str]] = {
    **{name: (ColumnRole.SIZE, 1.0, name) for name in ("M", "N", "K", "B", "E", "top_k")},
    **{f"time_{unit}": (ColumnRole.TIME, float(seconds), "") for unit, seconds in SECONDS.items()},
    **{unit: (ColumnRole.RATE, known.RATES[unit], "") for unit in ("tflops", "gflops", "pflops")},
    "gbs": (ColumnRole.BANDWIDTH, 1e9, ""),
    "throughput": (ColumnRole.THROUGHPUT, 1.0, ""),
    "speedup": (ColumnRole.RATIO, 1.0, ""),
    "change": (ColumnRole.CHANGE, 1.0, ""),
    "reduction": (ColumnRole.CHANGE, 1.0, "reduction"),
    "gain": (ColumnRole.CHANGE, 1.0, "gain"),
    "percent_of_peak": (ColumnRole.PEAK_SHARE, 1.0, ""),
    **{str(role): (role, 1.0, "") for role in (ColumnRole.DTYPE, ColumnRole.DEVICE, ColumnRole.ID, ColumnRole.LABEL)},
    **dict.fromkeys(TEXTS, (ColumnRole.LABEL, 1.0, "")),
    "ignore": (ColumnRole.OTHER, 1.0, ""),
}
"""What `--column ROLE=NAME` may say; `ROLE:SIDE=NAME` names the side too ("time_ms:old").

An audit takes all of them, a comparison those of `tidy.KEYS`, and has no sides.
"""


@dataclass(frozen=True, slots=True)
class Override:
    """One `--column ROLE[:SIDE]=NAME`."""

    role: str
    side: str
    name: str

    @staticmethod
    def parse(text: str) -> "Override":
        """Read the option; raise UsageError when it is none."""
        left, equals, name = text.partition("=")
        role, _, side = left.partition(":")
        if not equals or not name.strip():
            raise UsageError(f"--column {quote(text)}: write ROLE=NAME, as in time_us='Kernel (us)'")
        if role.strip() not in GIVEN:
            raise unknown_name("role of --column", role.strip(), list(GIVEN))
        return Override(role.strip(), side.strip().lower(), name.strip())
