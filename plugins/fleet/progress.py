"""Progress of a fleet: one bar over all of its devices."""

from collections.abc import Mapping

from ...cli.shared.progress import Progress


class FleetProgress(Progress):
    """Observer of a fleet."""

    def received(self, units: int) -> None:
        """Move the bar."""
        self._done += units
        self._bar.update(self._task, completed=self._done)

    def looked(self, underway: int, workers: Mapping[str, int], what: str) -> None:
        """Show the progress of all devices together, and what one of them does."""
        if not workers:
            return
        several = ", ".join(f"{count} x {arch}" for arch, count in sorted(workers.items()))
        devices = several if len(workers) > 1 else f"{sum(workers.values())} at work"
        self._bar.update(self._task, completed=min(self._done + underway, self._total))
        self.doing(f"{devices}; {what}" if what else devices, underway)
