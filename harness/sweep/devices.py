"""Measure parts on several devices at a time: a thread for each, which takes one part after the other.

A device that fails is left out, and one that is lost is replaced where its place comes back: what either was at is
measured by another. Who measures stores the results, so that nothing that is stored is lost with a device.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Condition, Thread

from ...shapes.errors import Interrupted, RooflensError, UsageError
from ..storage.tables import StorageError
from .cluster import Machine, Place, Target
from .deadline import Deadline, OutOfTimeError
from .events import Doing, Event, Observer, Remarked
from .part_queue import Item, PartQueue
from .session import END_S
from .supervisor import PlaceLostError

LOOK_S = 2.0
"""Interval between two looks at which places there are."""

POLL_S = 0.25

MOST_FAULTS = 2
"""Times in a row that a place may be lost without a part being finished there before it is left out."""

MOST_NAMED = 5
"""Parts that are named in a message about many."""

STOP_S = 20.0
"""Time to wait for threads that were asked to stop: each ends the processes that it has started."""


Station = tuple[Hashable, Callable[[Item], object]]
"""What identifies a device for good, and what measures a part there: OutOfTimeError and Interrupted end its use."""


@dataclass(slots=True, eq=False)
class _Worker:
    """The thread at a place, as the others know it; `device` is None until it is open."""

    place: Place
    device: Hashable = None
    part: Item | None = None


@dataclass
class Devices:
    """Those of `target`. `station` opens one at a place, and takes the last readings at its end.

    A station has a deadline of its own, which also stops it when another device has failed for good. On this machine a
    device that fails does not come back, so that there is no patience.

    `more` is asked for further parts when everything is measured; `noun` is the plural of a part. What happens to
    devices is told to `note`, too. `unmeasured` says what was not measured because devices are missing, or were lost
    over it.
    """

    target: Target
    queue: PartQueue
    station: Callable[[Place, Machine, Observer, Deadline], AbstractContextManager[Station]]
    observer: Observer
    deadline: Deadline
    noun: str = "problems"
    more: Callable[[], tuple[Item, ...]] = tuple
    note: Callable[[str], object] = str
    unmeasured: str = ""
    _workers: dict[Place, _Worker] = field(default_factory=dict, init=False)
    _threads: list[Thread] = field(default_factory=list, init=False)
    _changed: Condition = field(default_factory=Condition, init=False)
    _faults: Counter[Place] = field(default_factory=Counter, init=False)
    _seen: list[Place] = field(default_factory=list, init=False)
    """At the last look."""
    _left_out: set[Place] = field(default_factory=set, init=False)
    _error: BaseException | None = field(default=None, init=False)
    _has_measured: bool = field(default=False, init=False)
    _is_over: bool = field(default=False, init=False)
    _is_stopped: bool = field(default=False, init=False)
    _told: set[str] = field(default_factory=set, init=False)

    def measure(self) -> None:
        """Measure what is in the queue, as far as there are devices and patience for it.

        Raises OutOfTimeError, Interrupted on Ctrl-C, and RooflensError when no device can measure.
        """
        self.observer(Doing("start the workers: import torch and the providers, find the devices"))
        with self._ended():
            looked_at, alone_since = -math.inf, time.monotonic()
            patience_s = LOOK_S if self.target.places.is_here else self.target.patience_s
            while self._is_open():
                if self.deadline.check():
                    raise Interrupted("stopped")
                if (now := time.monotonic()) - looked_at >= LOOK_S:
                    looked_at = now
                    self._start_threads()
                with self._changed:
                    if self._workers or self._error:
                        alone_since = now
                    elif now - alone_since >= patience_s and not self.deadline.is_over(END_S):
                        self.unmeasured = f"no {self.target.arch} is left for {len(self.queue)} {self.noun}"
                        self._remark(self.unmeasured)
                        return
                    self._changed.wait(POLL_S)
            self.observer(Doing("last readings of the devices"))
            self._is_over = True
            self._join(None)
            if self._error:
                raise self._error
        if parts := self.queue.given_up:
            names = ", ".join(map(str, parts[:MOST_NAMED])) + (", ..." if len(parts) > MOST_NAMED else "")
            self.unmeasured = f"{len(parts)} {self.noun} crashed every {self.target.arch} that tried ({names})"

    def _is_open(self) -> bool:
        """Tell whether there is something to wait for; a queue that is finished may be given more."""
        with self._changed:
            if self._error:
                raise self._error
            if len(self.queue) or any(worker.part for worker in self._workers.values()):
                return True
            if added := self.more():
                self.queue.add(added)
                self._changed.notify_all()
            return bool(added)

    def _start_threads(self) -> None:
        """Start a thread at every free place for which there is a part."""
        if self.deadline.is_over(END_S):
            return
        self._seen = [place for place in self.target.places.now() if place.arch == self.target.arch]
        for place in self._seen:
            with self._changed:
                opening = sum(worker.device is None for worker in self._workers.values())
                has_room = self.target.most is None or len(self._workers) < self.target.most
                is_taken = place in self._workers or place in self._left_out
                if is_taken or not has_room or len(self.queue) <= opening:
                    continue
                worker = self._workers[place] = _Worker(place)
            thread = Thread(target=self._work, args=[worker], name=str(place), daemon=True)
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]
            thread.start()

    def _is_late(self, worker: _Worker) -> bool:
        """Tell whether it is not open yet when all is measured."""
        return self._is_over and worker.device is None

    def _should_stop(self, worker: _Worker) -> bool:
        has_failed = self._error is not None
        return has_failed or self._is_stopped or self._is_late(worker) or self.deadline.should_stop()

    def _work(self, worker: _Worker) -> None:
        """Measure at a place until nothing is left for it; what ends that is told to the others."""
        place = worker.place
        try:
            deadline = replace(self.deadline, should_stop=partial(self._should_stop, worker))
            tell = partial(self._tell, place)
            with (
                self.target.places.entered(place, deadline) as machine,
                self.station(place, machine, tell, deadline) as (device, measure),
            ):
                if machine.remark:
                    tell(Remarked(machine.remark))
                self._open(worker, device)
                while self._next(worker):
                    assert worker.part
                    measure(worker.part)
                    with self._changed:
                        worker.part, self._faults[place], self._has_measured = None, 0, True
                        self._changed.notify_all()
        except OutOfTimeError:
            self._return(worker)
        except PlaceLostError as error:
            self._lose(worker, str(error))
        except Interrupted as error:
            if not self._is_late(worker):
                self._error = self._error or error
        except RooflensError as error:
            if isinstance(error, StorageError):
                self._error = self._error or error
            else:
                self._leave_out(worker, str(error))
        except BaseException as error:
            self._error = self._error or error
        finally:
            with self._changed:
                self._workers.pop(place, None)
                self._changed.notify_all()

    def _open(self, worker: _Worker, device: Hashable) -> None:
        with self._changed:
            if any(other.device == device for other in self._workers.values()):
                raise UsageError(f"another worker has the same device ({device}): one worker per device")
            worker.device = device

    def _next(self, worker: _Worker) -> bool:
        """Wait for a part; False when there is none, and all are finished."""
        with self._changed:
            while not self._is_over:
                if self._is_stopped:
                    raise OutOfTimeError
                others = [other.device for other in self._workers.values()]
                worker.part = self.queue.next(worker.device, filter(None, others), None in others)
                if worker.part:
                    return True
                self._changed.wait(POLL_S)
            return False

    def _lose(self, worker: _Worker, why: str) -> None:
        """Note that a device is gone, or hangs: its part is measured again, on another device if possible."""
        with self._changed:
            place, part = worker.place, worker.part
            self._faults[place] += 1
            what = ""
            if part:
                is_back = self.queue.lost(part, worker.device)
                too_many = f"has cost too many {self.target.arch}: it is skipped"
                what = f"; {part} {'is measured again' if is_back else too_many}"
            self._remark(f"{place} is lost: {why}{what}")
            if self._faults[place] >= MOST_FAULTS:
                self._left_out.add(place)
                self._remark(f"{place} is excluded: it was lost {MOST_FAULTS} times in a row")

    def _return(self, worker: _Worker) -> None:
        with self._changed:
            if worker.part:
                self.queue.back(worker.part)

    def _leave_out(self, worker: _Worker, why: str) -> None:
        """Use a place no more, and return its part."""
        with self._changed:
            self._return(worker)
            self._left_out.add(worker.place)
            self._remark(f"{worker.place} is excluded: {why}")
            if not self._has_measured and {*self._workers, *self._seen} <= self._left_out:
                self._error = self._error or RooflensError(f"no {self.target.arch} can measure: {why}")

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """End all threads, and the processes that they have started."""
        try:
            yield
        except OutOfTimeError:
            self._join(END_S)  # for which their last readings may run over
            raise
        finally:
            self._is_stopped = True
            self._join(STOP_S)

    def _join(self, seconds: float | None) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            while thread.is_alive() and (until is None or time.monotonic() < until):
                thread.join(POLL_S)
                if until is None and self.deadline.check():
                    raise Interrupted("stopped")

    def _tell(self, place: Place, event: Event) -> None:
        """Pass on an event of one of the devices."""
        with self._changed:
            if isinstance(event, Doing):
                event = replace(event, what=f"{place}: {event.what}")
            if isinstance(event, Remarked):
                self._remark(f"{place}: {event.text}", event.text)
            else:
                self.observer(event)

    def _remark(self, line: str, text: str = "") -> None:
        """Pass on a remark. One that several devices make, who note it themselves, is shown once."""
        try:
            if not text:
                self.note(line)
        except (RooflensError, OSError) as error:
            self._error = self._error or error
        if (text or line) not in self._told:
            self._told.add(text or line)
            self.observer(Remarked(line))
