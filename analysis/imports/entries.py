"""One imported row per case: what every source is brought to, with neutral values for what it does not say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...shapes.errors import UsageError
from ...shapes.problem import SIZES, Op, Pass, Problem
from ...shapes.verdict import Verdict
from ..frames.coordinates import CASE, DETAILS
from .table import TimeCell

UNKNOWN = "unknown"
"""What a source does not say; the same on both sides, so that rows of one tool align."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCase:
    """One case of a file, with the place it comes from; sizes as in `shapes.problem`, flops NaN where unknown."""

    place: str
    reading: TimeCell
    provider: str
    model: str = "any"
    layer: str = "gemm"
    op: str = Op.GEMM
    pass_: str = Pass.FWD
    M: int = 1
    N: int = 1
    K: int = 1
    B: int = 1
    E: int = 1
    top_k: int = 1
    dtype: str = UNKNOWN
    scheme: str = UNKNOWN
    cache: str = UNKNOWN
    flops: float = math.nan
    config: str = ""
    kernels: str = ""
    note: str = ""

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        place: str,
        reading: TimeCell,
        provider: str,
        flops: float | None = None,
        **stated: Any,
    ) -> "ImportedCase":
        """Make the entry of a problem: operation, pass and sizes are its own, and so are the FLOPs unless given.

        `stated` holds the other fields of the source.
        """
        sizes = {name: getattr(problem, name) for name in SIZES}
        return cls(
            place=place,
            reading=reading,
            provider=provider,
            op=problem.op,
            pass_=problem.pass_,
            flops=useful_flops(problem) if flops is None else flops,
            **sizes,
            **stated,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """A table that another tool wrote.

    source    what it was recognised as
    frame     one row per case, in file order: CASE, verdict, reason, time_s (NaN unless passed), resolution_s (step
              that the time was rounded to; 0: not rounded), flops, DETAILS
    rounding  per column of times, how its numbers were rounded ("2 decimals")
    device    where it was measured, "" when the file does not say
    notes     what a reader must know; one line each, headed by the file, or by the source for what is so of all
    """

    source: str
    frame: pd.DataFrame
    rounding: dict[str, str]
    device: str = ""
    notes: tuple[str, ...] = ()


def frame_of(entries: Sequence[ImportedCase], where: str) -> pd.DataFrame:
    """Put entries into the frame of `Imported`. Raises UsageError when two of them are one case."""
    seen: dict[tuple[object, ...], str] = {}
    for entry in entries:
        key = tuple(_value(entry, name) for name in CASE)
        if key in seen:
            which = ", ".join(f"{name} {_value(entry, name)}" for name in ("M", "N", "K", "pass", "provider"))
            raise UsageError(
                f"{where} {entry.place}: the same case as {seen[key]} ({which}); delete one, or distinguish them by a "
                "further column: --columns provider=COLUMN, or layer=COLUMN"
            )
        seen[key] = entry.place
    columns: dict[str, list[object]] = {name: [_value(entry, name) for entry in entries] for name in CASE}
    for name in ("verdict", "reason", "time_s", "resolution_s"):
        columns[name] = [getattr(entry.reading, name) for entry in entries]
    columns["verdict"] = [str(entry.reading.verdict) for entry in entries]
    columns["flops"] = [entry.flops for entry in entries]
    for name in DETAILS:
        columns[name] = [getattr(entry, name, "") for entry in entries]
    return pd.DataFrame(columns)


def useful_flops(problem: Problem) -> float:
    """FLOPs of a problem as a stored column has them; NaN where there are none to count."""
    return float(problem.flops) or math.nan


def failed(reading: TimeCell, verdict: Verdict, reason: str) -> TimeCell:
    """Turn a reading into a failure: its time is of a computation that does not count."""
    return TimeCell(verdict, reason, math.nan, reading.resolution_s)


def _value(entry: ImportedCase, name: str) -> object:
    value = getattr(entry, "pass_" if name == "pass" else name)
    return str(value) if isinstance(value, str) else value
