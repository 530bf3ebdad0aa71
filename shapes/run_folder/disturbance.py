"""What disturbed a measurement, as values, and as the text of a `disturbed` column: causes joined by `; `."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

PREEMPTED = "preempted"
"""Reason of a sample during which another process got one of our cores."""


CANARY_SLOWED = "canary slowed down"


class Cause(StrEnum):
    """What disturbed, in the words of a report on several cells."""

    CLOCK = "clock"
    PROCESSES = "other processes on the device"
    CORES = "other processes on the cores"
    CANARY = "canary's"
    SAMPLES = "samples"
    OTHER = ""


_FORMS = {
    Cause.CLOCK: re.compile(r"clock from (?P<low>\d+) to (?P<high>\d+) MHz"),
    Cause.PROCESSES: re.compile(r"(?P<count>\d+) other process(?:es)? on the device"),
    Cause.CORES: re.compile(r"other processes used (?P<percent>\d+) ?% of the cores"),
    Cause.CANARY: re.compile(rf"{CANARY_SLOWED} by (?P<parts>.+)"),
    Cause.SAMPLES: re.compile(r"(?P<what>.+) during (?P<count>\d+) of (?P<of>\d+) samples, all of them kept"),
}
"""The texts that `Disturbance` writes. What an earlier version wrote otherwise is a cause of its own."""

_PART = re.compile(r"([\d.]+) % \((\w+)\)")


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One cause and how strong it was; `what` tells causes of one kind apart.

    CLOCK      values: its least and largest clock in MHz
    PROCESSES  values: their number
    CORES      values: the share of the cores that they used, in percent
    CANARY     what: the parts that slowed down, space-separated; values: by how many percent each
    SAMPLES    what: why they do not count; values: how many of how many. All are kept, because none counts otherwise
    OTHER      what: a text of an earlier version
    """

    cause: Cause
    values: tuple[float, ...] = ()
    what: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` of a disturbance wrote."""
        for cause, form in _FORMS.items():
            if not (found := form.fullmatch(text)):
                continue
            if cause is Cause.CANARY:
                parts = _PART.findall(found["parts"])
                return cls(cause, tuple(float(percent) for percent, _ in parts), " ".join(name for _, name in parts))
            named = found.groupdict()
            what = named.pop("what", "")
            return cls(cause, tuple(map(float, named.values())), what)
        return cls(Cause.OTHER, what=text)

    def __str__(self) -> str:
        match self.cause:
            case Cause.CLOCK:
                return "clock from {:.0f} to {:.0f} MHz".format(*self.values)
            case Cause.PROCESSES:
                return f"{self.values[0]:.0f} other process{'es' if self.values[0] > 1 else ''} on the device"
            case Cause.CORES:
                return f"other processes used {self.values[0]:.0f}% of the cores"
            case Cause.CANARY:
                parts = zip(self.values, self.what.split(), strict=True)
                return f"{CANARY_SLOWED} by {', '.join(f'{percent:.1f} % ({name})' for percent, name in parts)}"
            case Cause.SAMPLES:
                return "{} during {:.0f} of {:.0f} samples, all of them kept".format(self.what, *self.values)
            case Cause.OTHER:
                return self.what

    @property
    def name(self) -> str:
        """The cause in a few words, alike for all cells that it concerns."""
        if self.cause is Cause.CANARY:
            return f"{self.cause} {self.what.replace(' ', ' and ')}"
        return self.what if self.cause in (Cause.SAMPLES, Cause.OTHER) else self.cause.value

    @property
    def kind(self) -> tuple[Cause, str]:
        """What disturbances have in common that differ in their strength only."""
        return self.cause, self.what

    @property
    def strength(self) -> float:
        """By which the worst of one kind is found: the range of a clock, else the first value."""
        if self.cause is Cause.CLOCK:
            return self.values[1] - self.values[0]
        return self.values[0] if self.values else 0.0


def disturbances(text: str) -> list[Disturbance]:
    """Read the text of a `disturbed` column."""
    return [Disturbance.parse(cause) for cause in text.split("; ") if cause]


def by_others(text: str) -> bool:
    """Return whether a `disturbed` column says that other processes were seen: stopping them helps."""
    return any(one.cause in (Cause.PROCESSES, Cause.CORES) or one.what == PREEMPTED for one in disturbances(text))


def worst(texts: Iterable[str]) -> str:
    """Join the disturbances of several texts: the worst of each kind, in the order in which the kinds are met."""
    found: dict[tuple[Cause, str], Disturbance] = {}
    for text in texts:
        for one in disturbances(text):
            found[one.kind] = max(found.get(one.kind, one), one, key=lambda each: each.strength)
    return joined(found.values())


def joined(found: Iterable[Disturbance]) -> str:
    """Write the text of a `disturbed` column; "" when nothing disturbed."""
    return "; ".join(map(str, found))
