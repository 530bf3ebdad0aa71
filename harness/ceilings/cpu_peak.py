"""The GEMM rate that no x86 CPU can exceed, from its instruction sets and its maximum clock. Nothing is measured.

    cores in use x maximum clock x FLOP per cycle of the widest instructions for the type

FLOP per cycle are upper bounds: two ports for multiply-adds of the full vector width, whatever this model has (Intel 64
and IA-32 Architectures Optimization Reference Manual; AMD Software Optimization Guides), and AMX tiles as one unit per
core, which does 16 x 16 x 64 bytes in 16 cycles (the same manual, chapter on Intel AMX). Types without instructions of
their own are multiplied in a wider one.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..telemetry.linux import ROOT, text

PORTS = 2
"""Vector units for multiply-adds per core, at most."""

_TURBO_IN_MAXIMUM = ("intel_pstate", "intel_cpufreq", "amd-pstate", "amd-pstate-epp", "amd_pstate", "amd_pstate_epp")
"""Drivers of cpufreq whose maximum includes turbo; that of acpi-cpufreq, say, may be the nominal clock."""


@dataclass(frozen=True, slots=True)
class _Instructions:
    """One way to multiply: the flag of cpuinfo, bytes of a register (or of a tile row) and of an operand."""

    flag: str
    words: str
    register_bytes: int
    tiles: bool = False

    def flop_per_cycle(self, operand_bytes: int) -> int:
        """Multiplications and additions per cycle and core, at most."""
        per_register = self.register_bytes // operand_bytes
        return 2 * 16 * per_register if self.tiles else 2 * PORTS * per_register


_VECTORS = (
    _Instructions("avx512f", "512-bit vectors", 64),
    _Instructions("avx", "256-bit vectors", 32),
    _Instructions("sse2", "128-bit vectors", 16),
)

_OWN: dict[str, tuple[int, tuple[_Instructions, ...]]] = {
    "fp32": (4, _VECTORS),
    "bf16": (
        2,
        (_Instructions("amx_bf16", "AMX tiles", 64, True), _Instructions("avx512_bf16", "512-bit vectors", 64)),
    ),
    "fp16": (
        2,
        (_Instructions("amx_fp16", "AMX tiles", 64, True), _Instructions("avx512_fp16", "512-bit vectors", 64)),
    ),
    "fp8": (1, (_Instructions("amx_fp8", "AMX tiles", 64, True),)),
    "int8": (1, (_Instructions("amx_int8", "AMX tiles", 64, True), *_VECTORS)),
}
"""Bytes of an operand, and instructions that multiply it and add into 32 bits. Vectors multiply bytes with and without
VNNI (pmaddubsw), the widest first."""

_WIDER: dict[str, tuple[str, ...]] = {"fp32": (), "bf16": ("fp32",), "fp16": ("fp32",)}
"""Types that hold every value of a type; those of one byte and less fit into all of these."""


def maximum_clock_hz(root: Path = ROOT) -> float | None:
    """Highest clock that Linux knows of our cores, turbo included; None where it tells none, or one without turbo.

    Virtual machines mostly tell none. /proc/cpuinfo has the clock of the moment, or the nominal one: no maximum.
    """
    clocks = []
    for core in sorted(os.sched_getaffinity(0)):
        folder = root / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        frequency = text(folder / "cpuinfo_max_freq") or ""  # kHz
        if text(folder / "scaling_driver") not in _TURBO_IN_MAXIMUM or not frequency.isdecimal() or not int(frequency):
            return None
        clocks.append(1e3 * int(frequency))
    return max(clocks, default=None)


def derived_peaks(
    types: Iterable[str], cores: int, clock_hz: float | None, flags: frozenset[str]
) -> dict[str, tuple[float, str]]:
    """Return the FLOP/s that `cores` cannot exceed and the words for it, per type of `types`.

    Empty where the clock or the instruction sets (`flags` of /proc/cpuinfo) are unknown.
    """
    if clock_hz is None or not any(one.flag in flags for one in _VECTORS):
        return {}
    found = {}
    for name in types:
        rate, how = max(_rates(name, flags), key=lambda one: one[0])
        many = f"{cores} core{'s' * (cores > 1)}"
        found[name] = (
            cores * clock_hz * rate,
            f"{many} x {clock_hz / 1e9:.4g} GHz at most x {rate} FLOP per cycle: {how}",
        )
    return found


def _rates(name: str, flags: frozenset[str]) -> list[tuple[int, str]]:
    """FLOP per cycle and core of every way to multiply a type, with the words for it."""
    rates = []
    if name in _OWN:
        size, instructions = _OWN[name]
        for one in instructions:
            if one.flag in flags:
                units = "" if one.tiles else f"{PORTS} multiply-adds of "
                rates.append((one.flop_per_cycle(size), f"{units}{one.words} ({one.flag}) in {name}"))
    return rates + [rate for wider in _WIDER.get(name, tuple(_WIDER)) for rate in _rates(wider, flags)]
