"""The tables of docs/measured-facts.md on timers, from what the benchmarks printed: python docs/stored_timers.py.

Each line is a row that stands there word for word; the output is kept under docs/results/h200-timers.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

STORED = Path(__file__).resolve().parent / "results" / "h200-timers"
KERNEL = re.compile(r"(?:blas|\w+_\w+) M=")


def lines_of(benchmark: str, skipped: int) -> list[str]:
    """Lines that a benchmark printed, without its heading."""
    return (STORED / f"{benchmark}.txt").read_text("utf-8").splitlines()[skipped:]


def row(*cells: str) -> str:
    """A row of a table in markdown, with names of providers as code and units set apart."""
    first = re.sub(r"^(\w+) ", r"`\1` ", cells[0]) if KERNEL.match(cells[0]) else cells[0]
    return f"| {' | '.join((first, *cells[1:]))} |".replace("%", " %").replace(" -0.0 %", " 0.0 %")


def rows() -> Iterator[str]:
    """Yield all rows."""
    yield from bias()
    yield from cold()
    yield from convergence()
    yield from repeatability()
    yield from watching()


def bias() -> Iterator[str]:
    """Record, what events add and what netting leaves, cold and warm; what a graph adds."""
    found = {}
    for line in lines_of("timer_bias", 2):
        found[line[:32].strip(), line[33:38].strip()] = line[38:].split()
    for label, cache in found:
        if cache == "cold" and label != "empty":
            less, more = found[label, "cold"], found[label, "warm"]
            yield row(label, *(less[at] for at in (0, 1, 3)), *(more[at] for at in (0, 1, 3, 4)))


def cold() -> Iterator[str]:
    """One read, by way to a cold cache."""
    for line in lines_of("cold_validity", 2):
        size, *times = line.split()
        yield row(size.removesuffix(".0"), *times[:5], times[6], times[5])


def convergence() -> Iterator[str]:
    """Wall time to a median within 1 %."""
    found: dict[str, dict[str, list[str]]] = defaultdict(dict)
    label = ""
    for line in lines_of("timer_convergence", 2):
        label = line[:34].strip() or label
        found[label][line[35:59].strip()] = line[59:].split()
    for kernel, tools in found.items():
        peer, ours, events = (tools[name] for name in ("do_bench", "rooflens profiler, cold", "rooflens event, cold"))
        cells = [f"{float(peer[0]):.0f} ms"]
        for wall, ratio, _, half, samples, *_ in (ours, events):
            cells += [f"{float(wall):.1f} ms", samples, half, ratio.replace("x", "×")]
        yield row(f"{kernel}, {float(ours[2]):.1f} µs", *cells)


def repeatability() -> Iterator[str]:
    """Coefficient of variation between processes."""
    found: dict[str, dict[str, list[str]]] = defaultdict(dict)
    kernel = ""
    for line in lines_of("timer_repeatability", 1):
        if line.startswith(" "):
            tool, *values = re.split(r"  +", line.strip())
            found[kernel][tool] = " ".join(values).split()
        else:
            kernel = line.strip()
    tools = ("profiler cold", "event cold", "event rotated", "graph rotated", "do_bench", "graph warm")
    for name, taken in found.items():
        time = float(taken["profiler cold"][0])
        yield row(f"{name}, {time:.1f} µs", *(taken[tool][1] for tool in (*tools, "do_bench_cudagraph")))


def watching() -> Iterator[str]:
    """Times with and without operands that change."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in lines_of("watch_validity", 1):
        *kernel, _, changed, unchanged, ratio, _ = line.split()
        found[" ".join(kernel)].append(f"{changed}, {unchanged}, {float(ratio):.3f}")
    for name, cells in found.items():
        yield f"| {' | '.join((name, *cells))} |"


if __name__ == "__main__":
    print("\n".join(rows()))
