"""What a fleet measures: its jobs, where they are stored, and how its workers are started."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .compare_store import CompareStore
from .job_scheduler import JobScheduler
from .jobs import Job, SweepJob
from .protocol import WorkerSpec
from .result_store import ResultStore


@dataclass(slots=True)
class JobQueue:
    """What devices of one architecture measure, at most `limit` of them (None: all).

    `more` is asked for further jobs when everything is stored, as in `Sweep`. `job_noun` is the plural noun for jobs in
    messages.
    """

    arch: str
    store: ResultStore | CompareStore
    spec: WorkerSpec
    limit: int | None = None
    more: Callable[[], tuple[SweepJob, ...]] | None = None
    scheduler: JobScheduler = field(default_factory=JobScheduler)
    job_noun: str = "problems"
    _is_exhausted: bool = False

    def begin(self) -> None:
        """Plan the jobs that are not stored yet."""
        self.scheduler.add(self.store.open_jobs(), self.store.begun)

    def extend(self) -> list[Job]:
        """Plan and return the jobs that `more` adds; none while others are open."""
        if self.more is None or self._is_exhausted or len(self.store.done) < len(self.store.jobs):
            return []
        assert isinstance(self.store, ResultStore)
        self.store.write_manifest()
        added: list[Job] = [job for job in self.more() if job.key not in self.store.jobs]
        self.store.add(added)
        self.scheduler.add(added)
        self._is_exhausted = not added
        return added

    @property
    def units(self) -> int:
        """Units of all its jobs."""
        return sum(job.units for job in self.store.jobs.values())
