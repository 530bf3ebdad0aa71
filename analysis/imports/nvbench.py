"""nvbench's CSV (`--csv`) and JSON (`--json`).

Source: NVIDIA/nvbench @66212f1, nvbench/csv_printer.cu, json_printer.cu and detail/measure_cold.cu. CSV:
`Benchmark,Device,Device Name`, the axes (an integer axis of powers of two has a second column `NAME (pow2)`),
`Skipped`, then the summaries: `Samples,CPU Time (sec),Noise,GPU Time (sec),Noise,...`. Times are seconds in full
precision; noise is relative; axes of different benchmarks share the columns, empty where they do not apply. JSON:
`devices` (id, name), `benchmarks` (name, states), per state `device`, `axis_values` (name, type, value), `summaries`
(tag, data: name, type, value) and `is_skipped` with `skip_reason`. Numbers in values are texts. Older files have
`summaries` as an object instead of a list.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...shapes.errors import UsageError, quote
from ...shapes.files.json_file import parse_object
from ...shapes.problem import Problem
from ...shapes.verdict import Verdict
from .entries import UNKNOWN, Imported, ImportedCase, frame_of
from .table import ImportedTable, TimeCell

SOURCE = "nvbench CSV"

COLD, BATCH = "GPU Time", "Batch GPU"
"""Names of the mean over isolated launches, and of that over launches without a gap."""

CACHES = {COLD: "cold", BATCH: "warm"}
"""Isolated launches are preceded by a flush of the L2, batched ones are not."""

_SIZES = {"m": "M", "n": "N", "k": "K", "b": "B", "batch": "B"}

_TEXTS = {"dtype": "dtype", "scheme": "scheme", "model": "model", "layer": "layer"}

_PROVIDERS = ("provider", "implementation", "backend")

_FIRST = ("Benchmark", "Device", "Device Name")

TAGS = {
    COLD: ("nv/cold/time/gpu/mean", "nv/cold/time/gpu/stdev/relative"),
    BATCH: ("nv/batch/time/gpu/mean", ""),
}
"""Tags of the mean time in seconds and of its noise."""


def matches(table: ImportedTable) -> bool:
    """Tell by the header."""
    return table.header[: len(_FIRST)] == _FIRST and "Skipped" in table


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """One case per state: its GPU time over isolated launches, or over batched ones where there are no others."""
    timing = next((name for name in (COLD, BATCH) if f"{name} (sec)" in table), None)
    if timing is None:
        raise UsageError(f"{table.where} line 1: neither {COLD} (sec) nor {BATCH} (sec) is there; nothing was timed")
    column = f"{timing} (sec)"
    end = table.header.index("Skipped")
    names = [name for name in table.header[len(_FIRST) : end] if not name.endswith(" (pow2)")]
    numbers = set(table.texts("Device"))
    noise = _noise_of(table, table.header.index(column))
    entries = []
    for row, reading in enumerate(table.readings(column, "1")):
        skipped = table.text(row, "Skipped") == "Yes"
        axes = {name: value for name in names if (value := table.text(row, name))}
        if len(numbers) > 1:
            axes["Device"] = table.text(row, "Device")
        entries.append(
            _case(
                table.text(row, "Benchmark"),
                axes,
                TimeCell(Verdict.UNSUPPORTED, "skipped by the benchmark") if skipped else reading,
                timing,
                table.where,
                table.place(row),
                "" if skipped or noise is None else _noise_note(table.rows[row][noise]),
            )
        )
    return Imported.of(SOURCE, table, entries, [column], table.texts("Device Name"))


def _noise_of(table: ImportedTable, position: int) -> int | None:
    """Column of the noise of the times in column `position`: the next one, as another is that of the CPU."""
    following = position + 1
    return following if following < len(table.header) and table.header[following] == "Noise" else None


def read_json(content: bytes, where: str) -> Imported:
    """One case per state: its GPU time over isolated launches, or over batched ones where there are no others."""
    root = parse_object(content, where, "give what nvbench's --json writes")
    try:
        names = {device["id"]: device["name"] for device in root["devices"]}
        states = list(_states(root))
        used = list(dict.fromkeys(state["device"] for _, _, state in states))
        entries = [_state(name, state, where, place, len(used) > 1) for name, place, state in states]
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{where}: not what nvbench's --json writes ({type(error).__name__}: {error}); export it as CSV: --csv"
        ) from None
    if not entries:
        raise UsageError(f"{where}: no benchmark has a state; give the file of one that ran")
    device = ", ".join(dict.fromkeys(str(names.get(number, number)) for number in used))
    return Imported("nvbench JSON", frame_of(entries, where), {f"{COLD} (sec)": "not rounded"}, device, ())


def _states(root: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for number, benchmark in enumerate(root["benchmarks"]):
        for index, state in enumerate(benchmark["states"] or ()):
            yield benchmark["name"], f"benchmarks[{number}].states[{index}]", state


def _state(benchmark: str, state: dict[str, Any], where: str, place: str, several: bool) -> ImportedCase:
    axes = {axis["name"]: str(axis["value"]) for axis in state["axis_values"] or ()}
    if several:
        axes["Device"] = str(state["device"])
    if state.get("is_skipped"):
        reason = str(state.get("skip_reason") or "skipped by the benchmark")
        return _case(benchmark, axes, TimeCell(Verdict.UNSUPPORTED, reason), COLD, where, place)
    values = {summary["tag"]: _value(summary) for summary in state["summaries"] or ()}
    timing = next((name for name, (tag, _) in TAGS.items() if values.get(tag)), None)
    if timing is None:
        raise UsageError(f"{where} {place}: neither {' nor '.join(tag for tag, _ in TAGS.values())}; nothing was timed")
    tag, noise = TAGS[timing]
    time = _seconds(values[tag], where, place, tag)
    note = _noise_note(values.get(noise, ""))
    return _case(benchmark, axes, TimeCell(Verdict.PASSED, "", time), timing, where, place, note)


def _value(summary: dict[str, Any]) -> str:
    return next((str(item["value"]) for item in summary.get("data") or () if item["name"] == "value"), "")


def _seconds(text: str, where: str, place: str, tag: str) -> float:
    try:
        time = float(text)
    except ValueError:
        time = -1.0
    if not 0 < time < float("inf"):
        raise UsageError(f"{where} {place}.summaries, tag {tag}: {quote(text)} is not a time")
    return time


def _case(
    benchmark: str, axes: Mapping[str, str], reading: TimeCell, timing: str, where: str, place: str, note: str = ""
) -> ImportedCase:
    """Build the entry of one state.

    Axes M, N, K, B and batch are sizes; dtype, scheme, model and layer themselves; provider is added to the name of
    the benchmark; the others make up the layer. Case and word order do not matter. `timing` is `COLD` or `BATCH`.
    """
    sizes: dict[str, int] = {}
    texts: dict[str, str] = {}
    providers, rest = [benchmark], []
    for name, value in axes.items():
        key = name.lower()
        if key in _SIZES:
            if not (re.fullmatch(r"[0-9]{1,18}", value) and int(value)):
                raise UsageError(f"{where} {place}, axis {name}: {quote(value)} is not a positive whole number")
            sizes[_SIZES[key]] = int(value)
        elif key in _TEXTS:
            texts[_TEXTS[key]] = value
        elif key in _PROVIDERS:
            providers.append(value)
        else:
            rest.append(f"{name}={value}")
    layer = " ".join([*([texts["layer"]] if "layer" in texts else []), *rest]) or "gemm"
    M, N, K, B = (sizes.get(name, 1) for name in ("M", "N", "K", "B"))
    try:
        problem = Problem(M, N, K, B)
    except UsageError as error:
        raise UsageError(f"{where} {place}: {error}") from None
    return ImportedCase(
        problem=problem,
        place=place,
        reading=reading,
        provider=" ".join(providers),
        model=texts.get("model", "any"),
        dtype=texts.get("dtype", UNKNOWN),
        scheme=texts.get("scheme", UNKNOWN),
        layer=layer,
        cache=CACHES[timing],
        flops=None if {"M", "N", "K"} <= set(sizes) else float("nan"),
        note=note,
    )


def _noise_note(share: str) -> str:
    """Put nvbench's relative standard deviation into words; "" where it is none."""
    try:
        return f"noise {float(share):.2%} over single launches"
    except ValueError:
        return ""
