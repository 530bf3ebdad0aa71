"""What telemetry says, whoever it comes from: one reading, the board's fixed figures, and who else is on the device."""

import os
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

SLOWDOWNS = (
    "thermal",  # too hot: the driver or the chip lowers the clock
    "hardware",  # a signal from the board: power brake, external slowdown, processor hot
    "power_cap",  # at its power limit, as a large GEMM legitimately is
    "board_limit",
    "reliability",  # at its voltage limit, usual on cards for the desktop
    "sync_boost",  # held at the clock of another GPU
    "application_clocks",  # somebody has set the clocks
    "display_clocks",
    "cpu_quota",  # the container's CPU time was used up for a while
    "unspecified",  # slowed down, and the driver does not say why
)
"""The words of `Reading.slowdown`, in their order there."""

INVALIDATING = frozenset({"thermal", "hardware"})
"""Slowdowns under which a sample does not count. The others are only labelled."""

STARTED_BY: list[int] = []
"""Process that started this one, of a worker."""

PROCESS_INTERVAL_S = 1.0
"""The list of processes is asked for at most this often: it costs some ten times what the other queries do."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of a device at one moment, in base units; None is unknown.

    `clock_hz` is the clock of the SMs or engines (the mean over the dies of one package) or of a core,
    `slowdown` holds words of SLOWDOWNS, `other_processes` counts the compute processes on the device beside this one,
    and `busy_elsewhere` (CPU only) is the share of this machine's cores, 0 to 1, that others used since the reading
    before, time stolen by the hypervisor included.
    """

    clock_hz: float | None = None
    memory_clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    slowdown: tuple[str, ...] = ()
    other_processes: int | None = None
    busy_elsewhere: float | None = None


@dataclass(frozen=True, slots=True)
class Board:
    """What stays as it is during a run, in base units; None is unknown.

    `partition` says how an AMD package is split ("SPX, NPS1"), `mig` whether an NVIDIA GPU is.
    """

    driver: str | None = None
    max_clock_hz: float | None = None
    max_memory_clock_hz: float | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    slowdown_temperature_c: float | None = None
    ecc: bool | None = None
    mig: bool | None = None
    persistence: bool | None = None
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """A process that computes on the device; `name` is empty and `memory_bytes` None where the driver hides them."""

    pid: int
    name: str = ""
    memory_bytes: int | None = None


def in_order(words: Iterable[str]) -> tuple[str, ...]:
    """Put words of SLOWDOWNS into their order, each once."""
    found = set(words)
    return tuple(word for word in SLOWDOWNS if word in found)


def scaled(value: float | None, unit: float) -> float | None:
    """Turn a driver's figure into base units; unknown stays unknown."""
    return None if value is None else value * unit


Query = Callable[[], Any]
"""One question to a driver. None when it fails; a question that the driver refuses is never put again."""


def query(ask: Query, is_refusal: Callable[[Exception], bool]) -> Query:
    """Return what asks a driver."""
    is_refused = False

    def put() -> Any:
        nonlocal is_refused
        try:
            return None if is_refused else ask()
        except Exception as error:
            is_refused = is_refusal(error)
            return None

    return put


class OtherProcesses:
    """Count the processes on a device that are not this one or its worker's parent, at most every PROCESS_INTERVAL_S.

    The parent of a worker imports the files of providers too, and a library that asks CUDA for the device as it is
    imported leaves a context there, which runs nothing.

    Drivers may report the pids of the host to a container (NVML did for years, amdgpu's does), so that our own pid is
    not in the list although we are. What is certain is that a process with a context on the device has exactly one
    entry: while we hold one, an entry is ours whatever its number, and the others are all but one. So this process
    never counts itself as a foreign one. A list that lacks even our entry says nothing: unknown.
    """

    def __init__(
        self,
        running: Callable[[], Iterable[Any] | None],
        pid_of: Callable[[Any], int],
        holds_context: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._running, self._pid_of, self._holds_context, self._clock = running, pid_of, holds_context, clock
        self._due = -float("inf")
        self._count: int | None = None

    def count(self) -> int | None:
        """Return how many there are; None when unknown."""
        now = self._clock()
        if now >= self._due:
            self._due = now + PROCESS_INTERVAL_S
            found = self._running()
            pids = None if found is None else [self._pid_of(one) for one in found]
            self._count = None if pids is None else others(pids, _ours(), self._holds_context())
        return self._count


def _ours() -> set[int]:
    """This process and, of a worker, the one that started it."""
    return {os.getpid(), *STARTED_BY}


def others(pids: Collection[int], ours: Collection[int], holds_context: bool) -> int | None:
    """Count the entries of `pids` that are not ours: all but one when ours is among them under a number of the host."""
    distinct = set(pids)
    foreign = distinct - set(ours)
    if not holds_context or foreign != distinct:
        return len(foreign)
    return len(distinct) - 1 if distinct else None
