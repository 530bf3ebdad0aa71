"""Values as people type them on the command line: lists, ranges, times, sizes, percentages."""

import math
import re

from ...shapes.errors import UsageError, quote
from ...shapes.suite import axis_values

LONGEST_RANGE = 10_000
"""Sizes that a..b may count; more of them is a slip of the keyboard."""


def names(text: str | None) -> list[str]:
    """Split "a,b" into its parts, each once."""
    return list(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def axis(text: str) -> tuple[str, tuple[int, ...]]:
    """Read "M=1,2,4..2048": a..b doubles when the value before a is its half, else it counts by one."""
    name, equals, values = text.partition("=")
    if not equals:
        raise UsageError(f"-a {quote(text)}: write AXIS=LIST, such as M=1,2,4..2048")
    sizes: list[int] = []
    for part in names(values):
        match = re.fullmatch(r"(-?\d{1,18})(?:\.\.(-?\d{1,18}))?", part)
        if not match:
            raise UsageError(f"-a {quote(text)}: {quote(part)} is neither a size nor a range a..b")
        first, last = int(match[1]), int(match[2] or match[1])
        if first < 1 or last < first:
            raise UsageError(f"-a {quote(text)}: {part} is not a size or a rising range of positive sizes")
        doubles = bool(sizes) and first == 2 * sizes[-1]
        if not doubles and last - first >= LONGEST_RANGE:
            raise UsageError(f"-a {quote(text)}: {part} is more than {LONGEST_RANGE} sizes; 1,2,4..2048 doubles")
        while first <= last:
            sizes.append(first)
            first = 2 * first if doubles else first + 1
    return name, axis_values(name, sizes, f"-a {quote(text)}")


def fraction(text: str, option: str) -> float:
    """Read "1%" or "0.01"; 100 % and more is a forgotten percent sign."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value < 1:
        raise UsageError(f"{option} {quote(text)}: write a percentage such as 1%")
    return value


def seconds(text: str, option: str) -> float:
    """Read "90", "90s", "9m", "1.5h" or "200ms"."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|)", text.strip())
    if not match or not 0 < float(match[1]) < math.inf:
        raise UsageError(f"{option} {quote(text)}: write a time such as 90s, 9m or 1h")
    return float(match[1]) * {"ms": 1e-3, "": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def size_bytes(text: str, option: str) -> int:
    """Read "32MiB", "256M" or "1GiB"; units are binary."""
    match = re.fullmatch(r"(\d{1,12})\s*([KMG])(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match or int(match[1]) < 1:
        raise UsageError(f"{option} {quote(text)}: write a size such as 32MiB")
    return int(match[1]) << {"K": 10, "M": 20, "G": 30}[match[2].upper()]
