"""The limits of the device that cells are compared with, each with its source."""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import pandas as pd

from ...shapes.device import Device
from ...shapes.published_ceilings import missed
from ...shapes.run_folder.columns import PUBLISHED
from ..frames.notes import RunWarning, Topic

REACHED = "reached by "
"""How the source of a raised ceiling begins."""

_MATCHING = {"read": ("read", "copy"), "copy": ("copy",)}
"""Bandwidth patterns that limit a traffic. Reads alone are never slower than a copy: where the read benchmark came
out below the copy, it is the benchmark."""

_TWO_PIPES = ("sm70", "sm75", "sm80")
"""Architectures with 64 lanes per SM for fp32 and 64 more for integers, to which 128 are issued per clock ("CUDA C++
Programming Guide", throughput of native arithmetic instructions, compute capabilities 7.x and 8.0)."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One limit: FLOP/s, byte/s, op/s, Hz or (launch, fill) seconds. `name` identifies it.

    `kind` is measured, spec (published) or derived (computed from others; `source` says how). The other fields are as
    in ceilings.csv, which calls `what` ceiling; they are empty for what is computed here.
    """

    value: float
    name: str
    kind: str
    source: str
    what: str = ""
    level: str = ""
    pattern: str = ""
    dtype: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}: {self.source})"


@dataclass(frozen=True, slots=True)
class Ceilings:
    """All limits of one run, from the rows of ceilings.csv. A limit that is absent is None, and limits nothing."""

    rows: tuple[Ceiling, ...]

    @classmethod
    def of(cls, table: pd.DataFrame) -> "Ceilings":
        """Take the rows of ceilings.csv."""
        fields = table[["ceiling", "level", "pattern", "dtype", "value", "kind", "source"]]
        rows = []
        for what, level, pattern, dtype, value, kind, source in fields.itertuples(index=False, name=None):
            name = " ".join(filter(None, (level, dtype, pattern, what)))
            rows.append(Ceiling(float(value), name, kind, source, what, level, pattern, dtype))
        return cls(tuple(rows))

    def _of(self, what: str, *kinds: str, **columns: Collection[str]) -> Iterator[Ceiling]:
        """Ceilings of the given kinds (all by default) whose `columns` have one of the given values."""
        return (
            row
            for row in self.rows
            if row.what == what
            and (not kinds or row.kind in kinds)
            and all(getattr(row, name) in values for name, values in columns.items())
        )

    def _best(self, what: str, *kinds: str, **columns: Collection[str]) -> Ceiling | None:
        """Highest of them."""
        return max(self._of(what, *kinds, **columns), key=_value, default=None)

    def bandwidth(self, level: str, traffic: str = "read") -> Ceiling | None:
        """Best measured bandwidth of a level for "read" or "copy" traffic; else any measured, else the published.

        A cache is never slower than what is behind it: a lower measurement gives way to that of memory.
        """
        own, memory = (self._bandwidth(place, traffic) for place in (level, "dram"))
        return max(own, memory, key=_value) if own and memory else own

    def _bandwidth(self, level: str, traffic: str) -> Ceiling | None:
        return (
            self._best("bandwidth", "measured", level=[level], pattern=_MATCHING[traffic])
            or self._best("bandwidth", "measured", level=[level])
            or self.published_bandwidth(level)
        )

    def peak(self, dtype: str) -> Ceiling | None:
        """Best measured GEMM rate for a dtype, the published or derived one failing it.

        16-bit operands may be widened to fp32 without loss, so their limit is the higher of both rates: on a CPU whose
        16-bit GEMM is emulated, that is the fp32 one.
        """
        rates = [
            self._best("peak", "measured", dtype=[one]) or self._best("peak", dtype=[one]) for one in _widened(dtype)
        ]
        return max(filter(None, rates), key=_value, default=None)

    def launch(self) -> Ceiling | None:
        """Time of an empty launch, the least one: nothing that is launched takes less.

        Launches of one tile do not count: they compute. Runs before patterns had names have "" for the empty launch.
        """
        floors = (row for row in self._of("launch") if row.pattern.partition(" ")[0] in ("", "empty"))
        return min(floors, key=_value, default=None)

    def fill(self, cache: str) -> Ceiling | None:
        """Latency of filling and draining a kernel: the launch of a single tile less the empty one, both as cold."""
        floors = {row.pattern: row for row in self._of("launch")}
        for state in (cache, "warm"):
            tile, empty = floors.get(f"tile {state}"), floors.get(f"empty {state}")
            if tile and empty:
                source = f"{tile.name} - {empty.name}, both measured"
                return Ceiling(max(0.0, tile.value - empty.value), f"fill {state}", "derived", source)
        return None

    def latency(self, level: str) -> Ceiling | None:
        """Time of one load from a level that waits for nothing but the one before it."""
        return min(self._of("latency", level=[level]), key=_value, default=None)

    def vector(self, arch: str = "") -> Ceiling | None:
        """Instructions of single lanes per second: the best measured rate, else the derived, else the published.

        Twice that where a chain of one kind occupies half of what a scheduler of `arch` issues.
        """
        best = self._best("vector", "measured") or self._best("vector", "derived") or self._best("vector", "spec")
        if best is None or arch not in _TWO_PIPES:
            return best
        source = f"2 x {best}: {arch} issues to fp32 and integer units in turn"
        return Ceiling(2 * best.value, "vector issue", "derived", source)

    def integer(self) -> Ceiling | None:
        """Shifts and logic of single lanes per second, as measured; None where nothing of the kind was."""
        return self._best("vector", "measured", pattern=["integer"])

    def clock(self) -> Ceiling | None:
        """Clock at which the published rates hold."""
        return self._best("clock")

    def published_peak(self, dtype: str) -> Ceiling | None:
        """Published rate for a dtype; of 16-bit operands, the higher of theirs and that of fp32, as in `peak`."""
        return self._best("peak", "spec", dtype=_widened(dtype))

    def peak_at_clock(self, dtype: str, ratio: float) -> Ceiling | None:
        """Published rate of a dtype at `ratio` times the published clock; None where either is unknown."""
        published = self.published_peak(dtype)
        if published is None or math.isnan(ratio):
            return None
        source = f"{published.name} x {ratio:.3f}, the observed over the published clock (median of the cells)"
        return Ceiling(published.value * ratio, f"{published.name} at the observed clock", "derived", source)

    def published_bandwidth(self, level: str) -> Ceiling | None:
        """Published bandwidth of a level."""
        return self._best("bandwidth", "spec", level=[level])

    def hard_peak(self, dtype: str) -> Ceiling | None:
        """Highest published or derived rate for a dtype: what is faster than this is impossible.

        What was only measured is no such limit: another kernel may be better than that of the probe.
        """
        return self._best("peak", *PUBLISHED, dtype=_widened(dtype))

    def types_at(self, flops_per_s: float) -> tuple[str, ...]:
        """Types whose highest known rate is at least `flops_per_s`, the slowest first."""
        dtypes = dict.fromkeys(row.dtype for row in self._of("peak"))
        peaks = {dtype: peak.value for dtype in dtypes if (peak := self._best("peak", dtype=_widened(dtype)))}
        return tuple(sorted((dtype for dtype, rate in peaks.items() if rate >= flops_per_s), key=peaks.__getitem__))


