"""JSON in files that may be damaged, hostile, or written by hand: a value, or one line that says why not."""

import json
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .file_text import LONG_INTEGER, MOST_BYTES, is_too_deep, read_content
from .stored_file import open_regular

_WAY_OUT = "restore the file from a copy"


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a file.

    Raises FileNotFoundError where there is none, and UsageError, with path and place, for anything else that is wrong.
    """
    return parse_object(read_content(path, _WAY_OUT, open_it=open_regular), path)


def parse_object(content: bytes, where: object, way_out: str = _WAY_OUT) -> dict[str, Any]:
    """Return the object in the content of a file that is called `where` in the UsageError for anything else."""
    found = parse_content(content, where, way_out)
    if not isinstance(found, dict):
        raise UsageError(f"{where}: a JSON object is expected; {way_out}")
    return found


def parse_content(content: bytes, where: object, way_out: str) -> Any:
    """Return the value in the content of a file that is called `where` in the UsageError for what is no JSON."""
    if len(content) > MOST_BYTES:
        raise UsageError(f"{where} is larger than {MOST_BYTES >> 20} MiB; {way_out}")
    try:
        return parse_value(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise UsageError(f"{where} line {error.lineno}, column {error.colno}: {error.msg}; {way_out}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {where}: {error}; {way_out}") from None
    except ValueError as error:
        raise UsageError(f"{where}: {error}; {way_out}") from None


def parse_value(text: str) -> Any:
    """Return the value of a JSON text, such as a field of a table.

    Raises ValueError (of which JSONDecodeError is one) for anything that is none, or that is nested too deeply to be
    walked through.
    """
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:
        raise ValueError(LONG_INTEGER) from None
    if is_too_deep(found):
        raise ValueError("nested too deeply")
    return found
