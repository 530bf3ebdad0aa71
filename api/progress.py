"""Progress of a sweep on stderr: a bar with the time left on a terminal, a line now and then elsewhere."""

import time
from collections import Counter
from importlib.util import find_spec
from typing import IO, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

from ..harness.sweep.events import Doing, Event, Finished, Grown, Remarked, Started
from ..reports.render.visible import visible
from ..shapes.verdict import Verdict, reason_groups, words_and_sizes

LINE_EVERY_S = 20.0
"""Without a terminal (a job's log) one line is written so often."""


class _Units(MofNCompleteColumn):
    """Units that are done, of all, once it is known how many there are."""

    def render(self, task: Task) -> Text:
        return Text("") if task.total is None else super().render(task)


class _Clock(ProgressColumn):
    """Time since the beginning. It goes on when all units are done, for the ceilings that are measured after them."""

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()

    def render(self, task: Task) -> Text:
        return Text(clock(time.monotonic() - self._began), style="progress.elapsed")


class _Left(TimeRemainingColumn):
    """Time until the deadline, or that the units at hand still take, where their pace is known."""

    def __init__(self, deadline: float | None) -> None:
        super().__init__()
        self._deadline = deadline

    def render(self, task: Task) -> Text:
        left = task.time_remaining
        if self._deadline is not None:
            left = max(0.0, self._deadline - time.monotonic())
        if task.total is None or task.finished or left is None:
            return Text("")
        return Text(f"{clock(left)} left", style="progress.remaining")


def clock(seconds: float) -> str:
    """Write seconds as h:mm:ss."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


class Progress:
    """Observer of what is measured, on one device or on many: a bar on a terminal or in a notebook; else, lines."""

    def __init__(self, stream: IO[str], deadline: float | None = None) -> None:
        """Show progress on `stream`; `deadline` (monotonic seconds) is the end of a sweep that fills its time."""
        # Rich moves the cursor of the terminal itself: what is given to it here is made visible before.
        self._console = Console(file=getattr(stream, "stream", stream))
        self._bar = Bar(
            *(BarColumn(bar_width=16), _Units(), _Clock(), _Left(deadline)),
            TextColumn("[dim]{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            console=self._console,
            expand=True,
            transient=True,
            disable=not (self._console.is_terminal or (self._console.is_jupyter and find_spec("ipywidgets"))),
        )
        self._task: TaskID = self._bar.add_task("", total=None)
        self._begun = self._last_line = time.monotonic()
        self._failures: Counter[tuple[object, ...]] = Counter()
        self._declined: list[tuple[str, str]] = []
        self._deadline = deadline
        self._total = self._done = self._done_before = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._tell_declined()
        self._bar.stop()

    def remark(self, text: str) -> None:
        """Write a line above the bar."""
        self._console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def __call__(self, event: Event) -> None:
        """Show what has happened; units of an earlier run count as done, but not for the pace."""
        match event:
            case Started(total, finished):
                self._total, self._done, self._done_before = total, finished, finished
                self._begun = time.monotonic()
                self._bar.reset(self._task, total=total, completed=finished)
                if finished:
                    self.remark(f"{finished} of {total} units are stored already")
            case Grown(total):
                self._total = total
                self._bar.update(self._task, total=total)
            case Doing(what):
                self.doing(what)
            case Finished():
                self._finish(event)
            case Remarked(text):
                self.remark(text)

    def doing(self, what: str) -> None:
        """Show what is done now; without a bar as a line, from time to time."""
        self._bar.update(self._task, description=escape(visible(what)))
        now = time.monotonic()
        if not self._bar.disable or now - self._last_line < LINE_EVERY_S:
            return
        self._last_line = now
        if not self._total:  # it is not planned yet
            self.remark(what)
            return
        fresh = self._done - self._done_before
        left_s = (now - self._begun) / fresh * (self._total - self._done) if fresh else None
        if self._deadline is not None:
            left_s = max(0.0, self._deadline - now)
        left = "" if left_s is None else f", about {left_s:.0f} s left"
        self.remark(f"{self._done} of {self._total} units{left}: {what}")

    def _finish(self, event: Finished) -> None:
        """Move the bar; a failure is told once per provider and reason.

        What is unsupported is told before whatever comes next: a line for each reason, with all who have it.
        """
        self._done += event.units
        self._bar.update(self._task, completed=self._done)
        cell, verdict, reason = event.cell, event.verdict, event.reason
        if verdict is not Verdict.UNSUPPORTED:
            self._tell_declined()
        if verdict is Verdict.PASSED or cell is None:
            return
        key = (cell.provider, verdict.value, words_and_sizes(reason)[0] if verdict is Verdict.UNSUPPORTED else reason)
        self._failures[key] += 1
        if self._failures[key] > 1:
            return
        if verdict is Verdict.UNSUPPORTED:
            self._declined.append((cell.provider, reason))
        else:
            self.remark(event.failure)

    def _tell_declined(self) -> None:
        for reason, names, _ in reason_groups(self._declined):
            self.remark(f"{', '.join(names)} unsupported: {reason}")
        self._declined.clear()
