"""JSON objects in files that may be damaged, hostile, or written by hand: an object, or one line that says why not."""

import json
from pathlib import Path
from typing import Any

from .errors import UsageError
from .stored_file import open_regular

MOST_BYTES = 64 << 20
"""The largest file that is read: run.json of 100,000 shapes is a tenth of that."""


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a file.

    Raises FileNotFoundError where there is none, and UsageError, with path and place, for anything else that is wrong.
    """
    try:
        with open_regular(path) as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}; restore the file from a copy") from None
    return parse_object(content, path)


def parse_object(content: bytes, where: object) -> dict[str, Any]:
    """Return the object in the content of a file that is called `where` in the UsageError for anything else."""
    if len(content) > MOST_BYTES:
        raise UsageError(f"{where} is larger than {MOST_BYTES >> 20} MiB; restore the file from a copy")
    try:
        found = json.loads(content.decode("utf-8"))
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{where} line {error.lineno}, column {error.colno}: {error.msg}; restore the file from a copy"
        ) from None
    except RecursionError:
        raise UsageError(f"{where}: nested too deeply; restore the file from a copy") from None
    except ValueError as error:  # no UTF-8, or an integer of thousands of digits
        raise UsageError(f"cannot read {where}: {error}; restore the file from a copy") from None
    if not isinstance(found, dict):
        raise UsageError(f"{where}: a JSON object is expected; restore the file from a copy")
    return found
