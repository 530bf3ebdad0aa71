"""From changes of level to proposals: between which runs, by how much, and what speaks for the code as the cause."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..comparison.decide import margins
from ..statistics.change_points import Change
from ..statistics.intervals import Floats
from .run_story import RunMark


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of level that a paired comparison is to decide. Runs are positions in `History.runs`.

    series            position in `History.series`
    before, after     last run of the old level, first run of the new one
    earliest, latest  the change lies between these two with 95 % confidence
    change, low, high as shares of the time (above 0: slower), with the 95 % interval
    raw_change        the same change in the times as measured
    q                 false-discovery rate
    remarks           what speaks for or against the code as its cause
    """

    series: int
    before: int
    after: int
    earliest: int
    latest: int
    change: float
    low: float
    high: float
    raw_change: float
    q: float
    remarks: tuple[str, ...]


def propose(
    number: int, points: pd.DataFrame, changes: Sequence[Change], runs: Sequence[RunMark]
) -> Iterator[Proposal]:
    """Yield a proposal per change of series `number`; `points` are its rows of `History.points`."""
    raw, where = np.log(points["time_s"].to_numpy(dtype=np.float64)), points["run"].tolist()
    ends = [0, *(change.at for change in changes), len(points)]
    margin = float(margins(np.exp(raw[:1]))[0])
    for index, change in enumerate(changes):
        as_measured = _step(raw, ends[index], change.at, ends[index + 2])
        before, after = (points.iloc[position].to_dict() for position in (change.at - 1, change.at))
        remarks = list(_code_remarks(before, after))
        if abs(as_measured) < margin:
            remarks.append("not in the times as measured: the canary moved, this cell did not")
        if runs[where[change.at - 1]].uuid != runs[where[change.at]].uuid:
            remarks.append("another device of this model")
        yield Proposal(
            series=number,
            before=where[change.at - 1],
            after=where[change.at],
            earliest=where[change.first - 1],
            latest=where[change.last],
            change=math.expm1(change.effect),
            low=math.expm1(change.low),
            high=math.expm1(change.high),
            raw_change=math.expm1(as_measured),
            q=change.q,
            remarks=tuple(remarks),
        )


def _step(values: Floats, begin: int, at: int, end: int) -> float:
    """Difference of the medians: an odd run is not drawn in here."""
    return float(np.median(values[at:end]) - np.median(values[begin:at]))


def _code_remarks(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[str]:
    if before["config"] != after["config"]:
        yield "another configuration"
    if before["dispatched"] != after["dispatched"]:
        yield "another kernel dispatched"
    if before["source"] == after["source"]:
        yield "same source on both sides"
    elif before["artifact"] and before["artifact"] == after["artifact"]:
        yield "same compiled code on both sides"
    if after["disturbed"] and not before["disturbed"]:
        yield f"disturbed after it: {after['disturbed']}"
