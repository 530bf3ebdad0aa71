"""A table whose columns are understood, and what each of its rows is of: sizes, problem, pass, device."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ....analysis.imports.columns import AnnotatedColumn, ColumnRole
from ....analysis.imports.consistency import ValueRange
from ....analysis.imports.devices import devices_in, devices_of_cell
from ....analysis.imports.printed import read_size
from ....analysis.imports.table import ImportedTable
from ....analysis.imports.words import passes_in, words_of
from ....shapes.errors import UsageError, shorten
from ....shapes.problem import Op, Pass, Problem
from .assumptions import PER_EXPERT, Assumptions


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table and what its columns are; `m_is` is "total", "per_expert" or "" where nothing says so.

    Rows that sum others up are no rows of it. `title_sizes` are sizes that the title gives for all rows ("N=4096").
    """

    table: ImportedTable
    columns: tuple[AnnotatedColumn, ...]
    setting: Assumptions
    m_is: str = ""
    title_pass: str = ""
    title_sizes: Mapping[str, int] = field(default_factory=dict)
    _sizes: dict[int, dict[str, int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _problems: dict[tuple[object, ...], Problem | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.table)

    def of(self, *roles: ColumnRole) -> list[AnnotatedColumn]:
        """Columns of these roles."""
        return [column for column in self.columns if column.role in roles]

    def spans(self, *columns: AnnotatedColumn) -> Iterator[tuple[int, list[ValueRange]]]:
        """Yield the rows in which all these columns have a number, and what the numbers stand for."""
        for row in range(len(self)):
            found = [span for column in columns if (span := column.span(row)) is not None]
            if len(found) == len(columns):
                yield row, found

    def text(self, row: int, column: AnnotatedColumn) -> str:
        """Text of a cell."""
        return self.table.rows[row][column.index].strip()

    def quoted(self, row: int, column: AnnotatedColumn) -> str:
        """Text of a cell as messages repeat it."""
        return shorten(self.text(row, column))

    def line(self, row: int) -> int:
        """Line of a row in the text."""
        return self.table.lines[row]

    def sizes(self, row: int, column: AnnotatedColumn | None = None) -> dict[str, int]:
        """Sizes of a row, with those that the header of `column` fixes."""
        found = self._sizes.get(row)
        if found is None:
            found = self._sizes[row] = self._read_sizes(row)
        return found | dict(column.fixed) if column and column.fixed else dict(found)

    def _read_sizes(self, row: int) -> dict[str, int]:
        found = dict(self.title_sizes)
        for one in self.columns:
            names = one.detail.split(",")
            if one.role is ColumnRole.SIZE and (cell := one.cells[row]) and cell.value == int(cell.value) > 0:
                found |= dict.fromkeys(names, int(cell.value))
            elif one.role is ColumnRole.LABEL:
                found |= tuple_in(self.text(row, one), one.detail) | sizes_in(self.text(row, one))
            elif one.role is ColumnRole.SHAPE:
                numbers = [read_size(text) for text in re.findall(r"\d+[kK]?", self.text(row, one))]
                if len(numbers) == len(names):
                    found |= {name: size for name, size in zip(names, numbers, strict=True) if size is not None}
        if "M" not in found and {"B", "N", "K"} <= found.keys():  # a batch of rows, not of problems
            found["M"] = found.pop("B")
        return found

    def setting_at(self, row: int, column: AnnotatedColumn | None = None) -> Assumptions:
        """Assumptions for a cell; the device is that of its row, its header, the title or the user, in this order."""
        texts = [self.text(row, one) for one in self.of(ColumnRole.DEVICE)]
        if any(texts):
            found = devices_of_cell(" ".join(texts)) or []
            units = read_size(self.table.text(row, "cu_num")) or 0
            return self.setting.on([one for one in found if (one.multiprocessors or units) >= units])  # or part of one
        for text in (column.name if column else "", self.table.title):
            if named := devices_in(text):
                return self.setting.on(named)
        return self.setting

    def pass_of(self, row: int, column: AnnotatedColumn) -> str:
        """Pass of a cell: what its header, row, user or title says, in this order; else ""."""
        if column.pass_:
            return column.pass_
        for label in self.of(ColumnRole.LABEL):
            if len(found := passes_in(words_of(self.text(row, label)))) == 1:
                return found.pop()
        return self.setting.pass_ or self.title_pass

    def problem(self, row: int, column: AnnotatedColumn, m_is: str = "") -> Problem | None:
        """Problem of a cell, with M counted as `m_is`, else as the table does, else per expert; None without sizes."""
        key = (row, tuple(column.fixed.items()), m_is, self.pass_of(row, column))
        if key not in self._problems:
            self._problems[key] = self._problem(row, column, m_is)
        return self._problems[key]

    def _problem(self, row: int, column: AnnotatedColumn, m_is: str) -> Problem | None:
        sizes = self.sizes(row, column)
        if not {"M", "N", "K"} <= set(sizes):
            return None
        experts = sizes.get("E", 1)
        op = self.setting.op if self.setting.op is not Op.QUANTIZE else Op.GEMM
        if experts > 1 and op is Op.GEMM:
            op = Op.MOE_GEMM if "top_k" in sizes else Op.GROUPED_GEMM
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

    def label(self, row: int, column: AnnotatedColumn | None = None) -> str:
        """Name a row for a reader: its sizes, else its first texts."""
        sizes = self.sizes(row, column)
        said = [self.quoted(row, one) for one in self.of(ColumnRole.ID)]
        if "M" in sizes or "N" in sizes:
            order = [name for name in ("B", "E", "top_k", "M", "N", "K") if name in sizes]
            said += [self.quoted(row, one) for one in self.of(ColumnRole.DEVICE)]
            return " ".join([*said, *(f"{name}={sizes[name]}" for name in order)])
        texts = [self.quoted(row, one) for one in self.of(ColumnRole.LABEL, ColumnRole.DEVICE, ColumnRole.BYTES)]
        return " ".join([*said, *texts]) or f"row {row + 1}"

    def has_m_choice(self, row: int, column: AnnotatedColumn) -> bool:
        """True where nothing says whether M counts the rows of one expert or of all."""
        return not self.m_is and self.sizes(row, column).get("E", 1) > 1 and self.setting.op is not Op.MOE_GEMM

    def one_size(self, row: int, other: int) -> bool:
        """True for two rows of the same sizes, two of them at least: batch and M alone name no shape."""
        sizes = self.sizes(row)
        return len(sizes) > 1 and not sizes.keys() <= {"B", "M"} and sizes == self.sizes(other)

    def with_m(self, m_is: str) -> "Sheet":
        """Return the sheet with a convention for M."""
        return replace(self, m_is=m_is)


_NAMED_SIZE = re.compile(r"(?<![\w=])((?:[MNKBEmnkbe]\s*=\s*)+)(\d+[kK]?)(?![\w.])")

_CUBE = re.compile(r"(?<![\w.])(\d+[kK]?)\s*(?:\^\s*3|³|\*\*\s*3)(?!\w)")

_PRODUCT = re.compile(r"(?<![\w.,x×*])(\d{1,6}[kK]?)(?:\s*[x×*]\s*\1){2}(?![\w.]|\s*[x×*])")


_TUPLE = re.compile(r"(?<![\w.,x×*])\d{1,7}[kK]?(?:\s*[,x×*]\s*\d{1,7}[kK]?){1,3}(?![\w.]|\s*[x×*])")

_LETTERED = re.compile(r"(?<![A-Za-z])[Mm](\d{1,7})[-_ ]?[Nn](\d{1,7})[-_ ]?[Kk](\d{1,7})(?!\w)")

LEAST_SIZE = 256
"""Largest size of a problem at least; products of smaller ones are tiles and instructions ("m16n8k16")."""


def tuple_in(text: str, letters: str) -> dict[str, int]:
    """Sizes of a text with one product or list, of which the header gives the letters: "qkv 10240 x 8192" and N,K."""
    found = _TUPLE.findall(text) if letters else []
    sizes = [read_size(number) for number in re.findall(r"\d+[kK]?", found[0])] if len(found) == 1 else []
    names = letters.split(",")
    named = {name: size for name, size in zip(names, sizes, strict=False) if size}
    is_whole = len(sizes) == len(names) == len(named)
    return named if is_whole and max(named.values(), default=0) >= LEAST_SIZE else {}


def sizes_in(text: str) -> dict[str, int]:
    """Sizes that a text names: "M=1, N=4096, K=4096", "M=N=K=8192", "8192^3", "8k x 8k x 8k", "m16n4096k7168"."""
    named_sizes = [(names, read_size(size)) for names, size in _NAMED_SIZE.findall(text)]
    said = [(name, size) for names, size in named_sizes for name in re.findall(r"[A-Za-z]", names)]
    small = {name for name, _ in said if name.islower()}
    if not small or {"m", "n", "k"} <= small:  # "b=4" alone may be any option
        named = {name.upper(): size for name, size in said if size}
        if named and len(named) == len(said):
            return named
    if len(lettered := _LETTERED.findall(text)) == 1 and max(map(int, lettered[0])) >= LEAST_SIZE:
        return dict(zip("MNK", map(int, lettered[0]), strict=True))
    for pattern in (_CUBE, _PRODUCT):
        if len(found := pattern.findall(text)) == 1 and (size := read_size(found[0])):
            return dict.fromkeys("MNK", size)
    return {}
