"""Failures of a command: a line on stderr, and an exit code."""

import errno
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from ..shapes.errors import Interrupted, RooflensError

LONGEST = 2_000
"""Characters of an error line; a longer one, such as one that repeats an option of 100 KB, is cut in the middle."""


def explained(error: BaseException) -> tuple[str, int]:
    """Return what to say of an error, and the exit code."""
    match error:
        case RooflensError():
            return str(error), error.exit_code
        case KeyboardInterrupt():
            return "interrupted", Interrupted.exit_code
        case OSError():
            return _system_error(error), 1
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] != "rooflens":
            package = name.partition(".")[0]
            return f"this command needs the package {package}, which is not installed: pip install {package}", 1
        case _:
            return f"{_unexpected(error)}; for the traceback, run it again as rooflens --debug ...", 1


def fail(message: str, exit_code: int) -> int:
    """Print a message as one line, and return the exit code."""
    line = " ".join(message.split())
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"
    with suppress(OSError):  # nobody listens; the exit code still says it
        print(f"rooflens: error: {line}", file=sys.stderr, flush=True)
    return exit_code


def _system_error(error: OSError) -> str:
    """Say what the system refused and for which file, with the way out of a full disk."""
    what = error.strerror or str(error)
    where = f"{error.filename}: " if error.filename is not None else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{where}{what}; free some space, then continue an unfinished run with --resume"
    return f"{where}{what}"


def _unexpected(error: BaseException) -> str:
    """Name the exception, the first line of its text and the place it came from."""
    text = str(error).strip()
    frames = traceback.extract_tb(error.__traceback__)
    what = f"unexpected {type(error).__name__}" + (f": {text.splitlines()[0]}" if text else "")
    return what + (f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else "")
