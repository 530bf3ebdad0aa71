"""Telemetry of a CPU through /proc and /sys: clock, temperature, slowdowns, and who else uses the cores."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from . import linux
from .reading import Board, DeviceProcess, Reading, in_order

SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Names of the hwmon drivers that measure a CPU."""

WINDOW_S = 0.25
"""Shortest time over which `busy_elsewhere` is taken: Linux counts busy time in ticks of 1 to 10 ms."""


class HostTelemetry:
    """The cores of this machine. `clock` and `own_time` (seconds of CPU time of this process) can be scripted."""

    name = "host"
    why = ""

    def __init__(
        self,
        root: Path = linux.ROOT,
        clock: Callable[[], float] = time.monotonic,
        own_time: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock, self._own_time = clock, own_time
        self._stat = root / "proc/stat"
        core = root / f"sys/devices/system/cpu/cpu{linux.first_core()}"
        self._frequency = _if_readable(core / "cpufreq/scaling_cur_freq")
        self._max_frequency = core / "cpufreq/cpuinfo_max_freq"
        self._sensor = _sensor(root)
        self._counters = {
            word: [path for path in paths if _counter(path) is not None]
            for word, paths in {
                "thermal": [core / f"thermal_throttle/{part}_throttle_count" for part in ("core", "package")],
                "cpu_quota": [folder / "cpu.stat" for folder in linux.cgroup_folders(root)],
            }.items()
        }
        self._counts = self._count()
        self._since = (clock(), self._busy_s(), own_time())
        self._elsewhere: float | None = None

    def read(self) -> Reading:
        """Look at the state of now; slowdowns and `busy_elsewhere` are those since the reading before."""
        before, self._counts = self._counts, self._count()
        return Reading(
            clock_hz=_number(self._frequency, 1e3),
            temperature_c=_number(self._sensor, 1e-3),
            slowdown=in_order(word for word, count in self._counts.items() if count > before[word]),
            busy_elsewhere=self._busy_elsewhere(),
        )

    def board(self) -> Board:
        """Return the highest clock; the rest belongs to GPUs."""
        return Board(max_clock_hz=_number(self._max_frequency, 1e3))

    def processes(self) -> tuple[DeviceProcess, ...] | None:
        """On a CPU everybody is everywhere: `busy_elsewhere` says how much."""
        return None

    def _busy_elsewhere(self) -> float | None:
        """Share of all cores that others used since the last window ended; within a window, that of the one before."""
        now = self._clock()
        began, busy_before, own_before = self._since
        if now - began < WINDOW_S:
            return self._elsewhere
        busy, own = self._busy_s(), self._own_time()
        self._since = (now, busy, own)
        if busy is None or busy_before is None:
            self._elsewhere = None
        else:
            share = (busy[0] - busy_before[0] - (own - own_before)) / ((now - began) * busy[1])
            self._elsewhere = min(1.0, max(0.0, share))
        return self._elsewhere

    def _busy_s(self) -> tuple[float, int] | None:
        """Seconds that all cores together were busy since the start of the machine, steal included; and the cores."""
        lines = [line.split() for line in (linux.text(self._stat) or "").splitlines() if line.startswith("cpu")]
        if len(lines) < 2 or len(lines[0]) < 9:
            return None
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, lines[0][1:9])
        busy = user + nice + system + irq + softirq + steal
        if not busy + idle + iowait:  # some sandboxes show zeros
            return None
        return busy / os.sysconf("SC_CLK_TCK"), len(lines) - 1

    def _count(self) -> dict[str, int]:
        return {word: sum(_counter(path) or 0 for path in paths) for word, paths in self._counters.items()}


def _counter(path: Path) -> int | None:
    """A file that is a number, or the entry nr_throttled of a control group's cpu.stat."""
    content = linux.text(path) or ""
    if path.name == "cpu.stat":
        content = next((line.split()[1] for line in content.splitlines() if line.startswith("nr_throttled ")), "")
    return int(content) if content.isdecimal() else None


def _number(path: Path | None, unit: float) -> float | None:
    content = linux.text(path) if path else None
    return int(content) * unit if content and content.lstrip("-").isdecimal() else None


def _if_readable(path: Path) -> Path | None:
    return path if linux.text(path) else None


def _sensor(root: Path) -> Path | None:
    """The first temperature of a CPU's sensor chip: the package on Intel, the control value on AMD."""
    for chip in sorted((root / "sys/class/hwmon").glob("*")):
        if linux.text(chip / "name") in SENSORS:
            return _if_readable(chip / "temp1_input")
    return None
