"""Progress of a fleet: one bar over all of its devices, with a forecast from the times of its jobs."""

from collections.abc import Mapping
from typing import IO

from rich.progress import ProgressColumn, Task
from rich.text import Text

from ...cli.shared.progress import Progress, clock


class _Forecast(ProgressColumn):
    """Time left by the forecast of the jobs; the pace of the bar says little while thousands of units are underway."""

    def __init__(self) -> None:
        super().__init__()
        self.left_s: float | None = None

    def render(self, task: Task) -> Text:
        """Show it once it is known."""
        known = self.left_s is not None and not task.finished and task.total is not None
        return Text(f"{clock(self.left_s or 0.0)} left" if known else "", style="progress.remaining")


class FleetProgress(Progress):
    """Observer of a fleet."""

    def __init__(self, stream: IO[str]) -> None:
        self._forecast = _Forecast()
        super().__init__(stream, self._forecast)

    def received(self, units: int) -> None:
        """Move the bar."""
        self._done += units
        self._bar.update(self._task, completed=self._done)

    def looked(self, underway: int, workers: Mapping[str, int], left_s: float | None, what: str) -> None:
        """Show the progress of all devices together, and what one of them does."""
        self._forecast.left_s = left_s
        if not workers:
            return
        several = ", ".join(f"{count} x {arch}" for arch, count in sorted(workers.items()))
        devices = several if len(workers) > 1 else f"{sum(workers.values())} at work"
        self._bar.update(self._task, completed=min(self._done + underway, self._total))
        self._show(f"{devices}; {what}" if what else devices, left_s, underway)
