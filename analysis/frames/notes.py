"""What a reader must know of how a cell, or the whole run, was measured, each with what to try next."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import pandas as pd

from ...shapes.run_folder.disturbance import PREEMPTED, by_others, disturbances
from ...shapes.verdict import Verdict
from .telemetry import WORTH_COOLING

RESOLUTION_SHARE = 0.002
"""A timer step above this share of the time gets a note: a fifth of the 1 % that the stop rule aims at."""

MIXED = "mixed"
"""Value of timer, cold_by or tuning of a cell whose rounds differ in it."""

_SUPERSEDED = "measured again after its source or settings changed: only the newer measurement counts"
_MIXED_CONFIG = "its configuration differs between rounds: measure it with --set tuning=pinned"
_UNBLOCKED = "host latency is in it, because the device waited for launches: --set timer=graph leaves it out"
_POWER_CAP = "the power limit held its clock down, as it may under a large GEMM: compare it at the same limit only"


class Topic(StrEnum):
    """What a warning about the whole run is about."""

    UNFINISHED = "unfinished"
    FAILED = "failed"
    IMPOSSIBLE = "impossible"
    CALIBRATION = "calibration"
    ROOFLINE = "roofline"


class RunWarning(str):
    """A sentence about the whole run; `topic` says what it is about where a reader may know that already."""

    topic: Topic

    def __new__(cls, text: str, topic: Topic) -> "RunWarning":
        """Write a warning."""
        made = super().__new__(cls, text)
        made.topic = topic
        return made


def topic_of(warning: str) -> Topic | None:
    """Return what a warning about a run is about, None where it has no topic."""
    return warning.topic if isinstance(warning, RunWarning) else None


def add_notes(summary: pd.DataFrame, reasons: Mapping[str, Iterable[str]]) -> pd.DataFrame:
    """Add `note`, all remarks on a cell as one text, "" without any, and `remarks`, a tuple of them in shared form.

    `reasons` are those of discarded samples, by cell_id. Rows need superseded, configs and what `summarize` describes.
    """
    found = [_notes(row, reasons) for row in summary.itertuples(index=False)]
    remarks = pd.Series([tuple(shared for _, shared in notes) for notes in found], index=summary.index, dtype="object")
    return summary.assign(note=["; ".join(text for text, _ in notes) for notes in found], remarks=remarks)


def disturbed(what: str, *texts: str) -> str:
    """Say what disturbed the measurement of `what`, by texts of `disturbed` columns; each cause once."""
    names = dict.fromkeys(one.name for text in texts for one in disturbances(text))
    return f"disturbed while {what} was measured ({', '.join(names)}){remedy(*texts)}"


def remedy(*texts: str) -> str:
    """Say what to do about texts of `disturbed` columns; "" where there is nothing to stop."""
    return ": stop other work and measure again" if any(map(by_others, texts)) else ""


def _notes(row: Any, reasons: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """Remarks on a cell, each as text, and without the numbers of one cell: alike for all that it concerns."""
    alike = [(text, text) for text in _alike(row, reasons)]
    return [*alike, *_of_timer(row)] if row.verdict == Verdict.PASSED else alike


def _alike(row: Any, reasons: Mapping[str, Iterable[str]]) -> list[str]:
    """Remarks that have no number of the cell."""
    found = []
    if row.superseded:
        found.append(_SUPERSEDED)
    if row.configs > 1:
        found.append(_MIXED_CONFIG)
    if row.verdict != Verdict.PASSED:
        return found
    found += [
        f"its rounds differ in {name}: measure it again with one {name}"
        for name in ("timer", "cold_by", "tuning")
        if getattr(row, name) == MIXED
    ]
    lost = sorted(reasons.get(row.cell_id, ()))
    if lost:
        found.append(f"samples were discarded ({', '.join(lost)}): {_after(lost)}")
    if row.disturbed:
        found += dict.fromkeys(disturbed("it", cause) for cause in row.disturbed.split("; "))
    words = row.slowdown.split()
    hot = [word for word in words if word in WORTH_COOLING]
    if hot and not any("slowdown" in reason for reason in lost):
        found.append(f"its clock was held down ({', '.join(hot)}): {_after(['slowdown'])}")
    if "power_cap" in words:
        found.append(_POWER_CAP)
    return found


def _of_timer(row: Any) -> Iterator[tuple[str, str]]:
    """Say what a time of this timer means here."""
    if row.launches_per_sample > 1:
        mean = "a sample is the mean over {} launches, so single launches vary more than its interval says: "
        event = "--set timer=event shows them"
        yield mean.format(f"{row.launches_per_sample:.0f}") + event, mean.format("many") + event
    if remark := row.reason.replace("; ", ", ") or ("" if pd.isna(row.blocked) or row.blocked else _UNBLOCKED):
        yield remark, remark
    if row.resolution_s / row.time_s > RESOLUTION_SHARE:
        share = row.resolution_s / row.time_s
        way_out = ": --set timer=graph divides it by many launches" if row.timer == "event" else ""
        text = f"timer step {row.resolution_s * 1e6:.3g} us is {share:.1%} of the time{way_out}"
        yield text, f"the timer's step is a visible part of the time{way_out}"


def _after(reasons: Iterable[str]) -> str:
    """Say what to do about discarded samples."""
    if any("slowdown" in reason for reason in reasons):
        return "let the device cool or lower its power limit, then measure again"
    if all(reason == PREEMPTED for reason in reasons):
        return "the others count"
    if any("not blocked" in reason for reason in reasons):
        return "measure again while the host is quiet, or with --set timer=graph"
    return "measure again with --set timer=graph or timer=profiler"
