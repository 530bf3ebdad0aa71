"""The limits of the device that cells are held against, each with its source."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from ...shapes.device import match_spec
from ...shapes.published_ceilings import missed
from ...shapes.run_folder.columns import PUBLISHED
from ...shapes.run_folder.manifest import StoredDevice
from ..frames.notes import RunWarning, Topic

_MATCHING = {"read": ("read", "copy"), "copy": ("copy",)}
"""Bandwidth patterns that stand for a traffic. Reads alone are never slower than a copy: where the read benchmark came
out below the copy, it is the benchmark."""

_TWO_PIPES = ("sm70", "sm75", "sm80")
"""Architectures with 64 lanes per SM for fp32 and 64 more for integers, to which 128 are issued per clock ("CUDA C++
Programming Guide", throughput of native arithmetic instructions, compute capabilities 7.x and 8.0)."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One limit: FLOP/s, byte/s, op/s, Hz or (launch, fill) seconds. `name` tells it apart.

    `kind` is measured, spec (published) or derived (computed from others; `source` says how).
    """

    value: float
    name: str
    kind: str
    source: str

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}: {self.source})"


@dataclass(frozen=True, slots=True)
class Ceilings:
    """All limits of one run, from the rows of ceilings.csv. A limit that is absent is None, and limits nothing."""

    rows: tuple[tuple[str, str, str, str, Ceiling], ...]

    @classmethod
    def of(cls, table: pd.DataFrame) -> "Ceilings":
        """Take the rows of ceilings.csv."""
        fields = table[["ceiling", "level", "pattern", "dtype", "value", "kind", "source"]]
        rows = []
        for what, level, pattern, dtype, value, kind, source in fields.itertuples(index=False, name=None):
            name = " ".join(filter(None, (level, dtype, pattern, what)))
            rows.append((what, level, pattern, dtype, Ceiling(float(value), name, kind, source)))
        return cls(tuple(rows))

    def bandwidth(self, level: str, traffic: str = "read") -> Ceiling | None:
        """Best measured bandwidth of a level for "read" or "copy" traffic; else any measured, else the published.

        A cache is never slower than what is behind it: a lower measurement gives way to that of memory.
        """
        own = self._bandwidth(level, traffic)
        behind = self._bandwidth("dram", traffic)
        return max(own, behind, key=lambda ceiling: ceiling.value) if own and behind else own

    def _bandwidth(self, level: str, traffic: str) -> Ceiling | None:
        measured = [row for row in self._of("bandwidth") if row[1] == level and row[4].kind == "measured"]
        matching = [row[4] for row in measured if row[2] in _MATCHING[traffic]]
        return _best(matching) or _best(row[4] for row in measured) or self.published_bandwidth(level)

    def peak(self, dtype: str) -> Ceiling | None:
        """Best measured GEMM rate for a dtype, the published or derived one failing it.

        16-bit operands may be widened to fp32 without loss, so their limit is the higher of both rates: on a CPU whose
        16-bit GEMM is emulated, that is the fp32 one.
        """
        candidates = [self._peak(name) for name in _computed_in(dtype)]
        return _best(ceiling for ceiling in candidates if ceiling)

    def launch(self) -> Ceiling | None:
        """Time of an empty launch, the least one: nothing that is launched takes less.

        Launches of one tile do not count: they compute. Runs before patterns had names have "" for the empty launch.
        """
        floors = [row[4] for row in self._of("launch") if row[2].partition(" ")[0] in ("", "empty")]
        return min(floors, key=lambda ceiling: ceiling.value, default=None)

    def fill(self, cache: str) -> Ceiling | None:
        """Latency of filling and draining a kernel: the launch of a single tile less the empty one, both as cold."""
        floors = {row[2]: row[4] for row in self._of("launch")}
        for state in (cache, "warm"):
            tile, empty = floors.get(f"tile {state}"), floors.get(f"empty {state}")
            if tile and empty:
                source = f"{tile.name} - {empty.name}, both measured"
                return Ceiling(max(0.0, tile.value - empty.value), f"fill {state}", "derived", source)
        return None

    def vector(self, arch: str = "") -> Ceiling | None:
        """Instructions of single lanes per second: the best measured rate, else the derived, else the published.

        Twice that where a chain of one kind occupies half of what a scheduler of `arch` issues.
        """
        rows = [row[4] for row in self._of("vector")]
        by_kind = (_best(row for row in rows if row.kind == kind) for kind in ("measured", "derived", "spec"))
        best = next(filter(None, by_kind), None)
        if best is None or arch not in _TWO_PIPES:
            return best
        source = f"2 x {best}: {arch} issues to fp32 and integer units in turn"
        return Ceiling(2 * best.value, "vector issue", "derived", source)

    def integer(self) -> Ceiling | None:
        """Shifts and logic of single lanes per second, as measured; None where nothing of the kind was."""
        return _best(row[4] for row in self._of("vector") if row[2] == "integer" and row[4].kind == "measured")

    def clock(self) -> Ceiling | None:
        """Clock at which the published rates hold."""
        return _best(row[4] for row in self._of("clock"))

    def published_peak(self, dtype: str) -> Ceiling | None:
        """Published rate for a dtype; of 16-bit operands, the higher of theirs and that of fp32, as in `peak`."""
        return _best(row[4] for row in self._of("peak") if row[3] in _computed_in(dtype) and row[4].kind == "spec")

    def peak_at_clock(self, dtype: str, ratio: float) -> Ceiling | None:
        """Published rate of a dtype at `ratio` times the published clock; None where either is unknown."""
        published = self.published_peak(dtype)
        if published is None or math.isnan(ratio):
            return None
        source = f"{published.name} x {ratio:.3f}, the observed over the published clock (median of the cells)"
        return Ceiling(published.value * ratio, f"{published.name} at the observed clock", "derived", source)

    def published_bandwidth(self, level: str) -> Ceiling | None:
        """Published bandwidth of a level."""
        return _best(row[4] for row in self._of("bandwidth") if row[1] == level and row[4].kind == "spec")

    def hard_peak(self, dtype: str) -> Ceiling | None:
        """Highest published or derived rate for a dtype: what is faster than this is impossible.

        What was only measured is no such limit: another kernel may be better than that of the probe.
        """
        peaks = [row[4] for row in self._of("peak") if row[3] in _computed_in(dtype)]
        return _best(peak for peak in peaks if peak.kind in PUBLISHED)

    def types_at(self, flops_per_s: float) -> tuple[str, ...]:
        """Types whose highest known rate is at least `flops_per_s`, the slowest first."""
        peaks = self._of("peak")
        highest = {
            dtype: max(row[4].value for row in peaks if row[3] in _computed_in(dtype))
            for dtype in dict.fromkeys(row[3] for row in peaks)
        }
        fast = [dtype for dtype, rate in highest.items() if rate >= flops_per_s]
        return tuple(sorted(fast, key=lambda dtype: highest[dtype]))

    def _peak(self, dtype: str) -> Ceiling | None:
        rows = [row[4] for row in self._of("peak") if row[3] == dtype]
        return _best(row for row in rows if row.kind == "measured") or _best(rows)

    def _of(self, what: str) -> list[tuple[str, str, str, str, Ceiling]]:
        return [row for row in self.rows if row[0] == what]


def ridge_points(table: pd.DataFrame) -> pd.DataFrame:
    """Intensity (FLOP/byte) at which the roofs of a dtype and a memory level meet, from the rows of ceilings.csv.

    One row per (dtype, level): dtype, level, ridge_flop_per_byte, peak_flops_per_s, peak_source, bandwidth_bytes_per_s
    (read traffic), bandwidth_source. Left of the ridge a kernel is limited by that level, right of it by compute.
    """
    ceilings = Ceilings.of(table)
    dtypes = dict.fromkeys(table.loc[table["ceiling"] == "peak", "dtype"])
    levels = dict.fromkeys(table.loc[table["ceiling"] == "bandwidth", "level"])
    rows = []
    for dtype in dtypes:
        for level in levels:
            peak, bandwidth = ceilings.peak(dtype), ceilings.bandwidth(level)
            if peak and bandwidth:
                ridge = peak.value / bandwidth.value
                rows.append((dtype, level, ridge, peak.value, str(peak), bandwidth.value, str(bandwidth)))
    columns = ["dtype", "level", "ridge_flop_per_byte", "peak_flops_per_s", "peak_source"]
    return pd.DataFrame(rows, columns=[*columns, "bandwidth_bytes_per_s", "bandwidth_source"])


def ceiling_warnings(
    table: pd.DataFrame, dtypes: Iterable[str], levels: Iterable[str], device: StoredDevice
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
    spec = match_spec(device.name, device.arch)
    warnings: list[str] = [
        f"measured {level} bandwidth is below that of memory, which stands in: was the device busy?"
        for level in levels
        if (own := ceilings.bandwidth(level)) and level != "dram" and own.name.startswith("dram ")
    ]
    for name, what, dtype, ceiling in needed:
        if ceiling is None:
            text = f"no {name} in ceilings.csv: it limits no cell here, and bound classes may be wrong"
            warnings.append(RunWarning(text, Topic.CALIBRATION))
        elif ceiling.kind in PUBLISHED:
            word = "published" if ceiling.kind == "spec" else "derived"
            warnings.append(f"{name} was not measured: the {word} value stands in ({ceiling.source})")
        elif spec and (known := missed(spec, what, dtype, ceiling.value)):
            share = 1 - ceiling.value / known.value
            warnings.append(
                f"measured {name} is {share:.0%} below the least that is known of a {spec.name} ({known.source}): was "
                "the device busy, or its clock or power limit low?"
            )
    return tuple(warnings)


def _computed_in(dtype: str) -> tuple[str, ...]:
    return (dtype, "fp32") if dtype in ("bf16", "fp16") else (dtype,)


def _best(ceilings: Iterable[Ceiling]) -> Ceiling | None:
    return max(ceilings, key=lambda ceiling: ceiling.value, default=None)
