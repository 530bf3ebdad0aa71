"""The form of a finding: how bad it is, what it is about, and one line of text."""

from dataclasses import dataclass

LEVELS = ("problem", "warn", "ok")
"""How bad: numbers are wrong or missing, numbers may be off, fine to know."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One finding, of one of the `LEVELS`. `text` says what was seen, why it matters and what to do, in one line."""

    level: str
    topic: str
    text: str


def problem(topic: str, text: str) -> Advice:
    """Numbers are wrong, or there are none."""
    return Advice("problem", topic, text)


def warn(topic: str, text: str) -> Advice:
    """Numbers may be off."""
    return Advice("warn", topic, text)


def ok(topic: str, text: str) -> Advice:
    """Fine, and good to know."""
    return Advice("ok", topic, text)


def mib(size: float) -> str:
    """Write bytes in MiB."""
    return f"{size / (1 << 20):.0f} MiB"
