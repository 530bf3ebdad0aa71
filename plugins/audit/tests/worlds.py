"""Devices, kernels on them with a model of their times, and the forms in which people print tables of those."""

import csv
import io
from dataclasses import dataclass, field

import numpy as np
from rooflens.analysis.imports.devices import find_device
from rooflens.plugins.audit.evidence.assumptions import Assumptions
from rooflens.shapes.problem import Op

DEVICES = ("MI300X", "MI355X", "H200", "MI325X", "A100")

NATIVE = {"A100": ("bf16", "fp16")}

LAUNCH_S = 4e-6


@dataclass
class Planted:
    """A text to audit, how to audit it, and the words of the rows in which the fault is (empty: anywhere)."""

    text: str
    setting: Assumptions
    rows: list[str] = field(default_factory=list)


class World:
    """A device, a type, and kernels on it that reach a share of its roofs."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        name = str(rng.choice(DEVICES))
        self.device = find_device(name)
        self.dtype = str(rng.choice(NATIVE.get(name, ("bf16", "fp16", "fp8"))))
        self.peak = self.device.peak_flops[self.dtype]
        self.bandwidth = self.device.bandwidth_bytes_per_s
        self.bits = 8 if self.dtype == "fp8" else 16

    def setting(self, op: Op = Op.GEMM, **more) -> Assumptions:
        return Assumptions(self.device, self.dtype, op, **more)

    def sizes(self, count: int, least_s: float = 1e-4) -> list[tuple[int, int, int]]:
        """Different (M, N, K) whose time at peak is `least_s` or more."""
        found: set[tuple[int, int, int]] = set()
        while len(found) < count:
            M, N, K = (int(128 * self.rng.integers(2, 128)) for _ in range(3))
            if 2 * M * N * K / self.peak > least_s:
                found.add((M, N, K))
        return sorted(found)

    def time(self, M: int, N: int, K: int, share: float | None = None, experts: int = 1) -> float:
        """Seconds of a kernel that reaches a share of both roofs."""
        share = share or self.rng.uniform(0.15, 0.55)
        bytes_moved = (experts * N * K + M * K + M * N) * self.bits / 8
        roof = max(2 * M * N * K / self.peak, bytes_moved / self.bandwidth)
        return float(LAUNCH_S + roof / share)


def printed(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}"


def places(values, unit: float, digits: int = 4) -> int:
    """Decimals that show the smallest of some numbers with so many digits."""
    smallest = min(abs(value) for value in values) / unit
    return int(max(0, digits - 1 - np.floor(np.log10(smallest))))


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def render(rng: np.random.Generator, header: list[str], rows: list[list[str]]) -> str:
    """Write a table in one of the forms in which people give them."""
    style = rng.choice(["csv", "markdown", "aligned", "tsv"])
    if style in ("csv", "tsv"):
        out = io.StringIO()
        csv.writer(out, delimiter="," if style == "csv" else "\t", lineterminator="\n").writerows([header, *rows])
        return out.getvalue()
    if style == "markdown":
        return markdown(header, rows)
    widths = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [header, *rows]]
    return "\n".join("   ".join(row).rstrip() for row in padded) + "\n"


SIDES = (("Old", "New"), ("main", "this PR"), ("Baseline", "Opt"), ("base", "head"))


@dataclass
class Sweep:
    """Times of two sides over some shapes, printed; `coarse` prints them with few digits."""

    world: World
    count: int
    digits: int = 4
    gain: tuple[float, float] = (0.75, 2.5)
    shapes: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.world.rng
        self.shapes = self.shapes or self.world.sizes(self.count)
        self.head = [self.world.time(*shape) for shape in self.shapes]
        factors = rng.uniform(*self.gain, len(self.shapes))
        self.base = [time * factor for time, factor in zip(self.head, factors, strict=True)]
        self.unit, self.unit_name = (1e-3, "ms") if rng.random() < 0.6 else (1e-6, "us")
        self.sides = SIDES[rng.integers(len(SIDES))]
        self.decimals = places([*self.head, *self.base], self.unit, self.digits)

    def texts(self, times: list[float]) -> list[str]:
        return [printed(time / self.unit, self.decimals) for time in times]

    def sized(self) -> list[list[str]]:
        return [[str(size) for size in shape] for shape in self.shapes]

    def named(self, side: int, what: str) -> str:
        return f"{self.sides[side]} ({what})" if what in ("ms", "us") else f"{self.sides[side]} {what}"

    def header(self) -> list[str]:
        return ["M", "N", "K", self.named(0, self.unit_name), self.named(1, self.unit_name)]

    def rates(self, times: list[float]) -> list[float]:
        """TFLOPS of each shape."""
        return [2 * M * N * K / time / 1e12 for (M, N, K), time in zip(self.shapes, times, strict=True)]

    def columns(self) -> tuple[list[list[str]], list[str], list[str]]:
        """What stands below `header`."""
        return self.sized(), self.texts(self.base), self.texts(self.head)

    def label(self, row: int) -> str:
        M, N, K = self.shapes[row]
        return f"M={M} N={N} K={K}"


def joined(*columns) -> list[list[str]]:
    """Rows from columns; a column of lists is spread."""
    return [
        [cell for part in parts for cell in (part if isinstance(part, list) else [part])]
        for parts in zip(*columns, strict=True)
    ]
