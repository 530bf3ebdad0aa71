"""Any table with one case per row, by a map of its columns; or without one where names say enough.

Keys of the map: the sizes M, N, K, B, E and top_k; op, pass, dtype, scheme, cache, device, model, layer and provider;
verdict; one of time_s, time_ms, time_us, time_ns and tflops. What is not mapped is taken from a column with such a name
(`words.SIZES`) and such cells, if there is one, and is neutral otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from ...shapes.errors import UsageError, quote, unknown_name
from ...shapes.problem import SIZES, Op, Pass
from ...shapes.verdict import Verdict
from .columns import TEXTS, ColumnRole
from .entries import Imported, ImportedCase, case_of, failed, imported
from .printed import SECONDS, read_printed
from .recognition import read_column
from .table import FAILURES, RIGHT, WRONG, ImportedTable, Reader, TimeCell
from .words import is_secondary, is_time, size_named, unit_of

SOURCE = "table"

TIMES = {f"time_{unit}": unit for unit in SECONDS}

NAMES = (*TEXTS, "dtype", "device")

KEYS = (*SIZES, *NAMES, "tflops", *TIMES)

_WORDS = {
    **dict.fromkeys(RIGHT, Verdict.PASSED),
    **dict.fromkeys(WRONG, Verdict.INCORRECT),
    **{word: verdict for word, (verdict, _) in FAILURES.items() if word not in ("", "fail")},
    **{str(verdict): verdict for verdict in Verdict},
}


_FIELDS = ("provider", "model", "layer", "dtype", "scheme", "cache", "device")
"""Keys of texts that a case has as they are."""

_KNOWN: dict[str, tuple[str, ...]] = {"op": tuple(Op), "pass": tuple(Pass)}


def matches(table: ImportedTable) -> bool:
    """A table is tidy when it names M, N and K; whether its time is clear is found out by reading."""
    names = {name.lower() for name in table.header}
    return bool(table.source) or {"m", "n", "k"} <= names


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """One case per row. Raises UsageError that shows how to map a time that is missing, ambiguous or without unit."""
    for key, name in columns.items():
        if key not in KEYS:
            raise unknown_name("role of --column in a comparison", key, list(KEYS))
        if name not in table:
            raise UsageError(f"{table.where} line 1: {unknown_name('column', name, list(table.header))}")
    names = _found(table) | dict(columns)
    timed, unit_s = _time(table, names)
    if twice := next((name for name in (*names.values(), timed) if table.header.count(name) > 1), ""):
        raise UsageError(f"{table.where} line 1: several columns are called {twice}; rename the others in the file")
    unused = [
        name for name in table.header if name not in {*names.values(), timed, *table.wrong(columns.values()).values()}
    ]
    notes = (f"{table.where}: columns that were not used: {', '.join(unused)}",) if unused else ()
    found = imported(SOURCE, table, {timed: unit_s}, partial(_case, table, names), notes, named=columns.values())
    return replace(found, rounding={timed: f"{found.rounding[timed]} of TFLOPS"}) if "tflops" in names else found


def _found(table: ImportedTable) -> dict[str, str]:
    """Columns that have the name of a key, whatever their case, and cells that fit."""
    keys = {key.lower(): key for key in (*SIZES, *NAMES)}
    found: dict[str, str] = {}
    named = [(keys.get(name.lower()), name) for name in table.header]  # which win over other words for a size
    for key, name in [*named, *((size_named(name), name) for name in table.header)]:
        if key and key not in found and _fits(key, table.texts(name)):
            found[key] = name
    return found


def _fits(key: str, texts: list[str]) -> bool:
    """True for a size with numbers, whole ones where it is no usual size, and for an op or pass that is known."""
    if key in _KNOWN:
        return any(text in _KNOWN[key] for text in texts)
    cells = list(filter(None, map(read_printed, texts)))
    return key not in SIZES or (bool(cells) and (key in ("M", "N", "K") or all(cell.value % 1 == 0 for cell in cells)))


def _time(table: ImportedTable, names: dict[str, str]) -> tuple[str, str]:
    """Column of the time, or of a rate, and the seconds of one of its unit as exact text, of a rate "1"."""
    given = [key for key in names if key in TIMES or key == "tflops"]
    if len(given) > 1:
        raise UsageError(f"--column: {' and '.join(given)} name a time twice; keep one")
    if given == ["tflops"]:
        return names["tflops"], "1"
    if given:
        name, unit = names[given[0]], TIMES[given[0]]
        if (said := unit_of(name)) not in (None, unit):
            raise UsageError(
                f"--column {given[0]}: the header {quote(name)} of {table.where} says {said}; write time_{said}, or "
                "correct the header"
            )
    else:
        name, unit = _only_time(table)
    return name, SECONDS[unit]


def _only_time(table: ImportedTable) -> tuple[str, str]:
    columns = [read_column(at, name, table.texts(name)) for at, name in enumerate(table.header)]
    by_cells = {table.header[one.index] for one in columns if one.role is ColumnRole.TIME}
    without_unit = {name for name in table.header if is_time(name) and not is_secondary(name)}
    times = [name for name in dict.fromkeys(table.header) if name in by_cells | without_unit]
    if len(times) == 1 and (unit := unit_of(times[0])):
        return times[0], unit
    if len(times) == 1 and times[0] in by_cells:  # the cells have units
        return times[0], "s"
    if len(times) == 1:
        raise UsageError(
            f"{table.where} line 1, column {times[0]}: its unit is unknown; say it: --column time_ms='{times[0]}'"
        )
    if times:
        unit = unit_of(times[0]) or "ms"
        raise UsageError(
            f"{table.where} line 1: several columns may be the time ({', '.join(times)}); choose one: "
            f"--column time_{unit}='{times[0]}'"
        )
    rates = [table.header[one.index] for one in columns if one.role is ColumnRole.RATE and one.unit == 1e12]
    raise UsageError(
        f"{table.where} line 1: no column is a time by its name ({', '.join(table.header)}); name one: "
        "--column " + (f"tflops='{rates[0]}'" if len(rates) == 1 else "time_ms=COLUMN")
    )


def _case(table: ImportedTable, names: dict[str, str], row: int, column: str, reading: Reader) -> ImportedCase:
    stated = {key: text for key, name in names.items() if (text := table.text(row, name))}
    # Results in JSON may have different sizes.
    sizes = {key: table.size(row, names[key]) for key in SIZES if key in (stated if table.source else names)}
    for key, known in (*_KNOWN.items(), ("verdict", _WORDS)):
        if key in stated and stated[key].lower() not in known:
            table.fail(row, names[key], f"{quote(stated[key])} is none of {', '.join(known)}")
    cell = reading(row)
    if (word := stated.get("verdict", "")) and (verdict := _WORDS[word.lower()]) is not Verdict.PASSED:
        cell = failed(cell, verdict, f"{word} in the file")
    op, pass_ = Op(stated["op"].lower()) if "op" in stated else None, Pass(stated.get("pass", Pass.FWD).lower())
    texts = {name: stated[name] for name in _FIELDS if name in stated}
    case = case_of(table, row, names.get("M", table.header[0]), cell, sizes, op, pass_, **texts)
    return replace(case, reading=_of_rate(table, row, names["tflops"], case)) if "tflops" in names else case


def _of_rate(table: ImportedTable, row: int, name: str, case: ImportedCase) -> TimeCell:
    """Time from a rate in TFLOPS of the useful FLOPs; a step of the rate is a step of the time."""
    rate = case.reading
    if rate.verdict is not Verdict.PASSED:
        return rate
    if math.isnan(case.flops):
        table.fail(row, name, "it takes M, N and K, and no quantization, to turn a rate into a time")
    time = case.flops / (rate.time_s * 1e12)
    return TimeCell(Verdict.PASSED, "", time, time * rate.resolution_s / rate.time_s)
