"""Columns of cells.csv that say how a launch divides its work: as its provider states it, and as its binary shows."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ...kernels.geometry import Binary, Geometry
from ...kernels.provider import Launch
from ...shapes.plugins import Hook, joining
from ...shapes.run_folder.columns import GEOMETRY, ColumnType
from ..isolation.faults import ProviderError

_SCHEDULED = ("schedule_clocks", "memory_waits", "pipe_clocks", "pipe")

_OTHER = ("other_clocks", "other_waits")

_MAY_BE_NONE = ("decode_integer_per_weight", "memory_waits", *_OTHER)
"""Of a share of the instructions, 0 is a figure."""


def geometry_columns(launch: Launch, units: int) -> dict[str, Any]:
    """Return the columns, unknown ones as None, for a device of `units` SMs, CUs or WGPs.

    Raises ProviderError for what is not a Geometry of positive numbers.
    """
    geometry = launch.geometry
    if geometry is None:
        return {column.name: None for column in GEOMETRY}
    if not isinstance(geometry, Geometry):
        raise ProviderError(f"Launch.geometry is a {type(geometry).__name__}: a rooflens.kernels.geometry.Geometry")
    stated = {field.name: getattr(geometry, field.name) for field in fields(geometry)}
    stated |= dict.fromkeys(_SCHEDULED) | dict(zip(_OTHER, _others(geometry.others, units), strict=True))
    if isinstance(geometry.binary, Binary) and (found := _facts(geometry.binary)):
        stated["resident"] = stated["resident"] or found.resident
        if stated["decode_per_weight"] is None:  # the share of integer instructions is of the same count
            stated["decode_per_weight"] = found.decoding.per_weight
            stated["decode_integer_per_weight"] = found.decoding.integer_per_weight
        if work := found.schedule and found.schedule.of_launch(geometry.iterations):
            pipe = max(work.pipes, key=work.pipes.__getitem__)
            stated |= dict(zip(_SCHEDULED, (work.clocks, work.waits, work.pipes[pipe], pipe), strict=True))
    return {column.name: _value(column.name, column.kind, stated[column.name]) for column in GEOMETRY}


def _facts(binary: Binary | None) -> Any:
    """Return what the plugin that reads code says of a binary; None without it."""
    return next((facts(binary) for facts in joining(Hook.LAUNCH)), None) if binary else None


def _others(kernels: Sequence[Geometry], units: int) -> tuple[float | None, float | None]:
    """Clocks, and answers of memory, for which a unit runs workgroups of `kernels`, as many at once as it holds."""
    found = []
    for one in kernels:
        if one.clocks:
            found.append((one.clocks / units, 0.0))
        elif one.workgroups and (of_one := _facts(one.binary)):
            turns = math.ceil(math.ceil(one.workgroups / units) / (of_one.resident or 1))
            if work := of_one.schedule and of_one.schedule.of_launch(one.iterations):
                found.append((turns * work.clocks, turns * work.waits))
    return (sum(one[0] for one in found), sum(one[1] for one in found)) if found else (None, None)


def _value(name: str, kind: ColumnType, value: Any) -> int | float | str | None:
    """Return a figure as it can be stored."""
    if value is None:
        return None
    if kind is ColumnType.TEXT:
        return str(value)
    whole = kind is ColumnType.INT
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value < 1 << 63
        or (value == 0 and name not in _MAY_BE_NONE)
    ):
        raise ProviderError(f"geometry.{name} is {value!r}: a positive number is expected, or None")
    if whole and value != int(value):
        raise ProviderError(f"geometry.{name} is {value!r}: a whole number is expected, or None")
    return int(value) if whole else float(value)
