"""Progress of a comparison on stderr: rounds of all versions, and units within the round at hand."""

import time
from typing import IO

from ...harness.compare.spec import CompareSpec
from ..shared.progress import CountedProgress


class CompareProgress(CountedProgress):
    """Observer of `harness.compare.runner`: a bar on a terminal, a line per finished round elsewhere."""

    def __init__(self, stream: IO[str], what: CompareSpec) -> None:
        super().__init__(stream, what.rounds * len(what.commits), "[dim]{task.description}")
        self._began = time.monotonic()

    def started(self, finished: int) -> None:
        """Show how many rounds an earlier call has finished."""
        self._count(finished)
        if finished:
            self.remark(f"{finished} of {self._total} rounds are stored already")

    def doing(self, what: str) -> None:
        """Show what is prepared."""
        self._describe(what)
        self.remark(what)

    def measuring(self, arm: str, number: int, rows: int) -> None:
        """Show which round of which version runs."""
        self._describe(f"round {number + 1} of {arm}: {rows} units stored")

    def finished(self, arm: str, number: int) -> None:
        """Count a round."""
        self._count(self._done + 1)
        if not self._console.is_terminal:
            elapsed = time.monotonic() - self._began
            self.remark(f"{self._done} of {self._total}: round {number + 1} of {arm}, {elapsed:.0f} s")
