"""The devices of this machine: each has a thread, whose session starts worker processes there and replaces them."""

import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from queue import Empty, Queue
from threading import Thread
from typing import Any, Self

from ....harness.storage.scratch import new_scratch, open_scratch, remove_scratch
from ....shapes.errors import RooflensError
from .cluster import Answered, Event, Failed, Heartbeat, Pulse
from .inventory import take_cores
from .protocol import Assignment, DeviceWorker, ResultArchive, Slot, WorkerSpec

END_S = 20.0
"""Time to wait for a thread that is to end: it ends the processes that it has started."""

Step = Callable[[DeviceWorker[Any]], ResultArchive]


class LocalCluster:
    """Slots for workers, one for each of `devices`, which are torch's names for them by architecture.

    Calls return at once, but for `kill`; answers come from `wait`. The end of the block ends all workers.
    """

    def __init__(self, devices: Mapping[str, Sequence[str]]) -> None:
        host = socket.gethostname()
        self._devices = {
            Slot("", host, arch, index, len(names)): name
            for arch, names in devices.items()
            for index, name in enumerate(names)
        }
        self._workers: dict[Slot, _Thread] = {}
        self._ended: dict[Slot, _Thread] = {}
        self._events: Queue[tuple[_Thread, Event]] = Queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.ask_to_stop()  # all at once, so that one is not waited for after the other
        for slot in list(self._workers):
            self.kill(slot)

    def offered(self) -> dict[str, int]:
        """Count the devices by architecture."""
        return dict(Counter(slot.arch for slot in self._devices))

    def slots(self) -> Sequence[Slot]:
        """List the slots, without those where a worker was killed and does not end."""
        return [slot for slot in self._devices if slot not in self._ended or not self._ended[slot].is_alive()]

    def start(self, slot: Slot, spec: WorkerSpec, name: str) -> None:
        """Start a worker, and let it open."""
        worker = self._workers[slot] = _Thread(slot, spec.on(self._devices[slot]), name, self._events)
        worker.start()
        worker.steps.put(lambda worker: worker.open())

    def assign(self, slot: Slot, assignment: Assignment) -> None:
        """Assign a job."""
        self._workers[slot].steps.put(lambda worker: worker.measure(assignment))

    def close(self, slot: Slot) -> None:
        """Let a worker close."""
        self._workers[slot].steps.put(lambda worker: worker.close())

    def kill(self, slot: Slot) -> None:
        """End a worker and its processes, whatever they do."""
        if worker := self._workers.pop(slot, None):
            worker.is_to_stop = True
            worker.steps.put(None)
            self._ended[slot] = worker
            worker.join(END_S)

    def ask_to_stop(self) -> None:
        """Ask all workers for what they have."""
        for worker in self._workers.values():
            worker.is_to_stop = True

    def wait(self, seconds: float) -> Sequence[Event]:
        """Return what happened, without the last words of workers that were killed."""
        try:
            found = [self._events.get(timeout=seconds)]
        except Empty:
            return []
        while not self._events.empty():
            found.append(self._events.get())
        return [event for worker, event in found if self._workers.get(event.slot) is worker]

    def heartbeats(self) -> Mapping[Slot, Heartbeat]:
        """Return the last heartbeats."""
        return {slot: worker.pulse.heartbeat for slot, worker in self._workers.items()}


class _Thread(Thread):
    """Does `steps` with a worker of its own until one is None; a program that ends does not wait for it."""

    def __init__(self, slot: Slot, spec: WorkerSpec, name: str, events: "Queue[tuple[_Thread, Event]]") -> None:
        super().__init__(name=name, daemon=True)
        self.steps: Queue[Step | None] = Queue()
        self.pulse, self.is_to_stop = Pulse(), False
        self._slot, self._spec, self._events = slot, spec, events

    def run(self) -> None:
        with ExitStack() as held:
            worker: DeviceWorker[Any] | None = None
            while step := self.steps.get():
                self.pulse.begin()
                try:
                    worker = worker or self._opened(held)
                    event: Event = Answered(self._slot, step(worker))
                except RooflensError as error:
                    event = Failed(self._slot, str(error))
                except Exception as error:
                    event = Failed(self._slot, f"{type(error).__name__}: {error}")
                self._events.put((self, event))

    def _opened(self, held: ExitStack) -> DeviceWorker[Any]:
        """Return the worker; `held` ends it, and removes its temporary files whatever it does."""
        if self._spec.setup.device == "cpu":
            take_cores(self._slot)
        scratch = new_scratch(self.name)
        held.callback(remove_scratch, scratch, open_scratch(scratch))
        worker = self._spec.worker(self._spec, self._slot, self.name, scratch, self.pulse, lambda: self.is_to_stop)
        held.callback(worker.end)
        return worker
