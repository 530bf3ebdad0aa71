"""Which free device gets which job. Pure: no clock, no Ray.

Jobs with equal weights are neighbours: a device continues with its weight, else with the least held one. A device that
is free when all weights are held helps another. The cost of a step does not depend on the number of jobs.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping

from .jobs import Job

MOST_LOSSES = 3
"""Devices that may be lost over one job before it is given up: it may be the job that ends them."""


class JobScheduler:
    """The jobs of one architecture that remain. A device is any permanent identifier, such as its UUID.

    `begun` has the device of each job that is stored in part: it alone can complete it, another one starts over.
    """

    def __init__(self, jobs: Iterable[Job] = (), begun: Mapping[str, Hashable] | None = None) -> None:
        self._weights: deque[deque[Job]] = deque()
        self._own: dict[Hashable, deque[Job]] = {}
        self._begun: dict[Hashable, deque[Job]] = {}
        self._lost: deque[tuple[Job, Hashable]] = deque()
        self._losses: Counter[str] = Counter()
        self.given_up: list[Job] = []
        self._left = 0
        self.add(jobs, begun)

    def __len__(self) -> int:
        """Number of unassigned jobs."""
        return self._left

    def add(self, jobs: Iterable[Job], begun: Mapping[str, Hashable] | None = None) -> None:
        """Add jobs."""
        groups: dict[Hashable, deque[Job]] = {}
        for job in jobs:
            self._left += 1
            if begun and job.key in begun:
                self._begun.setdefault(begun[job.key], deque()).append(job)
            else:
                groups.setdefault(job.weight, deque()).append(job)
        self._weights.extendleft(reversed(groups.values()))

    def next(self, device: Hashable, present: Iterable[Hashable] = (), others_expected: bool = False) -> Job | None:
        """Take the next job for `device`; None when it has to wait, or nothing is left.

        A job that was lost goes to another device if there is one. A job that another device has begun is reserved for
        that one while it is `present`, or `others_expected`.
        """
        job = (
            _first(self._begun.get(device))
            or self._lost_elsewhere(device)
            or self._of_a_weight(device)
            or self._begun_elsewhere(set(present), others_expected)
        )
        if job is None and self._lost and not others_expected and set(present) <= {device}:
            job = self._lost.popleft()[0]
        self._left -= job is not None
        return job

    def back(self, job: Job) -> None:
        """Return a job that its device could not do, for a reason that lies with the device."""
        self._lost.append((job, None))
        self._left += 1

    def lost(self, job: Job, device: Hashable) -> bool:
        """Return a job whose device was lost over it; False when it is given up after too many losses."""
        self._losses[job.key] += 1
        if self._losses[job.key] >= MOST_LOSSES:
            self.given_up.append(job)
            return False
        self._lost.append((job, device))
        self._left += 1
        return True

    def _of_a_weight(self, device: Hashable) -> Job | None:
        own = self._own.get(device)
        if not own:
            while self._weights and not self._weights[0]:
                self._weights.popleft()
            if not self._weights:
                return None
            own = self._own[device] = self._weights[0]
            self._weights.rotate(-1)
        return own.popleft()

    def _lost_elsewhere(self, device: Hashable) -> Job | None:
        for at, (job, where) in enumerate(self._lost):
            if where != device:
                del self._lost[at]
                return job
        return None

    def _begun_elsewhere(self, present: set[Hashable], others_expected: bool) -> Job | None:
        if others_expected:
            return None
        return next((_first(jobs) for owner, jobs in self._begun.items() if jobs and owner not in present), None)


def _first(jobs: deque[Job] | None) -> Job | None:
    return jobs.popleft() if jobs else None
