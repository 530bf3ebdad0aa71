"""Drive a fleet: start workers in free slots, assign jobs, store the results; a fault loses nothing."""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ....harness.sweep.deadline import OutOfTimeError
from ....harness.sweep.events import Doing, Grown, Observer, Remarked, Started
from ....harness.sweep.session import END_S
from ....shapes.errors import Interrupted, RooflensError, UsageError
from .cluster import Answered, Event, Failed, Heartbeat, Lost
from .device_registry import device_of
from .job_queue import JobQueue
from .jobs import Job
from .protocol import OPENING_S, Assignment, Slot

if TYPE_CHECKING:
    from .local_cluster import LocalCluster
    from .ray_cluster import RayCluster

    Cluster = LocalCluster | RayCluster

POLL_S = 0.25

LOOK_S = 2.0
"""Interval between two looks at slots and heartbeats."""

GRACE_S = 120.0
"""A worker may be silent for so long beyond the time limit of a cell: while it restarts, it reports nothing."""

PATIENCE_S = 60.0
"""Time to wait for a slot for the remaining jobs."""

MOST_FAULTS = 2
"""Workers in a row that may be lost in a slot without a result before the slot is excluded."""

MOST_NAMED = 5
"""Problems that are named in a message about many."""

STOP_S = 20.0
"""Time to wait for workers that were asked to stop."""


class State(Enum):
    """What a worker does."""

    OPENING = "opening"
    IDLE = "idle"
    BUSY = "busy"
    CLOSING = "closing"


@dataclass(slots=True)
class _Worker:
    """A worker as the fleet knows it. `device` identifies its device once it is open."""

    state: State = State.OPENING
    device: Hashable = None
    job: Job | None = None
    heartbeat: int = -1
    alive_at: float = field(default_factory=time.monotonic)


