"""nvbench's JSON (`--json`).

Source: NVIDIA/nvbench @66212f1, nvbench/json_printer.cu: `devices` (id, name), `benchmarks` (name, states), per state
`device`, `axis_values` (name, type, value), `summaries` (tag, data: name, type, value) and `is_skipped` with
`skip_reason`. Numbers in values are texts. Older files have `summaries` as an object instead of a list.
"""

from collections.abc import Iterator
from typing import Any

from ...shapes.errors import UsageError, quote
from ...shapes.files.json_file import parse_object
from ...shapes.verdict import Verdict
from .entries import Imported, ImportedCase, frame_of
from .nvbench_axes import BATCH, COLD, entry, noise_note
from .table import TimeCell

SOURCE = "nvbench JSON"

TAGS = {
    COLD: ("nv/cold/time/gpu/mean", "nv/cold/time/gpu/stdev/relative"),
    BATCH: ("nv/batch/time/gpu/mean", ""),
}
"""Tags of the mean time in seconds and of its noise."""


def read(content: bytes, where: str) -> Imported:
    """One case per state: its GPU time over isolated launches, or over batched ones where there are no others."""
    root = parse_object(content, where, "give what nvbench's --json writes")
    try:
        names = {device["id"]: device["name"] for device in root["devices"]}
        states = list(_states(root))
        used = list(dict.fromkeys(state["device"] for _, _, state in states))
        entries = [_entry(name, state, where, place, len(used) > 1) for name, place, state in states]
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{where}: not what nvbench's --json writes ({type(error).__name__}: {error}); export it as CSV: --csv"
        ) from None
    if not entries:
        raise UsageError(f"{where}: no benchmark has a state; give the file of one that ran")
    device = ", ".join(dict.fromkeys(str(names.get(number, number)) for number in used))
    return Imported(SOURCE, frame_of(entries, where), {f"{COLD} (sec)": "not rounded"}, device, ())


def _states(root: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for number, benchmark in enumerate(root["benchmarks"]):
        for index, state in enumerate(benchmark["states"] or ()):
            yield benchmark["name"], f"benchmarks[{number}].states[{index}]", state


def _entry(benchmark: str, state: dict[str, Any], where: str, place: str, several: bool) -> ImportedCase:
    axes = {axis["name"]: str(axis["value"]) for axis in state["axis_values"] or ()}
    if several:
        axes["Device"] = str(state["device"])
    if state.get("is_skipped"):
        reason = str(state.get("skip_reason") or "skipped by the benchmark")
        return entry(benchmark, axes, TimeCell(Verdict.UNSUPPORTED, reason), COLD, where, place)
    values = {summary["tag"]: _value(summary) for summary in state["summaries"] or ()}
    timing = next((name for name, (tag, _) in TAGS.items() if values.get(tag)), None)
    if timing is None:
        raise UsageError(f"{where} {place}: neither {' nor '.join(tag for tag, _ in TAGS.values())}; nothing was timed")
    tag, noise = TAGS[timing]
    time = _seconds(values[tag], where, place, tag)
    note = noise_note(values.get(noise, ""))
    return entry(benchmark, axes, TimeCell(Verdict.PASSED, "", time), timing, where, place, note)


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
