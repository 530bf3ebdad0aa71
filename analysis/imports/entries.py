"""One imported row per case: what every source is brought to, with neutral values for what it does not say."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ...shapes.errors import UsageError
from ...shapes.problem import SIZES, Op, Pass, Problem
from ...shapes.verdict import Verdict
from ..frames.coordinates import CASE, DETAILS
from .table import ImportedTable, Reader, RowError, TimeCell

UNKNOWN = "unknown"
"""What a source does not say; the same on both sides, so that rows of one tool align."""


PROBLEM = (*SIZES, "op", "pass")
"""Columns of CASE that are of the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCase:
    """One case of a file, as `case_of` builds it; `flops` NaN where they do not count. `imported` adds its `place`."""

    place: str = ""
    reading: TimeCell
    problem: Problem
    flops: float
    provider: str = "imported"
    model: str = "any"
    layer: str = ""
    dtype: str = UNKNOWN
    scheme: str = UNKNOWN
    cache: str = UNKNOWN
    device: str = ""
    config: str = ""
    kernels: str = ""
    note: str = ""

    def coordinate(self, name: str) -> object:
        """Value of a column of CASE."""
        value = getattr(self.problem if name in PROBLEM else self, "pass_" if name == "pass" else name)
        return str(value) if isinstance(value, str) else value


def case_of(
    table: ImportedTable,
    row: int,
    column: str,
    reading: TimeCell,
    sizes: Mapping[str, int],
    op: Op | None = None,
    pass_: Pass = Pass.FWD,
    products: int = 1,
    /,
    **texts: str,
) -> ImportedCase:
    """Build the case of a row; empty `texts` (fields of `ImportedCase`) are as if they were not given.

    M, N or K that is not among `sizes` stands as 1, and FLOPs do not count then. Without an `op`, experts say which it
    is. The call computes `products` times the FLOPs of the problem.

    Raises RowError that names the `column` where there is no such problem.
    """
    experts = Op.MOE_GEMM if "top_k" in sizes else Op.GROUPED_GEMM
    try:
        problem = Problem(
            **{"M": 1, "N": 1, "K": 1, **sizes},
            op=op or (experts if sizes.get("E", 1) > 1 else Op.GEMM),
            pass_=pass_,
        )
    except UsageError as error:
        table.fail(row, column, str(error))
    is_whole = {"M", "N", "K"} <= sizes.keys()
    flops = float(problem.flops) * products if is_whole and problem.flops else math.nan
    stated = {"layer": "gemm" * is_whole} | {name: text for name, text in texts.items() if text}
    return ImportedCase(problem=problem, reading=reading, flops=flops, **stated)


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """A table that another tool wrote.

    source    what it was recognised as
    frame     one row per case, in file order: CASE, verdict, reason, time_s (NaN unless passed), resolution_s (step
              that the time was rounded to; 0: not rounded), flops, device, DETAILS
    rounding  per column of times, how its numbers were rounded ("2 decimals")
    device    where it was measured, "" when the file does not say
    notes     what a reader must know; one line each, headed by the file, or by the source for what is so of all
    """

    source: str
    frame: pd.DataFrame
    rounding: dict[str, str]
    device: str = ""
    notes: tuple[str, ...] = ()


NAMED_ROWS = 3
"""Rows that a note on skipped ones names."""


def imported(
    source: str,
    table: ImportedTable,
    timed: Mapping[str, str],
    case: Callable[[int, str, Reader], ImportedCase],
    notes: Iterable[str] = (),
    rows: Iterable[int] | None = None,
    named: Collection[str] = (),
    free_text: bool = False,
) -> Imported:
    """Bring the rows of a table into its frame, and say which were skipped and why.

    `timed` are its columns of times with their units, read with `free_text` as `ImportedTable.reader` says. Each
    is a `case` of a row, made from the row, the column and what reads it. `named` columns have a role from a user.

    Raises UsageError where every row is to be skipped.
    """
    entries: list[ImportedCase] = []
    skipped: list[RowError] = []
    wrong = table.wrong(named)
    readers = {column: table.reader(column, unit_s, free_text) for column, unit_s in timed.items()}
    for row in range(len(table)) if rows is None else rows:
        try:
            cases = [case(row, column, reading) for column, reading in readers.items()]
            entries += [_checked(one, table.place(row), wrong.get(row, "")) for one in cases]
        except RowError as error:
            skipped.append(error)
    if skipped and not entries:
        raise skipped[0]
    if skipped:
        named = "; ".join(str(error).removeprefix(f"{table.where} ") for error in skipped[:NAMED_ROWS])
        more = f"; and {len(skipped) - NAMED_ROWS} more" if len(skipped) > NAMED_ROWS else ""
        notes = [*notes, f"{table.where}: {len(skipped)} of {len(table)} rows skipped: {named}{more}"]
    rounding = {name: str(table.rounding(name)) for name in timed}
    device = ", ".join(dict.fromkeys(entry.device for entry in entries if entry.device))
    frame = _frame(entries, table.where)
    return Imported(table.source or source, frame, rounding, device, (*table.notes, *notes))


def _frame(entries: Sequence[ImportedCase], where: str) -> pd.DataFrame:
    """Put entries into the frame of `Imported`. Raises UsageError when two of them are one case."""
    seen: dict[tuple[object, ...], str] = {}
    for entry in entries:
        key = (*(entry.coordinate(name) for name in CASE), entry.device)
        if key in seen:
            which = ", ".join(f"{name} {entry.coordinate(name)}" for name in ("M", "N", "K", "pass", "provider"))
            raise UsageError(
                f"{where} {entry.place}: the same case as {seen[key]} ({which}); delete one, or distinguish them by a "
                "further column: --column provider=COLUMN, or layer=COLUMN"
            )
        seen[key] = entry.place
    columns: dict[str, list[object]] = {name: [entry.coordinate(name) for entry in entries] for name in CASE}
    for name in ("verdict", "reason", "time_s", "resolution_s"):
        columns[name] = [getattr(entry.reading, name) for entry in entries]
    columns["verdict"] = [str(entry.reading.verdict) for entry in entries]
    for name in ("flops", "device", *DETAILS):
        columns[name] = [getattr(entry, name, "") for entry in entries]
    return pd.DataFrame(columns)


def _checked(case: ImportedCase, place: str, wrong: str) -> ImportedCase:
    """Add the place of a case; turn one that has a time into a failure if a column says that its output was wrong."""
    if not wrong or case.reading.verdict is not Verdict.PASSED:
        return replace(case, place=place)
    reading = failed(case.reading, Verdict.INCORRECT, f"wrong output: {wrong}")
    return replace(case, place=place, reading=reading)


def failed(reading: TimeCell, verdict: Verdict, reason: str) -> TimeCell:
    """Turn a reading into a failure: its time is of a computation that does not count."""
    return TimeCell(verdict, reason, math.nan, reading.resolution_s)
