"""A device worker as an actor of Ray, and the board for heartbeats."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

from ....harness.storage.scratch import new_scratch, open_scratch
from .cluster import Heartbeat, Pulse
from .inventory import take_cores
from .protocol import Assignment, ResultArchive, Slot, WorkerSpec

HEARTBEAT_EVERY_S = 1.0

_OF_RAY = ("OMP_NUM_THREADS",)
"""What Ray sets in the environment of its workers and `rooflens run` does not: it would change the timings."""


class HeartbeatBoard:
    """An actor: the last heartbeat of every worker, and whether they are to stop."""

    def __init__(self) -> None:
        self._heartbeats: dict[str, Heartbeat] = {}
        self._stop = False

    def post(self, worker: str, heartbeat: Heartbeat) -> bool:
        """Post a worker's heartbeat; True when it is to stop."""
        self._heartbeats[worker] = heartbeat
        return self._stop

    def read(self) -> Mapping[str, Heartbeat]:
        """Return the last heartbeat of every worker by its name."""
        return self._heartbeats

    def stop(self) -> None:
        """Ask all workers to stop."""
        self._stop = True


class HeartbeatSender(Pulse):
    """A pulse that posts its heartbeats, without ever waiting for the board."""

    def __init__(self, post: Callable[[Heartbeat], Any], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._post, self._clock = post, clock
        self._posted_at = -HEARTBEAT_EVERY_S
        self._answer: Any = None
        self._stop = False

    def should_stop(self) -> bool:
        """Tell whether the board says stop. Called ten times a second, so heartbeats are posted from here."""
        if self._answer is not None:
            ready, _ = ray.wait([self._answer], timeout=0)
            if ready:
                with suppress(RayError):  # a board that is gone for a moment, or for good, stops no measurement
                    self._stop = bool(ray.get(self._answer))
                self._answer = None
        now = self._clock()
        if self._answer is None and now - self._posted_at >= HEARTBEAT_EVERY_S:
            self._posted_at = now
            self._answer = self._post(self.heartbeat)
        return self._stop


def as_started_by_hand() -> tuple[str, ...]:
    """Undo what Ray does to its workers and `rooflens run` does not; return what could not be undone."""
    for variable in _OF_RAY:
        os.environ.pop(variable, None)
    niceness = os.nice(0)
    if niceness > 0:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        except OSError:
            return (
                f"Ray runs its workers at nice {niceness}, below other programs: start its nodes with "
                "RAY_worker_niceness=0 in the environment",
            )
    return ()


class RayWorker:
    """An actor: a `DeviceWorker`, with a scratch folder among the temporary files of this machine."""

    def __init__(self, spec: WorkerSpec, slot: Slot, name: str, board: Any) -> None:
        remarks = list(as_started_by_hand())
        self._cores_of = slot if spec.setup.device == "cpu" else None
        self._sender = HeartbeatSender(lambda heartbeat: board.post.remote(name, heartbeat))
        self._scratch = new_scratch(name)
        self._worker = spec.worker(spec, slot, name, self._scratch, self._sender, self._sender.should_stop, remarks)

    def open(self) -> ResultArchive:
        """Open the worker. An error here has its reason; from `__init__`, Ray would only say that the actor died."""
        if self._cores_of is not None:
            take_cores(self._cores_of)
        open_scratch(self._scratch)
        return self._worker.open()

    def measure(self, assignment: Assignment) -> ResultArchive:
        """Measure a job."""
        self._sender.begin()
        return self._worker.measure(assignment)

    def close(self) -> ResultArchive:
        """Close the worker."""
        return self._worker.close()
