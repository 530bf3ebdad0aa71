"""What was measured again because it had failed: lines of events.log, for the failures are no longer in cells.csv."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..files.stored_file import read_stored
from ..verdict import RETRIED
from .manifest import EVENTS


class Retry(NamedTuple):
    """A round of a cell that had ended as `verdict`; `place` joins the fields of its cell, provider and cache last."""

    round: int
    place: str
    verdict: str
    reason: str

    @classmethod
    def of(cls, round_: int | str, place: Iterable[str], verdict: str, reason: str) -> "Retry":
        """Name a unit by the fields of its cell, without empty ones."""
        return cls(int(round_), " ".join(filter(None, place)), str(verdict), reason)

    @property
    def provider(self) -> str:
        """Provider of the cell."""
        return self.place.split(" ")[-2]

    def __str__(self) -> str:
        """Write the text of an event, which `retries` reads."""
        return f"retry round {self.round} of {self.place}: {self.verdict}: {self.reason}"


_LINE = re.compile(rf" retry round (\d{{1,9}}) of ([^ ]+ .+?): ({'|'.join(RETRIED)}): (.*)")
_LONGEST = 4000
"""Characters of a line that are looked at: a run folder may come from anybody."""


def retries(folder: Path) -> tuple[Retry, ...]:
    """Return what the events of a run folder say; nothing where they are missing or cannot be read.

    A unit is named once, however often it was measured again: events of a fleet repeat those of its workers.
    """
    found: dict[tuple[int, str], Retry] = {}
    with suppress(OSError):
        for line in read_stored(folder / EVENTS).decode("utf-8", "replace").splitlines():
            if match := _LINE.search(line[:_LONGEST]):
                retry = Retry(int(match[1]), *match.groups()[1:])
                found[retry.round, retry.place] = retry
    return tuple(found.values())