def ceiling_warnings(
    table: pd.DataFrame, dtypes: Iterable[str], levels: Iterable[str], device: Device
) -> tuple[str, ...]:
    """Say which limits that the cells need are missing, only published, or suspiciously low.

    `device` is that of run.json: low is what misses all known measurements of its model (`published_ceilings.missed`).
    """
    ceilings = Ceilings.of(table)
    levels = list(levels)
    known_of = {"dram": "bandwidth"}  # of caches, nothing that was measured elsewhere is known
    needed = [(f"{level} bandwidth", known_of.get(level, ""), "", ceilings.bandwidth(level)) for level in levels]
    needed += [(f"{dtype} GEMM peak", "peak", dtype, ceilings.peak(dtype)) for dtype in dtypes]
    needed.append(("launch floor", "", "", ceilings.launch()))
    spec = device.looked_up().spec
    warnings: list[str] = [
        f"measured {level} bandwidth is below that of memory, which is used instead: was the device busy?"
        for level in levels
        if (own := ceilings.bandwidth(level)) and level != "dram" and own.name.startswith("dram ")
    ]
    for name, what, dtype, ceiling in needed:
        if ceiling is None:
            text = f"no {name} in ceilings.csv: it limits no cell here, and bound classes may be wrong"
            warnings.append(RunWarning(text, Topic.CALIBRATION))
        elif ceiling.kind in PUBLISHED:
            word = "published" if ceiling.kind == "spec" else "derived"
            warnings.append(f"{name} was not measured: the {word} value is used instead ({ceiling.source})")
        elif spec and (known := missed(spec, what, dtype, ceiling.value)):
            share = 1 - ceiling.value / known.value
            warnings.append(
                f"measured {name} is {share:.0%} below the least that is known of a {spec.name} ({known.source}): was "
                "the device busy, or its clock or power limit low?"
            )
    return tuple(warnings)


def _widened(dtype: str) -> tuple[str, ...]:
    """Types that operands of a dtype may be multiplied in."""
    return (dtype, "fp32") if dtype in ("bf16", "fp16") else (dtype,)


def _value(ceiling: Ceiling) -> float:
    return ceiling.value