class Fleet:
    """One invocation of a command with `--jobs` or `--address`. `deadline` is a monotonic time."""

    def __init__(
        self,
        queue: JobQueue,
        cluster: "Cluster",
        observer: Observer,
        should_stop: Callable[[], bool] = lambda: False,
        deadline: float | None = None,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue, self._cluster, self._observer = queue, cluster, observer
        self._should_stop, self._deadline = should_stop, deadline
        self._patience_s, self._clock = patience_s, clock
        self._workers: dict[Slot, _Worker] = {}
        self._idle: dict[Slot, _Worker] = {}
        self._counts: Counter[State] = Counter()
        self._devices = set[Hashable]()
        self._faults: Counter[Slot] = Counter()
        self._excluded: set[Slot] = set()
        self._has_opened, self._remarked = False, set[str]()
        self._alone_since: float | None = None
        self._abandoned = ""
        self._looked_at, self._started = -1.0, 0

    def run(self) -> bool:
        """Measure what is missing. True when all of it is stored; False when time, devices or patience ran out.

        Raises Interrupted on Ctrl-C, and RooflensError when no worker can be opened. Stored results stay in any case.
        """
        self._begin()
        try:
            while self._is_open():
                self._stop_if_asked()
                self._look()
                self._assign()
                for event in self._cluster.wait(POLL_S):
                    self._handle(event)
            self._close()
        except OutOfTimeError:
            self._queue.store.event("stopped at --max-time")
            self._collect()
        except Interrupted:
            self._queue.store.event("interrupted")
            self._collect()
            raise
        except RooflensError as error:
            self._queue.store.event(f"ended: {error}")
            raise
        finally:
            for slot in list(self._workers):
                self._kill(slot)
        return not self._queue.store.open_jobs()

    def unmeasured(self) -> str:
        """Say what was not measured because devices are missing, or were lost over it; "" when nothing was."""
        given_up = ""
        if jobs := self._queue.scheduler.given_up:
            names = ", ".join(map(str, jobs[:MOST_NAMED])) + (", ..." if len(jobs) > MOST_NAMED else "")
            given_up = f"{len(jobs)} {self._queue.job_noun} crashed every {self._queue.arch} that tried ({names})"
        return "; ".join(filter(None, (self._abandoned, given_up)))

    def _begin(self) -> None:
        self._queue.begin()
        missing = sum(job.units for job in self._queue.store.open_jobs())
        self._observer(Started(self._queue.units, self._queue.units - missing))
        self._observer(Doing("start the device workers: import torch and the providers, find the devices"))

    def _is_open(self) -> bool:
        """Tell whether there is something to wait for; a queue that is finished may extend its plan."""
        if self._abandoned:
            return False
        if len(self._queue.scheduler) or self._counts[State.BUSY]:
            return True
        if added := self._queue.extend():
            self._observer(Grown(self._queue.units))
        return bool(added)

    def _turn(self, slot: Slot, worker: _Worker, state: State) -> None:
        """Set the state of a worker; counts are kept, so that no step takes longer with a thousand workers."""
        self._counts[worker.state] -= 1
        self._counts[state] += 1
        worker.state, worker.alive_at = state, self._clock()
        self._idle.pop(slot, None)
        if state is State.IDLE:
            self._idle[slot] = worker

    def _stop_if_asked(self) -> None:
        if self._should_stop():
            raise Interrupted("stopped")
        if self._deadline is not None and self._clock() >= self._deadline:
            raise OutOfTimeError

    def _look(self) -> None:
        """From time to time: start workers in free slots, find those that hang, and show the progress."""
        now = self._clock()
        if self._looked_at >= 0 and now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        self._start_workers()
        heartbeats = self._cluster.heartbeats()
        for slot, worker in list(self._workers.items()):
            if (heartbeat := heartbeats.get(slot)) and heartbeat.count != worker.heartbeat:
                worker.heartbeat, worker.alive_at = heartbeat.count, now
            spec = self._queue.spec
            limit = spec.opening_s if worker.state is State.OPENING else spec.silence_s + GRACE_S
            if worker.state is not State.IDLE and now - worker.alive_at > limit:
                self._lose(slot, f"did not respond for {limit:.0f} s")
        self._show(heartbeats)
        self._abandon_if_alone(now)

    def _show(self, heartbeats: Mapping[Slot, Heartbeat]) -> None:
        busy = {slot: worker for slot, worker in self._workers.items() if worker.state is State.BUSY}
        underway = sum(heartbeats[slot].units for slot in busy if slot in heartbeats)
        latest = next((f"; {slot}: {heartbeats[slot].doing}" for slot in busy if slot in heartbeats), "")
        if busy:
            self._observer(Doing(f"{len(busy)} at work{latest}", underway))

    def _start_workers(self) -> None:
        """Start a worker in every free slot for which there is a job."""
        queue = self._queue
        for slot in self._slots():
            has_room = queue.limit is None or len(self._workers) < queue.limit
            if slot not in self._workers and has_room and len(queue.scheduler) > self._counts[State.OPENING]:
                self._started += 1
                self._workers[slot] = _Worker(alive_at=self._clock())
                self._counts[State.OPENING] += 1
                name = f"{slot.host}-{slot.index}-{int(time.time() * 1e3):x}-{self._started}"
                self._cluster.start(slot, queue.spec, name)

    def _slots(self) -> list[Slot]:
        """Return the slots of the cluster that can be used."""
        return [slot for slot in self._cluster.slots() if slot.arch == self._queue.arch and slot not in self._excluded]

    def _abandon_if_alone(self, now: float) -> None:
        """Give up what is left when there has been no worker for a while."""
        if self._workers or not len(self._queue.scheduler):
            self._alone_since = None
            return
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since >= self._patience_s:
            left = len(self._queue.scheduler)
            self._abandoned = f"no {self._queue.arch} is left for {left} {self._queue.job_noun}"
            self._remark(self._abandoned)

    def _assign(self) -> None:
        """Assign a job to every idle worker, as far as there is one for it, and time."""
        left = None if self._deadline is None else self._deadline - self._clock()
        if left is not None and left <= END_S:
            return
        queue = self._queue
        for slot, worker in list(self._idle.items()):
            opening = self._counts[State.OPENING] > 0
            job = queue.scheduler.next(worker.device, self._devices, opening) if len(queue.scheduler) else None
            if job is None:
                continue
            has_begun = queue.store.begun.get(job.key) == worker.device
            worker.job = job
            self._turn(slot, worker, State.BUSY)
            self._cluster.assign(slot, Assignment(job, queue.store.earlier(job) if has_begun else b"", left))

    def _handle(self, event: Event) -> None:
        worker = self._workers.get(event.slot)
        if worker is None:
            return
        if isinstance(event, Failed):
            self._exclude(event.slot, event.reason)
        elif isinstance(event, Lost):
            self._lose(event.slot, event.reason)
        else:
            self._store_result(event, worker)

    def _store_result(self, event: Answered, worker: _Worker) -> None:
        """Store an answer. If it is not of this run, the slot is excluded instead."""
        slot = event.slot
        try:
            result = self._queue.store.add_result(event.archive)
        except UsageError as error:
            self._exclude(slot, str(error))
            return
        if worker.state is State.OPENING:
            worker.device = device = device_of(result.manifest)
            if device in self._devices:
                self._exclude(slot, f"another worker has the same device ({device}): one worker per device")
                return
            self._devices.add(device)
            self._has_opened = True
        for text in result.worker.remarks:
            self._remark(text, slot)
        self._turn(slot, worker, State.IDLE)
        if worker.job is not None:
            job, worker.job = worker.job, None
            self._faults[slot] = 0
            job.report(result, self._observer)

    def _exclude(self, slot: Slot, reason: str) -> None:
        """Use a slot no more, and reassign its job."""
        worker = self._workers[slot]
        self._remark(f"{slot} is excluded: {reason}")
        self._excluded.add(slot)
        if worker.job is not None:
            self._queue.scheduler.back(worker.job)
        self._kill(slot)
        if not self._has_opened and not self._workers and not self._slots():
            raise RooflensError(f"no {slot.arch} of this cluster can measure: {reason}")

    def _lose(self, slot: Slot, reason: str) -> None:
        """Replace a worker that is gone, or hangs: its job is measured again, on another device if possible."""
        worker = self._workers[slot]
        self._faults[slot] += 1
        what = "" if worker.job is None else f"; {worker.job} is measured again"
        if worker.job is not None and not self._queue.scheduler.lost(worker.job, worker.device):
            what = f"; {worker.job} has cost too many {slot.arch} workers and is skipped"
        self._remark(f"{slot} is lost: {reason}{what}")
        if self._faults[slot] >= MOST_FAULTS:
            self._excluded.add(slot)
            self._remark(f"{slot} is excluded: {MOST_FAULTS} workers in a row were lost there")
        self._kill(slot)

    def _kill(self, slot: Slot) -> None:
        worker = self._workers.pop(slot)
        self._idle.pop(slot, None)
        self._counts[worker.state] -= 1
        if worker.state is not State.OPENING:
            self._devices.discard(worker.device)
        self._cluster.kill(slot)

    def _close(self) -> None:
        """Let idle workers take their last readings; a worker that is lost meanwhile costs nothing more."""
        self._observer(Doing("last readings of the devices"))
        for slot, worker in list(self._workers.items()):
            if worker.state is State.IDLE:
                self._turn(slot, worker, State.CLOSING)
                self._cluster.close(slot)
            else:
                self._kill(slot)
        left = OPENING_S if self._deadline is None else self._deadline - self._clock()
        self._gather(min(OPENING_S, max(left, STOP_S)), self._should_stop)

    def _collect(self) -> None:
        """Ask all workers for what they have, and wait a little."""
        self._observer(Doing("collect what is measured"))
        self._cluster.ask_to_stop()
        for slot, worker in list(self._workers.items()):
            if worker.state is State.IDLE and self._queue.spec.closes_at_once:
                self._turn(slot, worker, State.CLOSING)
                self._cluster.close(slot)
            elif worker.state is not State.BUSY:
                self._kill(slot)
        self._gather(STOP_S)

    def _gather(self, seconds: float, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Store the last archive of every worker; raises Interrupted when `should_stop` says so."""
        until = self._clock() + seconds
        while self._workers and self._clock() < until:
            if should_stop():
                raise Interrupted("stopped")
            for event in self._cluster.wait(POLL_S):
                worker = self._workers.get(event.slot)
                if worker is None:
                    continue
                if isinstance(event, Answered):
                    self._store_result(event, worker)
                else:
                    self._remark(f"{event.slot} ended without its last readings: {event.reason}")
                if event.slot in self._workers:
                    self._kill(event.slot)

    def _remark(self, text: str, slot: Slot | None = None) -> None:
        """Pass on a remark. One that several workers make, who have noted it themselves, is shown once."""
        line = f"{slot}: {text}" if slot else text
        if slot is None:
            self._queue.store.event(line)
        if text not in self._remarked:
            self._remarked.add(text)
            self._observer(Remarked(line))
