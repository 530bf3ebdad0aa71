"""A table whose columns are understood: sizes, times, rates, ratios, changes, counts; each with its side and pass."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ...shapes.errors import UsageError
from ...shapes.problem import Op, Pass, Problem
from ..imports.consistency import Span
from ..imports.rounding import Kind, Rounding, detect
from .document import Titled
from .printed import Printed, read_printed
from .setting import PER_EXPERT, TOTAL, Setting
from .words import passes_in, words_of

NOT_ROUNDED = Rounding(Kind.NONE)


class Role(StrEnum):
    """What a column holds."""

    SIZE = "size"
    SHAPE = "shape"
    TIME = "time"
    RATE = "rate"
    BANDWIDTH = "bandwidth"
    RATIO = "ratio"
    CHANGE = "change"
    DIFFERENCE = "difference"
    PEAK_SHARE = "share of peak"
    COUNT = "count beyond"
    CASES = "cases"
    STATISTIC = "statistic"
    ID = "id"
    DTYPE = "dtype"
    LABEL = "label"
    OTHER = "not used"


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its printed numbers.

    side     words that tell columns of one role apart ("old", "bf16"); pass_ fwd, bwd, step, ... or ""
    unit     seconds, FLOP/s or bytes/s per printed one
    detail   which size, which statistic, which kind of change (reduction, gain), or the two sides of a ratio "a/b"
    dtype    type that the header names; fixed: sizes that the header fixes ("M=16")
    mixed    its cells were printed in several units, so that each has its own step
    unread   cells with a text where a number was expected
    """

    index: int
    name: str
    role: Role
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
    _spans: list[Span | None] = field(default_factory=list, init=False, repr=False, compare=False)

    def step(self, row: int) -> float:
        """Distance of neighbouring numbers at this row, in the printed unit; 0: not rounded."""
        cell = self.cells[row]
        if cell is not None and self.mixed:
            return cell.step
        if cell is None or self.rounding.kind is not Kind.DIGITS or not cell.value:
            return 10.0**-self.rounding.places if self.rounding.kind is Kind.DECIMALS else 0.0
        return self.rounding.step(cell.digits)

    def span(self, row: int) -> Span | None:
        """Numbers that this cell stands for, in the printed unit; None where it is empty."""
        if not self._spans:
            self._spans.extend(None if one is None else one.within(self.step(at)) for at, one in enumerate(self.cells))
        return self._spans[row]


@dataclass(frozen=True, slots=True)
class Summary:
    """A last row such as "mean" or "geomean": its statistic, its line, and its numbers by column."""

    statistic: str
    line: int
    cells: Mapping[int, Printed]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table and what its columns are; `m_is` is "total", "per_expert" or "" where nothing says so.

    `summaries` are rows that sum others up; they are no rows of the table. `title_sizes` are sizes that the title gives
    for all rows ("N=4096, K=7168").
    """

    titled: Titled
    columns: tuple[Column, ...]
    setting: Setting
    m_is: str = ""
    title_pass: str = ""
    summaries: tuple[Summary, ...] = ()
    title_sizes: Mapping[str, int] = field(default_factory=dict)
    _sizes: dict[int, dict[str, int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _problems: dict[tuple[object, ...], Problem | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.titled.table)

    def of(self, *roles: Role) -> list[Column]:
        """Columns of these roles."""
        return [column for column in self.columns if column.role in roles]

    def text(self, row: int, column: Column) -> str:
        """Text of a cell."""
        return self.titled.table.rows[row][column.index].strip()

    def line(self, row: int) -> int:
        """Line of a row in the text."""
        return self.titled.table.lines[row]

    def sizes(self, row: int, column: Column | None = None) -> dict[str, int]:
        """Sizes of a row, with those that the header of `column` fixes."""
        found = self._sizes.get(row)
        if found is None:
            found = self._sizes[row] = self._read_sizes(row)
        return found | dict(column.fixed) if column and column.fixed else dict(found)

    def _read_sizes(self, row: int) -> dict[str, int]:
        found = dict(self.title_sizes)
        for one in self.columns:
            if one.role is Role.SIZE and (cell := one.cells[row]) is not None and cell.value == int(cell.value) > 0:
                found[one.detail] = int(cell.value)
            elif one.role is Role.SHAPE:
                numbers = [int(text) for text in re.findall(r"\d+", self.text(row, one))]
                if len(numbers) == len(one.detail):
                    found |= dict(zip(one.detail, numbers, strict=True))
        return found

    def pass_of(self, row: int, column: Column) -> str:
        """Pass of a cell: what its header, row, user or title says, in this order; else ""."""
        if column.pass_:
            return column.pass_
        for label in self.of(Role.LABEL):
            if len(found := passes_in(words_of(self.text(row, label)))) == 1:
                return found.pop()
        return self.setting.pass_ or self.title_pass

    def problem(self, row: int, column: Column, m_is: str = "") -> Problem | None:
        """Problem of a cell, with M counted as `m_is`, else as the table does, else per expert; None without sizes."""
        key = (row, tuple(column.fixed.items()), m_is, self.pass_of(row, column))
        if key not in self._problems:
            self._problems[key] = self._problem(row, column, m_is)
        return self._problems[key]

    def _problem(self, row: int, column: Column, m_is: str) -> Problem | None:
        sizes = self.sizes(row, column)
        if not {"M", "N", "K"} <= set(sizes):
            return None
        experts = sizes.get("E", 1)
        op = self.setting.op if self.setting.op is not Op.QUANTIZE else Op.GEMM
        if experts > 1 and op is Op.GEMM:
            op = Op.GROUPED_GEMM
        grouped = op in (Op.GROUPED_GEMM, Op.MOE_GEMM)
        counted = m_is or self.m_is or PER_EXPERT
        rows = sizes["M"] * (experts if grouped and op is not Op.MOE_GEMM and counted == PER_EXPERT else 1)
        try:
            return Problem(
                rows,
                sizes["N"],
                sizes["K"],
                sizes.get("B", 1),
                op,
                Pass(self.pass_of(row, column) or "fwd"),
                experts if grouped else 1,
                sizes.get("top_k", 1) if op is Op.MOE_GEMM else 1,
            )
        except UsageError:
            return None

    def label(self, row: int, column: Column | None = None) -> str:
        """Name a row for a reader: its sizes, else its first texts."""
        sizes = self.sizes(row, column)
        said = [f"{self.text(row, one)}" for one in self.of(Role.ID)]
        if "M" in sizes or "N" in sizes:
            order = [name for name in ("B", "E", "top_k", "M", "N", "K") if name in sizes]
            return " ".join([*said, *(f"{name}={sizes[name]}" for name in order)])
        texts = [self.text(row, one) for one in self.of(Role.LABEL)]
        return " ".join([*said, *texts]) or f"row {row + 1}"

    def has_m_choice(self, row: int, column: Column) -> bool:
        """True where nothing says whether M counts the rows of one expert or of all."""
        return not self.m_is and self.sizes(row, column).get("E", 1) > 1 and self.setting.op is not Op.MOE_GEMM

    def with_m(self, m_is: str) -> "Sheet":
        """Return the sheet with a convention for M."""
        assert m_is in (TOTAL, PER_EXPERT, "")
        return replace(self, m_is=m_is)


def numbers_of(texts: Sequence[str]) -> tuple[tuple[Printed | None, ...], Rounding]:
    """Read the cells of a column, and how they were rounded."""
    cells = tuple(read_printed(text) for text in texts)
    return cells, detect([cell.digits for cell in cells if cell is not None and not cell.about])
