"""The form of a finding: how bad it is, what it is about, and one line of text."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad: fine to know, numbers may be off, numbers are wrong or missing."""

    PROBLEM = "problem"
    WARN = "warn"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Advice:
    """One finding. `text` says what was seen, why it matters and what to do, in one line."""

    level: Level
    topic: str
    text: str


def problem(topic: str, text: str) -> Advice:
    """Numbers are wrong, or there are none."""
    return Advice(Level.PROBLEM, topic, text)


def warn(topic: str, text: str) -> Advice:
    """Numbers may be off."""
    return Advice(Level.WARN, topic, text)


def ok(topic: str, text: str) -> Advice:
    """Fine, and good to know."""
    return Advice(Level.OK, topic, text)


def mib(size: float) -> str:
    """Write bytes in MiB."""
    return f"{size / (1 << 20):.0f} MiB"
