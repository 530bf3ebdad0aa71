"""The JSON of benchmarks as tables: one row per result, with columns that `tidy`, or the format itself, reads.

nvbench: `benchmarks` (name, states), per state `device`, `axis_values` (name, value), `summaries` (tag, data: name,
value) and `is_skipped` with `skip_reason`; `devices` (id, name). Google Benchmark: `context`, `benchmarks` (name,
run_name, run_type, aggregate_name, real_time, time_unit, error_occurred). pytest-benchmark: `machine_info`,
`benchmarks` (name, params, stats in seconds). llama-bench: a list (model_type, n_prompt, n_gen, avg_ns). PyTorch's
benchmark database, version 3: a list (benchmark, model, metric: name, unit, benchmark_values). tritonbench:
`tritonbench_OP_MODE[x_VALUE-PROVIDER]_METRIC`: number.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from ...shapes.errors import UsageError, shorten
from ...shapes.files.json_file import parse_content
from .printed import SECONDS
from .table import EXAMPLE, ImportedTable
from .words import is_time, split_parameters, unit_of

Record = dict[str, object]


def is_json(content: bytes) -> bool:
    """Tell by the first character."""
    return content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def tables_of_json(content: bytes, where: str) -> list[ImportedTable]:
    """Read the results of a known tool. Raises UsageError that names another one, and says what to do."""
    if re.search(rb"\}\s*\n\s*\{", content):
        raise UsageError(f"{where} has one JSON per line; give a list of them, as llama-bench -o json writes it")
    root = parse_content(content, where, "give what the benchmark wrote")
    if isinstance(root, dict) and not root.get("benchmarks", True):
        raise UsageError(f"{where}: its list of benchmarks is empty; give the JSON of a benchmark that ran")
    for source, (matches, records_of) in FORMATS.items():
        if not matches(root):
            continue
        try:
            found = list(records_of(root))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UsageError(
                f"{where}: not what {source} writes ({type(error).__name__}: {error}); write it as CSV: {EXAMPLE}"
            ) from None
        records = [one for one in found if not isinstance(one, str)]
        if not records:
            others = ", ".join(dict.fromkeys(map(str, found)))
            raise UsageError(f"{where} is JSON of {source} without a time" + (f", only {others}" * bool(others)))
        return [_table(records, Counter(one for one in found if isinstance(one, str)), where, source)]
    raise UsageError(f"{where} is {_named(root)}; write what it measured as CSV: {EXAMPLE}")


def _table(records: list[Record], others: Counter[str], where: str, source: str) -> ImportedTable:
    header = dict.fromkeys(name for record in records for name in record)
    rows = tuple(tuple("" if record.get(name) is None else str(record[name]) for name in header) for record in records)
    notes = tuple(f"{where}: {count} results are of {name}, and not read" for name, count in others.items())
    return ImportedTable(where, tuple(header), rows, tuple(range(1, len(rows) + 1)), source=source, notes=notes)


TAGS = {
    "nv/cold/time/gpu/mean": "GPU Time (sec)",
    "nv/cold/time/gpu/stdev/relative": "Noise",
    "nv/batch/time/gpu/mean": "Batch GPU (sec)",
}
"""Tags of nvbench, and what its CSV calls them."""


def _nvbench(root: Any) -> Iterator[Record]:
    names = {device["id"]: device["name"] for device in root["devices"]}
    states = [(benchmark["name"], state) for benchmark in root["benchmarks"] for state in benchmark["states"] or ()]
    every = dict.fromkeys(axis["name"] for _, state in states for axis in state["axis_values"] or ())
    for benchmark, state in states:
        device = names.get(state["device"], state["device"])
        axes = {axis["name"]: axis["value"] for axis in state["axis_values"] or ()}
        skipped = (state.get("skip_reason") or "Yes") if state.get("is_skipped") else "No"
        found = {one["tag"]: _value(one) for one in state["summaries"] or ()}
        record: Record = {"Benchmark": benchmark, "Device": state["device"], "Device Name": device}
        record |= {name: axes.get(name) for name in every} | {"Skipped": skipped}
        yield record | {name: found.get(tag) for tag, name in TAGS.items()}


def _value(summary: Mapping[str, Any]) -> object:
    return next((item["value"] for item in summary.get("data") or () if item["name"] == "value"), None)


def _google(root: Any) -> Iterator[Record | str]:
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for one in root["benchmarks"]:
        runs.setdefault(one.get("run_name", one["name"]), []).append(one)
    for name, found in runs.items():
        medians = [one for one in found if "real_time" in one and one.get("aggregate_name") == "median"]
        single = [one for one in found if one.get("run_type", "iteration") == "iteration"]
        failed = next((one for one in found if one.get("error_occurred")), None)
        if not (medians or single or failed):
            yield from (str(one.get("aggregate_name")) for one in found)  # BigO, RMS, or how much others vary
            continue
        function, *arguments = name.split("/")
        record = {"provider": function, **_split(dict(_argument(at, one) for at, one in enumerate(arguments)))}
        if failed is not None:
            yield record | {"verdict": "error", "time_s": None}
            continue
        seconds = [one["real_time"] * float(SECONDS[one["time_unit"]]) for one in medians or single]
        yield record | {"verdict": "ok", "time_s": median(seconds)}


def _argument(at: int, text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    return (name, value) if colon else (f"argument {at}", text)


def _split(parameters: Mapping[str, object]) -> Record:
    sizes, rest = split_parameters(parameters)
    return {**sizes, "layer": rest}


def _pytest(root: Any) -> Iterator[Record]:
    for one in root["benchmarks"]:
        parameters = one.get("params") or {}
        test = one.get("fullname", one["name"]).partition("[")[0]
        yield {"provider": test, **_split(parameters), "time_s": one["stats"]["median"]}


_LLAMA = ("n_batch", "n_ubatch", "n_threads", "type_k", "type_v", "n_gpu_layers", "split_mode", "flash_attn", "n_depth")
"""Settings that tell the results of llama-bench apart."""


def _llama(root: Any) -> Iterator[Record]:
    for one in root:
        test = " ".join(f"{word}{one[name]}" for word, name in (("pp", "n_prompt"), ("tg", "n_gen")) if one.get(name))
        setting = [f"{name}={one[name]}" for name in _LLAMA if name in one]
        named = {"provider": "llama.cpp", "model": one["model_type"], "layer": " ".join([test, *setting])}
        yield {**named, "device": one.get("gpu_info") or one.get("cpu_info"), "time_ns": one["avg_ns"]}


def _pytorch(root: Any) -> Iterator[Record | str]:
    for one in root:
        benchmark, model, metric = one["benchmark"], one.get("model") or {}, one["metric"]
        name = metric["name"] if unit_of(metric["name"]) else f"{metric['name']} {metric.get('unit') or ''}"
        unit = unit_of(name) if is_time(name) else None
        if unit is None or not metric["benchmark_values"]:
            yield shorten(metric["name"])
            continue
        said = [benchmark["name"], benchmark.get("mode"), metric["name"]]
        named = {"provider": model.get("backend") or benchmark["name"], "model": model.get("name")}
        named |= {"layer": " ".join(filter(None, said)), "dtype": benchmark.get("dtype")}
        device = (benchmark.get("extra_info") or {}).get("device")
        yield {**named, "device": device, "time_s": median(metric["benchmark_values"]) * float(SECONDS[unit])}


_TRITON = re.compile(r"tritonbench_(?P<op>[^\[]+)\[(?:x_)?(?P<x>.*)-(?P<provider>[^-\]]+)\][-_](?P<metric>\w+)")


def _metrics(root: Any) -> Mapping[str, Any]:
    found = root.get("metrics") if isinstance(root, dict) else {}
    return found if isinstance(found, dict) else root


def _triton(root: Any) -> Iterator[Record | str]:
    for name, value in _metrics(root).items():
        if found := _TRITON.fullmatch(name):
            named = {"provider": found["provider"], "layer": f"{found['op']} {found['x']}"}
            yield {**named, "time_ms": value} if found["metric"] == "latency" else found["metric"]


def _first(root: Any, key: str = "") -> Mapping[str, Any]:
    """First entry of a list, or of the list at a key."""
    found = root.get(key) if key and isinstance(root, dict) else root
    return found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}


FORMATS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], Iterator[Record | str]]]] = {
    "Google Benchmark": (lambda root: "real_time" in _first(root, "benchmarks"), _google),
    "pytest-benchmark": (lambda root: "stats" in _first(root, "benchmarks"), _pytest),
    "llama-bench": (lambda root: {"model_type", "avg_ns"} <= _first(root).keys(), _llama),
    "PyTorch's benchmark database": (lambda root: {"benchmark", "metric"} <= _first(root).keys(), _pytorch),
    "tritonbench": (lambda root: any(map(_TRITON.fullmatch, _metrics(root))), _triton),
    "nvbench": (lambda root: isinstance(root, dict) and "benchmarks" in root, _nvbench),
}

OTHERS: dict[str, Callable[[Any], bool]] = {
    "JSON of hyperfine, which times commands": lambda root: "command" in _first(root, "results"),
    "a trace (Chrome's trace event format)": lambda root: "traceEvents" in root or "ph" in _first(root),
    "JSON of asv": lambda root: "result_columns" in root,
    "a table of vLLM's tuned configurations, which has no times": lambda root: any(
        isinstance(one, dict) and "BLOCK_SIZE_M" in one for one in (root.values() if isinstance(root, dict) else ())
    ),
    "JSON of a serving benchmark of vLLM or SGLang": lambda root: "request_throughput" in root,
    "run.json of a run folder of rooflens": lambda root: "rooflens" in root,
}
"""What is not read: how it is known."""


def _named(root: Any) -> str:
    for name, matches in OTHERS.items():
        if matches(root):
            return name
    keys = root if isinstance(root, dict) else _first(root)
    return f"JSON of an unknown tool ({', '.join(map(shorten, list(keys)[:8])) or 'without names'})"
