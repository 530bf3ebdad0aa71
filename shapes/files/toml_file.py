"""TOML that a user wrote: a table, or one line that says why not."""

import re
import tomllib
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .file_text import DEEPEST, LONG_INTEGER, decoded, is_too_deep, read_content

_WAY_OUT = "correct the file"
_MOST_BYTES = 4 << 20
"""tomllib is written in Python, and reads a megabyte or two in a second."""

_STRING = re.compile(r""""(?:\\.|[^"\\\n])*"?|'[^'\n]*'?""")
_DEEP_KEY = re.compile(rf"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){{{DEEPEST}}}")
"""A dotted key of so many parts that tomllib, which copies every prefix of a key, would take minutes and gigabytes."""


def read_toml(path: Path, what: str = "") -> dict[str, Any]:
    """Return the table in a file; `what` says in errors what the file is.

    Raises UsageError with path and place, also where there is no such file.
    """
    try:
        content = read_content(path, _WAY_OUT, _MOST_BYTES)
    except FileNotFoundError as error:
        raise UsageError(f"cannot read {what}{' ' if what else ''}{path}: {error.strerror}") from None
    return parse_toml(decoded(content, path, _WAY_OUT), path)


def parse_toml(text: str, where: object) -> dict[str, Any]:
    """Return the table in a text that is called `where` in the UsageError for anything else."""
    if _DEEP_KEY.search(_STRING.sub("s", text)):
        raise UsageError(f"{where}: nested too deeply; {_WAY_OUT}")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: not valid TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{where}: nested too deeply; {_WAY_OUT}") from None
    except ValueError:
        raise UsageError(f"{where}: {LONG_INTEGER}; {_WAY_OUT}") from None
    if is_too_deep(found):
        raise UsageError(f"{where}: nested too deeply; {_WAY_OUT}")
    return found
