"""What Linux reports of the host: cores, load, clock settings, container quota, memory. Unknown is None.

Every function takes the `root` that /proc and /sys lie under, so that tests can bring their own.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")

CGROUPS = Path("sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One machine as this process sees it. `usable_cores` are those that it may run on, `quota_cores` the CPU time
    that its container may use per unit of time (None: no limit below `usable_cores`).
    """

    cores: int
    usable_cores: int
    quota_cores: float | None
    load_1min: float | None
    governor: str | None
    boost: bool | None
    is_virtual: bool | None
    memory_available_bytes: int | None


def describe(root: Path = ROOT) -> HostFacts:
    """Look at the host."""
    usable = usable_cores()
    quota = quota_cores(root)
    return HostFacts(
        cores=os.cpu_count() or usable,
        usable_cores=usable,
        quota_cores=quota if quota is not None and quota < usable else None,
        load_1min=_load(root),
        governor=governor(root),
        boost=boost(root),
        is_virtual=_is_virtual(root),
        memory_available_bytes=memory_available_bytes(root),
    )


def usable_cores() -> int:
    """Count the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def first_core() -> int:
    """The lowest core that this process may run on."""
    return min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


def governor(root: Path = ROOT) -> str | None:
    """Name of the frequency governor of our first core ("performance", "schedutil", ...)."""
    return text(root / f"sys/devices/system/cpu/cpu{first_core()}/cpufreq/scaling_governor")


def boost(root: Path = ROOT) -> bool | None:
    """Tell whether clocks above the nominal one are allowed."""
    cpu = root / "sys/devices/system/cpu"
    if (disabled := text(cpu / "intel_pstate/no_turbo")) is not None:
        return disabled == "0"
    enabled = text(cpu / "cpufreq/boost")
    return None if enabled is None else enabled == "1"


def quota_cores(root: Path = ROOT) -> float | None:
    """CPU time that the container may use per unit of time, in cores; the strictest of all groups that we are in."""
    limits = []
    for folder in cgroup_folders(root):
        allowed, _, period = (text(folder / "cpu.max") or "").partition(" ")  # version 2: "max 100000"
        if not period:  # version 1: -1 is no limit
            allowed, period = (text(folder / f"cpu.cfs_{part}_us") or "" for part in ("quota", "period"))
        if allowed.isdecimal() and period.isdecimal() and int(period):
            limits.append(int(allowed) / int(period))
    return min(limits, default=None)


def cgroup_folders(root: Path = ROOT) -> Iterator[Path]:
    """Folders of the control groups that account our CPU time, from our own up to the top."""
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for mount in ("", "unified") if not controllers else ("cpu", "cpu,cpuacct"):
            top = root / CGROUPS / mount
            inside = Path(path.lstrip("/"))
            yield from (top / part for part in (inside, *inside.parents) if (top / part).is_dir())


def text(path: Path) -> str | None:
    """Content of a small file, stripped; None when it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _load(root: Path) -> float | None:
    words = (text(root / "proc/loadavg") or "").split()
    return float(words[0]) if words else None


def _is_virtual(root: Path) -> bool | None:
    """x86 says it in the flags of its cores; elsewhere it is unknown."""
    info = text(root / "proc/cpuinfo") or ""
    flags = next((line for line in info.splitlines() if line.startswith("flags")), None)
    return None if flags is None else "hypervisor" in flags.split()


def memory_available_bytes(root: Path = ROOT) -> int | None:
    """Memory that can be had without swapping."""
    for line in (text(root / "proc/meminfo") or "").splitlines():
        name, _, size = line.partition(":")
        if name == "MemAvailable":
            return int(size.split()[0]) << 10
    return None
