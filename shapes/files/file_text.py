"""What the readers of JSON, TOML and CSV have in common: files that may be damaged or hostile, with limits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import UsageError

MOST_BYTES = 64 << 20
"""The largest file that is read whole: run.json of 100,000 shapes is a tenth of that."""

DEEPEST = 50
"""Levels of nesting. What we write has eight at most, and what walks through it calls itself for each."""

LONG_INTEGER = "an integer has thousands of digits"
"""What is wrong where Python refuses to read one, which it does for the time that it takes."""


def opened(path: Path) -> BinaryIO:
    """Open a file that the user has named, which may be a pipe."""
    return path.open("rb")


def read_content(
    path: Path, way_out: str, most_bytes: int = MOST_BYTES, open_it: Callable[[Path], BinaryIO] = opened
) -> bytes:
    """Return the content of a file, as `open_it` opens it.

    Raises FileNotFoundError where there is none, and UsageError for one that cannot be read or is too large.
    """
    try:
        with open_it(path) as file:
            content = file.read(most_bytes + 1)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # a name with a null character
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}; {way_out}") from None
    if len(content) > most_bytes:
        raise UsageError(f"{path} is larger than {most_bytes >> 20} MiB; {way_out}")
    return content


def decoded(content: bytes, where: object, way_out: str) -> str:
    """Return UTF-8 as text, without the byte order mark that spreadsheets write. Raises UsageError."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{where} line {line}: not a text file in UTF-8 ({error.reason} at byte {error.start}); {way_out}"
        ) from None


def is_too_deep(value: Any) -> bool:
    """True for lists and dicts that are nested more than `DEEPEST` levels deep."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
