"""Measuring a comparison on one device of this machine."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol

import click

from ...harness.compare.runner import CompareRunner
from ...harness.compare.spec import CompareSpec, scratch_of
from ...kernels.cache_folder import make_private
from ...shapes.errors import Interrupted
from ..report.stored_comparison import go_on
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


class Measuring(Protocol):
    """What measures the rounds of a comparison. `unmeasured` says what is not measured because of missing devices."""

    unmeasured: str
    should_stop: Callable[[], bool]

    def divided(self, what: CompareSpec) -> CompareSpec:
        """Return the comparison, divided for the devices."""

    def measure(self, folder: Path, what: CompareSpec) -> bool:
        """Measure a comparison in `folder`; True when it is complete."""

    def end(self, complete: bool) -> None:
        """Remove what only the measuring needed."""


class OneDevice:
    """Measures on this machine, in the environment of this process. `unmeasured` stays "": no device is lost."""

    unmeasured = ""

    def __init__(self, folder: Path, deadline: float | None, retry: tuple[str, ...]) -> None:
        self._folder, self._deadline, self._retry = folder, deadline, retry
        self._runners: list[CompareRunner] = []
        self._scratch = scratch_of(folder.resolve())
        self.should_stop: Callable[[], bool] = lambda: False

    def divided(self, what: CompareSpec) -> CompareSpec:
        """Return the comparison undivided."""
        return what

    def measure(self, folder: Path, what: CompareSpec) -> bool:
        """Measure a comparison in `folder`; True when it is complete."""
        make_private(self._scratch, "ROOFLENS_CACHE")  # programs are run from there
        with CompareProgress(sys.stderr, what) as progress:
            self._runners.append(CompareRunner(folder, what, progress, self._scratch, self._retry))
            try:
                return self._runners[-1].run(self.should_stop, self._deadline)
            except Interrupted as error:
                raise Interrupted(f"{error}; resume with: {go_on(self._folder, False)}") from None

    def end(self, complete: bool) -> None:
        """Remove checkouts and environments, unless a later call resumes the comparison."""
        if complete:
            self._runners[0].clean_up()
        else:
            click.echo(f"checkouts and environments stay in {self._scratch} until it is resumed", err=True)
