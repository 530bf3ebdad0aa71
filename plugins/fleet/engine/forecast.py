"""How long the rest of a sweep takes, from what its jobs and those of earlier runs took."""

from collections.abc import Iterable, Mapping

from .jobs import Job


class Forecast:
    """Expected seconds of jobs: what the same job took in an earlier run, else the mean of jobs of its kind so far.

    `known` has seconds by the key of the job. Each step costs the same however many jobs there are.
    """

    def __init__(self, known: Mapping[str, float] | None = None) -> None:
        self._known = dict(known or {})
        self._seconds: dict[object, float] = {}
        self._finished: dict[object, int] = {}
        self._waiting: dict[object, int] = {}
        self._waiting_known = 0.0
        self._open: set[str] = set()

    def add(self, jobs: Iterable[Job]) -> None:
        """Add jobs that are to be measured."""
        for job in jobs:
            if job.key in self._open:
                continue
            self._open.add(job.key)
            if job.key in self._known:
                self._waiting_known += self._known[job.key]
            else:
                self._waiting[job.kind] = self._waiting.get(job.kind, 0) + 1

    def finished(self, job: Job, seconds: float) -> None:
        """Learn from a finished job."""
        self.drop(job)
        for kind in (job.kind, None):
            self._seconds[kind] = self._seconds.get(kind, 0.0) + seconds
            self._finished[kind] = self._finished.get(kind, 0) + 1

    def drop(self, job: Job) -> None:
        """Remove a job."""
        if job.key not in self._open:
            return
        self._open.discard(job.key)
        if job.key in self._known:
            self._waiting_known -= self._known[job.key]
        else:
            self._waiting[job.kind] -= 1

    def seconds(self, devices: int) -> float | None:
        """Return the seconds that `devices` still take for all jobs; None while nothing is known."""
        if not devices:
            return None
        overall = self._mean(None)
        left = self._waiting_known
        for kind, count in self._waiting.items():
            if not count:
                continue
            mean = self._mean(kind) if self._finished.get(kind) else overall
            if mean is None:
                return None
            left += count * mean
        return max(0.0, left) / min(devices, max(1, len(self._open)))

    def _mean(self, kind: object) -> float | None:
        count = self._finished.get(kind, 0)
        return self._seconds[kind] / count if count else None
