"""Progress of a fleet: one bar over all of its devices."""

from ...cli.shared.progress import Progress


class FleetProgress(Progress):
    """Observer of a fleet."""

    def received(self, units: int) -> None:
        """Move the bar."""
        self._done += units
        self._bar.update(self._task, completed=self._done)

    def looked(self, underway: int, busy: int, what: str) -> None:
        """Show the progress of all devices together, and what one of them does."""
        if busy:
            self._bar.update(self._task, completed=min(self._done + underway, self._total))
            self.doing(f"{busy} at work; {what}" if what else f"{busy} at work", underway)
