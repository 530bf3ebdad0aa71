"""A probe: a launch whose traffic or work is known exactly, so that its time is a statement about the device."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Pattern(StrEnum):
    """What a sweep over memory does. A copy counts bytes read plus bytes written."""

    READ = "read"
    COPY = "copy"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Probe:
    """One launch, the bytes that it reads and writes, and how, in words for the column `source`.

    `operations` is the number of device operations that the launch queues, at most; `lane_operations` the vector
    instructions of single lanes in it, where those are what it is for.
    """

    run: Callable[[], object]
    moved_bytes: int
    how: str
    operations: int = 1
    lane_operations: int = 0
