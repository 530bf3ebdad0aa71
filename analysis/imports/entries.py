"""One imported row per case: what every source is brought to, with neutral values for what it does not say."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ...shapes.errors import UsageError
from ...shapes.problem import SIZES, Problem
from ...shapes.verdict import Verdict
from ..frames.coordinates import CASE, DETAILS
from .table import ImportedTable, RowError, TimeCell

UNKNOWN = "unknown"
"""What a source does not say; the same on both sides, so that rows of one tool align."""


PROBLEM = (*SIZES, "op", "pass")
"""Columns of CASE that are of the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCase:
    """One case of a file; `flops` where they are not those of the problem, or NaN. `imported` adds its `place`."""

    place: str = ""
    reading: TimeCell
    provider: str
    problem: Problem
    model: str = "any"
    layer: str = "gemm"
    dtype: str = UNKNOWN
    scheme: str = UNKNOWN
    cache: str = UNKNOWN
    device: str = ""
    flops: float | None = None
    config: str = ""
    kernels: str = ""
    note: str = ""

    def coordinate(self, name: str) -> object:
        """Value of a column of CASE."""
        value = getattr(self.problem if name in PROBLEM else self, "pass_" if name == "pass" else name)
        return str(value) if isinstance(value, str) else value


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
    cases: Callable[[int], Iterable[ImportedCase]],
    timed: Iterable[str],
    notes: Iterable[str] = (),
    rows: Iterable[int] | None = None,
    named: Collection[str] = (),
) -> Imported:
    """Bring the rows of a table into its frame, and say which were skipped and why; `timed` are its columns of times.

    `named` columns have a role that a user gave them.

    Raises UsageError where every row is to be skipped.
    """
    entries: list[ImportedCase] = []
    skipped: list[RowError] = []
    wrong = table.wrong(named)
    for row in range(len(table)) if rows is None else rows:
        try:
            entries += [_checked(case, table.place(row), wrong.get(row, "")) for case in cases(row)]
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
    frame = frame_of(entries, table.where)
    return Imported(table.source or source, frame, rounding, device, (*table.notes, *notes))


def frame_of(entries: Sequence[ImportedCase], where: str) -> pd.DataFrame:
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
    columns["flops"] = [useful_flops(entry.problem) if entry.flops is None else entry.flops for entry in entries]
    for name in ("device", *DETAILS):
        columns[name] = [getattr(entry, name, "") for entry in entries]
    return pd.DataFrame(columns)


def useful_flops(problem: Problem) -> float:
    """FLOPs of a problem as a stored column has them; NaN where there are none to count."""
    return float(problem.flops) or math.nan


def _checked(case: ImportedCase, place: str, wrong: str) -> ImportedCase:
    """Add the place of a case; turn one that has a time into a failure if a column says that its output was wrong."""
    if not wrong or case.reading.verdict is not Verdict.PASSED:
        return replace(case, place=place)
    reading = failed(case.reading, Verdict.INCORRECT, f"wrong output: {wrong}")
    return replace(case, place=place, reading=reading)


def failed(reading: TimeCell, verdict: Verdict, reason: str) -> TimeCell:
    """Turn a reading into a failure: its time is of a computation that does not count."""
    return TimeCell(verdict, reason, math.nan, reading.resolution_s)
