"""Silence: what libraries print on the way to an answer is none."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def silenced() -> Iterator[None]:
    """Send what is printed nowhere: from Python, and below it, where compilers and drivers print."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(number) for number in (1, 2)]
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        try:
            for number in (1, 2):
                os.dup2(nowhere.fileno(), number)
            with redirect_stdout(nowhere), redirect_stderr(nowhere):
                yield
        finally:
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)
