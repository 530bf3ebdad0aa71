"""Values as people type them on the command line, or as Python has them: lists, ranges, times, sizes, percentages."""

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from .errors import UsageError, quote

LONGEST_RANGE = 10_000
"""Sizes that a..b may count; more of them is a slip of the keyboard."""

LONGEST_S = 1_000_000


def names(text: str | None) -> list[str]:
    """Split "a,b" into its parts, each once."""
    return list(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def axis(text: str | Path) -> tuple[str, tuple[int, ...]]:
    """Read "M=1,2,4..2048": a..b doubles when the value before a is its half, else it counts by one."""
    name, equals, values = str(text).partition("=")
    if not equals:
        raise UsageError(f"--axis {quote(text)}: write AXIS=LIST, such as M=1,2,4..2048")
    sizes: list[int] = []
    for part in names(values):
        match = re.fullmatch(r"(-?\d{1,18})(?:\.\.(-?\d{1,18}))?", part)
        if not match:
            raise UsageError(f"--axis {quote(text)}: {quote(part)} is neither a size nor a range a..b")
        first, last = int(match[1]), int(match[2] or match[1])
        if first < 1 or last < first:
            raise UsageError(f"--axis {quote(text)}: {part} is not a size or a rising range of positive sizes")
        doubles = bool(sizes) and first == 2 * sizes[-1]
        if not doubles and last - first >= LONGEST_RANGE:
            raise UsageError(f"--axis {quote(text)}: {part} is more than {LONGEST_RANGE} sizes; 1,2,4..2048 doubles")
        while first <= last:
            sizes.append(first)
            first = 2 * first if doubles else first + 1
    return name, axis_values(name, sizes, f"--axis {quote(text)}")


def axis_values(name: str, values: object, where: str) -> tuple[int, ...]:
    """Check the values of an axis: a list of positive whole numbers. Returns them rising, each once."""
    if not isinstance(values, list) or not values:
        raise UsageError(f"{where}: axis {name} needs a list of sizes")
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"{where}: {name}={quote(value)} is not a size: give positive whole numbers")
    return tuple(sorted(set(values)))


def axes(given: object, option: str) -> dict[str, tuple[int, ...]]:
    """Read {"M": [1, 16]}, "M=1,16", or several of the latter, whose values add up."""
    found: dict[str, tuple[int, ...]] = {}
    if isinstance(given, Mapping):
        return {str(name): _sizes(str(name), sizes, option) for name, sizes in given.items()}
    for name, sizes in map(axis, listed(given, option)):
        found[name] = tuple(sorted({*found.get(name, ()), *sizes}))
    return found


def _sizes(name: str, sizes: object, option: str) -> tuple[int, ...]:
    if isinstance(sizes, str):
        return axis(f"{name}={sizes}")[1]
    given = list(sizes) if isinstance(sizes, Iterable) else [sizes]
    return axis_values(name, list(map(whole, given)), option)


def whole(value: Any) -> Any:
    """Turn a whole number of numpy, say, into Python's; what is none stays as it is."""
    if isinstance(value, bool):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value


def sizes_text(sizes: Sequence[int]) -> str:
    """Write rising sizes so that `axis` reads them, those in a row as a..b."""
    rows: list[tuple[int, int]] = []
    for size in sizes:
        if rows and size == rows[-1][1] + 1 and size - rows[-1][0] < LONGEST_RANGE:
            rows[-1] = rows[-1][0], size
        else:
            rows.append((size, size))
    parts, last = list[str](), 0
    for first, end in rows:
        if first == 2 * last:  # a..b would double
            parts.append(str(first))
            first += 1
        if first <= end:
            parts.append(f"{first}..{end}" if first < end else str(first))
        last = end
    return ",".join(parts)


def listed(given: object, option: str) -> list[str | Path]:
    """Return texts and paths of a list, or the only one."""
    found: list[str | Path] = []
    for one in given if isinstance(given, Iterable) and not isinstance(given, str | Path) else [given]:
        if not isinstance(one, str | Path):
            raise UsageError(f"{option} {quote(one)}: give a text, or a list of texts")
        found.append(one)
    return found


def plain(value: float) -> str:
    """Write a number so that it reads as the same one, without an exponent."""
    return format(Decimal(repr(float(value))).normalize(), "f")


def _typed(value: object) -> str:
    return plain(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value).strip()


def fraction(value: str | float, option: str) -> float:
    """Read "1%", "0.01" or 0.01; 100 % and more is a forgotten percent sign."""
    text = _typed(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    read = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < read < 1:
        raise UsageError(f"{option} {quote(text)}: write a percentage such as 1%")
    return read


def seconds(value: str | float, option: str) -> float:
    """Read "90", "90s", "9m", "1.5h", "200ms" or 90.0; more than `LONGEST_S` is a slip of the keyboard."""
    text = _typed(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|)", text)
    read = float(match[1]) * {"ms": 1e-3, "": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if not 0 < read <= LONGEST_S:
        raise UsageError(f"{option} {quote(text)}: write a time such as 90s, 9m or 1h, up to {LONGEST_S // 3600}h")
    return read


def size_bytes(value: str | int, option: str) -> int:
    """Read "32MiB", "256M", "1GiB", or a number of bytes, "4096B" as a text; units are binary."""
    text = f"{value}B" if isinstance(value, int) else str(value).strip()
    match = re.fullmatch(r"(\d{1,21})\s*(?:([KMG])(?:i?B)?|B)", text, re.IGNORECASE)
    if not match or int(match[1]) < 1:
        raise UsageError(f"{option} {quote(text)}: write a size such as 32MiB")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[(match[2] or "").upper()]


def size_text(count: int) -> str:
    """Write a number of bytes so that `size_bytes` reads it, in the largest unit that it is whole in."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if not count % (1 << shift):
            return f"{count >> shift}{unit}"
    return f"{count}B"
