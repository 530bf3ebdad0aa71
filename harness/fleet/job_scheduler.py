"""Which free device gets which job. Pure: no clock, no Ray.

Jobs of one weight are neighbours: a device goes on with its weight, else with the least held one. A device that is free
when all weights are held helps another. Every step costs the same however many jobs there are.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping

from .jobs import AnyJob

MOST_LOSSES = 3
"""So many devices may be lost over one job before it is given up: it may be the job that ends them."""


class Dealer:
    """The jobs of one architecture that are still to do. A device is whatever names it for good (its UUID, say).

    `begun` has the device of each job that is stored in part: it alone can complete it, another one starts anew.
    """

    def __init__(self, jobs: Iterable[AnyJob] = (), begun: Mapping[str, Hashable] | None = None) -> None:
        self._weights: deque[deque[AnyJob]] = deque()
        self._own: dict[Hashable, deque[AnyJob]] = {}
        self._begun: dict[Hashable, deque[AnyJob]] = {}
        self._lost: deque[tuple[AnyJob, Hashable]] = deque()
        self._losses: Counter[str] = Counter()
        self.given_up: list[AnyJob] = []
        self._left = 0
        self.add(jobs, begun)

    def __len__(self) -> int:
        """Count the jobs that nobody has."""
        return self._left

    def add(self, jobs: Iterable[AnyJob], begun: Mapping[str, Hashable] | None = None) -> None:
        """Add jobs to do; what refines a sweep comes later."""
        groups: dict[Hashable, deque[AnyJob]] = {}
        for job in jobs:
            self._left += 1
            if begun and job.key in begun:
                self._begun.setdefault(begun[job.key], deque()).append(job)
            else:
                groups.setdefault(job.weight, deque()).append(job)
        self._weights.extendleft(reversed(groups.values()))

    def next(self, device: Hashable, is_here: Iterable[Hashable] = (), others_may_come: bool = False) -> AnyJob | None:
        """Take the next job for `device`; None when it has to wait, or nothing is left.

        A job that was lost goes to another device where there is one. A job that another device has begun is left to
        that one while it `is_here`, or may still come.
        """
        job = (
            _first(self._begun.get(device))
            or self._lost_elsewhere(device)
            or self._of_a_weight(device)
            or self._begun_elsewhere(set(is_here), others_may_come)
        )
        if job is None and self._lost and not others_may_come and set(is_here) <= {device}:
            job = self._lost.popleft()[0]
        self._left -= job is not None
        return job

    def back(self, job: AnyJob) -> None:
        """Take back a job that its device could not do, for a reason that lies with the device."""
        self._lost.append((job, None))
        self._left += 1

    def lost(self, job: AnyJob, device: Hashable) -> bool:
        """Take back a job whose device was lost over it; False when it has cost too many and is given up."""
        self._losses[job.key] += 1
        if self._losses[job.key] >= MOST_LOSSES:
            self.given_up.append(job)
            return False
        self._lost.append((job, device))
        self._left += 1
        return True

    def rest(self) -> list[AnyJob]:
        """Return the jobs that nobody has, in no order."""
        lost = [job for job, _ in self._lost]
        begun = [job for jobs in self._begun.values() for job in jobs]
        return [*lost, *begun, *(job for jobs in self._weights for job in jobs)]

    def _of_a_weight(self, device: Hashable) -> AnyJob | None:
        own = self._own.get(device)
        if not own:
            while self._weights and not self._weights[0]:
                self._weights.popleft()
            if not self._weights:
                return None
            own = self._own[device] = self._weights[0]
            self._weights.rotate(-1)
        return own.popleft()

    def _lost_elsewhere(self, device: Hashable) -> AnyJob | None:
        for at, (job, where) in enumerate(self._lost):
            if where != device:
                del self._lost[at]
                return job
        return None

    def _begun_elsewhere(self, is_here: set[Hashable], others_may_come: bool) -> AnyJob | None:
        if others_may_come:
            return None
        return next((_first(jobs) for owner, jobs in self._begun.items() if jobs and owner not in is_here), None)


def _first(jobs: deque[AnyJob] | None) -> AnyJob | None:
    return jobs.popleft() if jobs else None
