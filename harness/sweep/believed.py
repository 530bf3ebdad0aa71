"""Which messages of a worker are believed: it shares its process, and its pipe, with code of other people."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ...shapes.errors import quote
from ...shapes.files.record import LARGEST
from ...shapes.protocol import Protocol
from ...shapes.run_folder.columns import CANARY, CEILINGS, CELLS, TUNING, ColumnSchema, ColumnType, TableSchema
from ...shapes.verdict import Verdict
from ..plan.plan import Task, static_columns
from ..worker.messages import (
    CANARY_PHASE,
    Begin,
    Calibrate,
    Calibrated,
    CanaryTaken,
    Done,
    SearchResult,
    TakeCanary,
    UnitResult,
)

_OF_PARENT = ("cell_id", "round", "search", "process", "source", "seed", "arch", "compute_units")
"""Columns of results that the parent knows, with those of the cell."""


def wrong_with(message: Any, task: Task, doing: Begin, protocol: Protocol) -> str:
    """Return why a message cannot be true of a worker that is `doing` this for `task`; "" where it can."""
    if isinstance(message, Done):
        return ""
    if isinstance(message, Begin):
        is_known = all(0 <= index < len(task.cells) for index, _ in message.units)
        has_one = message.candidate is None or len(message.units) == 1
        return "" if is_known and has_one else f"it begins {quote(message.units)}"
    if isinstance(message, CanaryTaken) and doing.phase == CANARY_PHASE:
        return wrong_answer(message, TakeCanary())
    if not isinstance(message, UnitResult | SearchResult):
        return f"{type(message).__name__} is no answer to this"
    begun = {task.cells[index].provider for index, _ in doing.units}
    if not 0 <= message.index < len(task.cells) or task.cells[message.index].provider not in begun:
        return f"a result of cell {message.index}"
    known = {*_OF_PARENT, *static_columns(task.cells[message.index])}
    if isinstance(message, UnitResult):
        return _wrong(CELLS, [message.columns], known, ("verdict",)) or wrong_times(message, protocol)
    if any(row.get("candidates") != len(message.rows) for row in message.rows) or not message.rows:
        return "a search without all its candidates"
    return _wrong(TUNING, message.rows, known)


def wrong_answer(message: Any, asked: Calibrate | TakeCanary) -> str:
    """Return why a message cannot be the answer to what was asked; "" where it can."""
    if isinstance(message, CanaryTaken) and isinstance(asked, TakeCanary):
        return _wrong(CANARY, message.rows, ("process",))
    if isinstance(message, Calibrated) and isinstance(asked, Calibrate):
        return _wrong(CEILINGS, message.rows)
    return f"{type(message).__name__} is no answer to this"


def _wrong(
    table: TableSchema,
    rows: Iterable[Mapping[str, Any]],
    of_parent: Collection[str] = (),
    required: Collection[str] | None = None,
) -> str:
    of_child = {column.name: column for column in table.columns if column.name not in of_parent}
    if required is None:
        required = [name for name, column in of_child.items() if column.required]
    for row in rows:
        fits = {
            name: name in of_child and (value is None or _fits(of_child[name], value)) for name, value in row.items()
        }
        fits |= {name: False for name in required if row.get(name) is None}
        if wrong := [name for name, fit in fits.items() if not fit]:
            return f"column {quote(wrong[0])}"
    return ""


def _fits(column: ColumnSchema, value: Any) -> bool:
    if column.name == "verdict":
        return value in list(Verdict)
    if column.kind is ColumnType.JSON:
        return isinstance(value, dict if column.name == "config" else list)
    if column.kind in (ColumnType.TEXT, ColumnType.BOOL):
        return isinstance(value, str if column.kind is ColumnType.TEXT else bool)
    if isinstance(value, int):
        return not isinstance(value, bool) and 0 <= value < LARGEST
    if column.kind is ColumnType.INT or not isinstance(value, float):
        return False
    is_free = column.unit != "s" and not column.required
    return is_free or math.isnan(value) or 0 <= value < math.inf


def wrong_times(result: UnitResult, protocol: Protocol) -> str:
    """Return why times cannot be a worker's: they exist where the verdict is passed, within its limits."""
    samples, verdict, count = result.samples, result.columns["verdict"], len(result.samples.times_s)
    if (verdict == Verdict.PASSED) is not bool(count) or result.columns.get("samples", 0) != count:
        return f"{verdict} with {count} times"
    of_each = samples.discarded, samples.event_s, samples.kernels_s
    if any(len(one) not in (0, count) for one in of_each) or len(samples.host_s) > count:
        return "lists of other lengths than the times"
    if any(not 0 <= first < count for first, _ in samples.readings):
        return "readings of samples that it does not have"
    every = (*samples.times_s, *samples.host_s, *samples.event_s, *samples.kernels_s)
    most_s = max(protocol.timeout_s, protocol.build_timeout_s)
    if not all(map(math.isfinite, every)) or not all(0 < time_s <= most_s for time_s in samples.counting):
        return "impossible times"
    return ""
