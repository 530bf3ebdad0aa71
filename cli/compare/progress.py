"""Progress of a comparison on stderr: rounds of all versions, and units within the round at hand."""

import time
from types import TracebackType
from typing import IO

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from ...harness.compare.spec import CompareSpec
from ...reports.render.visible import visible
from ..shared.terminal import console


class Progress:
    """Observer of `harness.compare.runner`: a bar on a terminal, a line per finished round elsewhere."""

    def __init__(self, stream: IO[str], what: CompareSpec) -> None:
        self._console = console(stream)
        self._total = what.rounds * len(what.commits)
        self._bar = Bar(
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.description}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=self._total)
        self._done = 0
        self._began = time.monotonic()

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def started(self, finished: int) -> None:
        """Show how many rounds an earlier call has finished."""
        self._done = finished
        self._bar.update(self._task, completed=finished)
        if finished:
            self._say(f"{finished} of {self._total} rounds are stored already")

    def doing(self, what: str) -> None:
        """Show what is prepared."""
        self._bar.update(self._task, description=escape(visible(what)))
        self._say(what)

    def measuring(self, arm: str, number: int, rows: int) -> None:
        """Show which round of which version runs."""
        self._bar.update(self._task, description=escape(f"round {number + 1} of {arm}: {rows} units stored"))

    def finished(self, arm: str, number: int) -> None:
        """Count a round."""
        self._done += 1
        self._bar.update(self._task, completed=self._done)
        if not self._console.is_terminal:
            elapsed = time.monotonic() - self._began
            self._say(f"{self._done} of {self._total}: round {number + 1} of {arm}, {elapsed:.0f} s")

    def _say(self, text: str) -> None:
        self._console.print(visible(text), markup=False, highlight=False, soft_wrap=True)
