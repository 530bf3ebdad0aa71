"""Any table with one case per row, by a map of its columns; or without one where names say enough.

Keys of the map: the sizes M, N, K, B, E and top_k; op, pass, dtype, scheme, cache, model, layer and provider; verdict;
one of time_s, time_ms, time_us, time_ns and tflops. What is not mapped is taken from a column of that name, if there is
one, and is neutral otherwise.
"""

import math
from collections.abc import Mapping
from decimal import Decimal

from ...shapes.errors import UsageError, quote, unknown_name
from ...shapes.problem import SIZES, Op, Pass, Problem
from ...shapes.verdict import Verdict
from .entries import UNKNOWN, Imported, ImportedCase, failed, frame_of, useful_flops
from .table import FAILURES, ImportedTable, TimeCell
from .units import SECONDS, is_time, unit_of

SOURCE = "table"

TIMES = {f"time_{unit}": unit for unit in SECONDS}

TEXTS = ("op", "pass", "dtype", "scheme", "cache", "model", "layer", "provider")

KEYS = (*SIZES, *TEXTS, "verdict", "tflops", *TIMES)

_WORDS = {
    **dict.fromkeys(("pass", "passed", "ok", "true", "1", "yes"), Verdict.PASSED),
    **dict.fromkeys(("fail", "failed", "false", "0", "no"), Verdict.INCORRECT),
    **{word: verdict for word, (verdict, _) in FAILURES.items() if word not in ("", "fail")},
    **{str(verdict): verdict for verdict in Verdict},
}


def matches(table: ImportedTable) -> bool:
    """A table is tidy when it names M, N and K; whether its time is clear is found out by reading."""
    names = {name.lower() for name in table.header}
    return {"m", "n", "k"} <= names


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """One case per row. Raises UsageError that shows how to map a time that is missing, ambiguous or without unit."""
    for key, name in columns.items():
        if key not in KEYS:
            raise unknown_name("key of --columns", key, list(KEYS))
        if name not in table:
            raise UsageError(f"{table.where} line 1: {unknown_name('column', name, list(table.header))}")
    names = _found(table) | dict(columns)
    readings, rounding, timed = _times(table, names)
    entries = [_entry(table, row, reading, names) for row, reading in enumerate(readings)]
    unused = [name for name in table.header if name not in {*names.values(), timed}]
    notes = (f"{table.where}: columns that were not used: {', '.join(unused)}",) if unused else ()
    return Imported(SOURCE, frame_of(entries, table.where), {timed: rounding}, "", notes)


def _found(table: ImportedTable) -> dict[str, str]:
    """Columns that have the name of a key, whatever their case."""
    keys = {key.lower(): key for key in (*SIZES, *TEXTS, "verdict")}
    return {keys[name.lower()]: name for name in reversed(table.header) if name.lower() in keys}


def _times(table: ImportedTable, names: dict[str, str]) -> tuple[list[TimeCell], str, str]:
    """Readings of all rows, how they were rounded, and the column."""
    given = [key for key in names if key in TIMES or key == "tflops"]
    if len(given) > 1:
        raise UsageError(f"--columns: {' and '.join(given)} name a time twice; keep one")
    if given == ["tflops"]:
        name = names["tflops"]
        return _from_rates(table, name, names), f"{table.rounding(name)} of TFLOPS", name
    if given:
        name, unit = names[given[0]], TIMES[given[0]]
    else:
        name, unit = _only_time(table)
    return table.readings(name, SECONDS[unit]), str(table.rounding(name)), name


def _only_time(table: ImportedTable) -> tuple[str, str]:
    times = [name for name in table.header if is_time(name)]
    if len(times) == 1 and (unit := unit_of(times[0])):
        return times[0], unit
    if len(times) == 1:
        raise UsageError(
            f"{table.where} line 1, column {times[0]}: its unit is unknown; say it: --columns time_ms='{times[0]}'"
        )
    if times:
        unit = unit_of(times[0]) or "ms"
        raise UsageError(
            f"{table.where} line 1: several columns may be the time ({', '.join(times)}); choose one: "
            f"--columns time_{unit}='{times[0]}'"
        )
    raise UsageError(
        f"{table.where} line 1: no column is a time by its name ({', '.join(table.header)}); name one: "
        "--columns time_ms=COLUMN"
    )


def _from_rates(table: ImportedTable, name: str, names: dict[str, str]) -> list[TimeCell]:
    """Times from rates in TFLOPS of the useful FLOPs; a step of the rate is a step of the time."""
    found = []
    for row, rate in enumerate(table.readings(name, "1")):
        flops = useful_flops(_problem(table, row, names))
        if rate.verdict is not Verdict.PASSED:
            found.append(rate)
            continue
        if math.isnan(flops):
            table.fail(row, name, "a quantization has no FLOPs to turn a rate into a time")
        time = float(Decimal(flops) / (Decimal(table.text(row, name)) * 10**12))
        found.append(TimeCell(Verdict.PASSED, "", time, time * rate.resolution_s / rate.time_s))
    return found


def _problem(table: ImportedTable, row: int, names: dict[str, str]) -> Problem:
    sizes = {key: table.size(row, names[key]) for key in SIZES if key in names}
    words: dict[str, str] = {}
    for key, known, neutral in (("op", tuple(Op), Op.GEMM), ("pass", tuple(Pass), Pass.FWD)):
        words[key] = table.text(row, names[key], neutral) if key in names else neutral
        if words[key] not in known:
            table.fail(row, names[key], f"{quote(words[key])} is none of {', '.join(known)}")
    sizes = dict.fromkeys(("M", "N", "K"), 1) | sizes
    column = names.get("M", table.header[0])
    return table.problem(row, column, **sizes, op=Op(words["op"]), pass_=Pass(words["pass"]))


def _entry(table: ImportedTable, row: int, reading: TimeCell, names: dict[str, str]) -> ImportedCase:
    problem = _problem(table, row, names)
    if "verdict" in names and (word := table.text(row, names["verdict"])):
        verdict = _WORDS.get(word.lower())
        if verdict is None:
            table.fail(row, names["verdict"], f"{quote(word)} is none of {', '.join(_WORDS)}")
        if verdict is not Verdict.PASSED:
            reading = failed(reading, verdict, f"{word} in the file")
    texts = {"provider": "imported", "model": "any", "layer": "gemm"} | dict.fromkeys(
        ("dtype", "scheme", "cache"), UNKNOWN
    )
    texts |= {key: text for key in texts if key in names and (text := table.text(row, names[key]))}
    whole = all(name in names for name in ("M", "N", "K"))
    flops = None if whole else math.nan
    return ImportedCase(problem=problem, place=table.place(row), reading=reading, flops=flops, **texts)
