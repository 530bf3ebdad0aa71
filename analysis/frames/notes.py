"""What a reader must know of how one cell was measured, each with what to try next.

The parts of a note are joined by `; ` and contain none, so that a report can take them apart: equal ones share one
footnote. `generic` drops the numbers that only one cell has.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pandas as pd

from ...shapes.verdict import Verdict
from .telemetry import WORTH_COOLING

RESOLUTION_SHARE = 0.002
"""A timer step above this share of the time gets a note: a fifth of the 1 % that the stop rule aims at."""

MIXED = "mixed"
"""Stands for timer, cold_by or tuning of a cell whose rounds differ in it."""

_SUPERSEDED = "measured again after its source or settings changed: only the newer measurement counts"
_MIXED_CONFIG = "its configuration differs between rounds: measure it with --tuning pinned"
_UNBLOCKED = "host latency is in it, because the device waited for launches: --timer graph leaves it out"
_POWER_CAP = "the power limit held its clock down, as it may under a large GEMM: compare it at the same limit only"


def notes(summary: pd.DataFrame, reasons: Mapping[str, Iterable[str]]) -> list[str]:
    """Return one text per row of a summary that is still without its notes, "" where there is nothing to say.

    `reasons` are those of discarded samples, by cell_id. Rows need superseded, configs and what `summarize` describes.
    """
    rows = map(_Row, *(summary[name].tolist() for name in _Row._fields))
    return ["; ".join(_parts(row, reasons)) for row in rows]


def parts(note: str) -> list[str]:
    """Take a note apart, without the numbers that only one cell has."""
    return [generic(part) for part in note.split("; ") if part]


def disturbed(what: str, *named: str) -> str:
    """Say that something moved while `what` was measured: `named` causes, each told once."""
    told = ", ".join(dict.fromkeys(named))
    return f"something moved while {what} was measured ({told}): stop other work and measure again"


def causes(text: str) -> list[str]:
    """Name the causes in the text of a `disturbed` column, without the numbers that only one cell has."""
    return [_cause(cause) for cause in text.split("; ") if cause]


def _cause(cause: str) -> str:
    """Name one cause of a `disturbed` column in a word or two, alike for all cells that it concerns."""
    if cause.startswith("canary slowed down"):
        return f"canary's {' and '.join(re.findall(r'[(]([a-z]+)[)]', cause))}"
    if cause.startswith("clock from"):
        return "clock"
    if cause.startswith("other processes used"):
        return "other processes on the cores"
    if re.match(r"\d+ other process", cause):
        return "other processes on the device"
    return re.sub(r"\d[\d.]*", "some", cause.partition(" during ")[0])


def generic(part: str) -> str:
    """Drop the numbers of one cell from a part of a note."""
    if part.startswith("timer step"):
        return "the timer's step is a visible part of the time" + part.partition(" of the time")[2]
    return re.sub(r"the mean over \d+ launches", "the mean over many launches", part)


class _Row(NamedTuple):
    """What is read of a row of the summary; an unknown number is NaN, an unknown `blocked` NA."""

    cell_id: str
    superseded: bool
    configs: int
    verdict: str
    reason: str
    kernels: str
    time_s: float
    resolution_s: float
    timer: str
    cold_by: str
    tuning: str
    launches_per_sample: float
    blocked: Any
    slowdown: str
    disturbed: str


def _parts(row: _Row, reasons: Mapping[str, Iterable[str]]) -> list[str]:
    found = []
    if row.superseded:
        found.append(_SUPERSEDED)
    if row.configs > 1:
        found.append(_MIXED_CONFIG)
    if row.verdict != Verdict.PASSED:
        return found
    found += [
        f"its rounds differ in {name}: measure it again with one --{name.replace('_', '-')}"
        for name in ("timer", "cold_by", "tuning")
        if getattr(row, name) == MIXED
    ]
    lost = sorted(reasons.get(row.cell_id, ()))
    if lost:
        found.append(f"samples were discarded ({', '.join(lost)}): {_after(lost)}")
    if row.disturbed:
        found += [disturbed("it", cause) for cause in dict.fromkeys(causes(row.disturbed))]
    words = row.slowdown.split()
    hot = [word for word in words if word in WORTH_COOLING]
    if hot and not any("slowdown" in reason for reason in lost):
        found.append(f"its clock was held down ({', '.join(hot)}): {_after(['slowdown'])}")
    if "power_cap" in words:
        found.append(_POWER_CAP)
    return [*found, *_of_timer(row)]


def _of_timer(row: _Row) -> list[str]:
    """Say what a time of this timer means here."""
    found = []
    if row.launches_per_sample > 1:
        found.append(
            f"a sample is the mean over {row.launches_per_sample:.0f} launches, so single launches vary more than "
            "its interval says: --timer event shows them"
        )
    if row.reason:
        found.append(str(row.reason).replace("; ", ", "))
    elif not pd.isna(row.blocked) and not row.blocked:
        found.append(_UNBLOCKED)
    if row.resolution_s / row.time_s > RESOLUTION_SHARE:
        share = row.resolution_s / row.time_s
        way_out = ": --timer graph divides it by many launches" if row.timer == "event" else ""
        found.append(f"timer step {row.resolution_s * 1e6:.3g} us is {share:.1%} of the time{way_out}")
    return found


def _after(reasons: Iterable[str]) -> str:
    """Say what to do about discarded samples."""
    if any("slowdown" in reason for reason in reasons):
        return "let the device cool or lower its power limit, then measure again"
    if any("preempted" in reason for reason in reasons):
        return "stop other work on these cores, then measure again"
    if any("not blocked" in reason for reason in reasons):
        return "measure again while the host is quiet, or with --timer graph"
    return "measure again with --timer graph or --timer profiler"
