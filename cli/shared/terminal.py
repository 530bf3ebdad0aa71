"""What goes to a terminal: every character that a reader would not see is written out, but for styles of our own.

Names, reasons and texts come from run folders and documents of others, and a terminal obeys what is in them: it moves
the cursor, hides text, sets titles and clipboards.
"""

import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from ...reports.render.visible import visible

_ESCAPE = f"\ue000{secrets.token_hex(8)}"
"""Stands for the escape character where we mean it, until it is written. Nobody can know it before."""

_OWN_STYLES = re.compile(rf"{_ESCAPE}\[[0-9;]*m")


def style(text: str, **options: Any) -> str:
    """Style a text as `click.style` does, for streams of `visible_streams`."""
    return own(click.style(visible(text), **options))


def own(rendered: str) -> str:
    """Mark all escape characters of a text as ours: it must come from a renderer that has made others visible."""
    return rendered.replace("\x1b", _ESCAPE) if isinstance(sys.stdout, _VisibleStream) else rendered


class _VisibleStream:
    """A text stream whose writer is `visible`; styles are dropped where the stream is not a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str | bytes) -> int:
        """Write a text, in UTF-8 where it is bytes (as click completes command lines); returns its length."""
        shown = visible(text.decode() if isinstance(text, bytes) else text)
        self.stream.write(shown.replace(_ESCAPE, "\x1b") if self.stream.isatty() else _OWN_STYLES.sub("", shown))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # click would write past us where it does not like the encoding
            raise AttributeError(name)
        return getattr(self.stream, name)


@contextmanager
def visible_streams() -> Iterator[None]:
    """Let stdout and stderr be `_VisibleStream`s for a while; one that the caller closed (`>&-`) leads nowhere."""
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout, sys.stderr = (_VisibleStream(stream or nowhere) for stream in before)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
