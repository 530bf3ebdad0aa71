"""A cluster of Ray: slots are on nodes that offer an architecture as a resource, workers are actors there.

Import `ray_environment` first, and prepare for the cluster with it: Ray reads its settings when it is imported.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from functools import wraps
from threading import Thread
from typing import Any, TypeVar, cast

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ....shapes.architectures import is_gpu
from ....shapes.errors import RooflensError
from .cluster import Answered, Event, Failed, Heartbeat, Lost, NodeOffer, numbered
from .protocol import Assignment, Slot, WorkerSpec
from .ray_environment import answers, captured_stderr
from .ray_worker import HeartbeatBoard, RayWorker
from .resource_request import architectures

SUSPECT_S = 30.0
"""Time for which a node is not used after it lost a worker: Ray lists a dead one as alive for 15 s and more."""

HEAD_GONE = 3
"""Times in a row, a second and more apart, that the head must not accept a connection to count as dead."""


@contextmanager
def joined(address: str) -> Iterator["RayCluster"]:
    """Connect to the cluster at `address`, HOST:PORT, which outlives the block."""
    with _quiet() as captured:
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except ConnectionError as error:
            if "AuthToken" in captured():
                raise RooflensError(
                    f"the Ray cluster at {address} requires its token: copy ~/.ray/auth_token from the "
                    "machine of its head to this one, and make it unreadable for others (chmod 600)"
                ) from error
            raise RooflensError(
                f"Ray at {address} answers but rejects this machine ({_first_line(error)}): run this on one "
                "that has joined the cluster with rooflens fleet start"
            ) from error
        except (RuntimeError, ValueError, OSError, RayError) as error:
            raise RooflensError(f"cannot join the Ray cluster at {address}: {_first_line(error)}") from error
        try:
            yield RayCluster()
        finally:
            ray.shutdown()


@contextmanager
def _quiet() -> Iterator[Callable[[], str]]:
    """Hide what Ray prints regardless of its settings: our remarks report what matters.

    Messages of nodes go to stdout; without this switch they would show there, and nothing else happens.
    """
    vars(ray._private.worker)["_worker_logs_enabled"] = False
    with captured_stderr() as captured:
        yield captured


_T = TypeVar("_T")


def ask(head: tuple[str, int], question: Callable[[], _T]) -> _T:
    """Return what the head of a cluster answers. Raises RooflensError when it is dead.

    Ray does not return from a question to a dead head, and ends this process after 60 s, silently: a thread waits.
    A head that accepts connections is waited for, also one that stands still: `ray.shutdown` would wait for it as well.
    """
    answer: Future[_T] = Future()

    def ask_ray() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=ask_ray, daemon=True).start()
    silent = 0
    while not wait_for([answer], timeout=1).done:
        silent = 0 if answers(*head) else silent + 1
        if silent >= HEAD_GONE:
            raise _silent(head)
    return answer.result()


def _silent(head: tuple[str, int]) -> RooflensError:
    return RooflensError(f"the head of the Ray cluster ({':'.join(map(str, head))}) does not answer")


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _asks_the_head(method: _Method) -> _Method:
    """Report that the head is gone when a connection breaks: Ray may notice before we miss its answers."""

    @wraps(method)
    def call(cluster: "RayCluster", *arguments: Any) -> Any:
        try:
            return method(cluster, *arguments)
        except OSError as error:
            if answers(*cluster.head):
                raise
            raise _silent(cluster.head) from error

    return cast(_Method, call)


class RayCluster:
    """Slots for workers. Only one per process: Ray connects a process once.

    Calls return at once; answers come from `wait`.
    """

    def __init__(self) -> None:
        """Use the cluster that this process is connected to."""
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._board: Any = (
            ray.remote(HeartbeatBoard).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()
        )
        self._worker: Any = ray.remote(RayWorker)
        host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
        self.head = host, int(port)
        self._suspects: dict[str, float] = {}
        self._slots: dict[str, list[Slot]] = {}
        self._actors: dict[Slot, Any] = {}
        self._names: dict[str, Slot] = {}
        self._answers: dict[Any, Slot] = {}
        self._specs: dict[int, Any] = {}
        self._heartbeats: Any = None
        self._last_heartbeats: Mapping[str, Heartbeat] = {}

    def offered(self) -> dict[str, int]:
        """Count the devices of the cluster by architecture."""
        return architectures(ask(self.head, ray.cluster_resources))

    def nodes(self) -> list[dict[str, Any]]:
        """List the nodes that are alive: host, address, what they offer, and what they should."""
        nodes: Sequence[Mapping[str, Any]] = ask(self.head, ray.nodes)
        return [
            {
                "host": node["NodeManagerHostname"],
                "address": node["NodeManagerAddress"],
                "offers": (offers := architectures(node["Resources"])),
                "remark": _left_idle(node["Resources"].get("GPU", 0), offers),
            }
            for node in nodes
            if node["Alive"]
        ]

    @_asks_the_head
    def slots(self) -> Sequence[Slot]:
        """List the current slots. Raises RooflensError when the head of the cluster does not answer."""
        nodes: Sequence[Mapping[str, Any]] = ask(self.head, ray.nodes)
        now = time.monotonic()
        alive = {node["NodeID"]: node for node in nodes if node["Alive"]}
        self._slots = {node: slots for node, slots in self._slots.items() if node in alive}
        trusted = [node for node in self._slots if now - self._suspects.get(node, -SUSPECT_S) >= SUSPECT_S]
        known = [slot for node in trusted for slot in self._slots[node]]
        fresh = sorted(alive.keys() - self._slots.keys())
        offers = [
            NodeOffer(name, alive[name]["NodeManagerHostname"], arch, amount)
            for name in fresh
            for arch, amount in architectures(alive[name]["Resources"]).items()
        ]
        self._slots |= {name: [] for name in fresh}
        # A restarted node takes over the numbers of the one that died, which Ray still lists as alive.
        for slot in numbered(offers, known):
            self._slots[slot.node].append(slot)
        return known + [slot for name in fresh for slot in self._slots[name]]

    @_asks_the_head
    def start(self, slot: Slot, spec: WorkerSpec, name: str) -> None:
        """Start an actor."""
        if id(spec) not in self._specs:
            self._specs[id(spec)] = ray.put(spec)
        options = self._worker.options(
            num_cpus=0,
            num_gpus=1 if is_gpu(slot.arch) else 0,
            resources={slot.arch: 1},
            scheduling_strategy=NodeAffinitySchedulingStrategy(slot.node, soft=False),
            max_restarts=0,
            max_task_retries=0,
        )
        self._actors[slot] = options.remote(self._specs[id(spec)], slot, name, self._board)
        self._names[name] = slot
        self._answers[self._actors[slot].open.remote()] = slot

    @_asks_the_head
    def assign(self, slot: Slot, assignment: Assignment) -> None:
        """Assign a job."""
        self._answers[self._actors[slot].measure.remote(assignment)] = slot

    @_asks_the_head
    def close(self, slot: Slot) -> None:
        """Let a worker close."""
        self._answers[self._actors[slot].close.remote()] = slot

    @_asks_the_head
    def kill(self, slot: Slot) -> None:
        """Kill the actor."""
        if actor := self._actors.pop(slot, None):
            ray.kill(actor, no_restart=True)
        self._answers = {answer: place for answer, place in self._answers.items() if place != slot}
        self._names = {name: place for name, place in self._names.items() if place != slot}

    @_asks_the_head
    def ask_to_stop(self) -> None:
        """Post it on the board."""
        self._board.stop.remote()

    @_asks_the_head
    def wait(self, seconds: float) -> Sequence[Event]:
        """Return what happened."""
        if not self._answers:
            time.sleep(seconds)
            return []
        ready, _ = ray.wait(list(self._answers), num_returns=1, timeout=seconds)
        if ready:
            ready, _ = ray.wait(list(self._answers), num_returns=len(self._answers), timeout=0)
        return [self._event(answer) for answer in ready]

    @_asks_the_head
    def heartbeats(self) -> Mapping[Slot, Heartbeat]:
        """Return the last heartbeats, as of the previous call."""
        if self._heartbeats is not None:
            ready, _ = ray.wait([self._heartbeats], timeout=0)
            if ready:
                with suppress(RayError):
                    self._last_heartbeats = ray.get(self._heartbeats)
                self._heartbeats = None
        if self._heartbeats is None:
            self._heartbeats = self._board.read.remote()
        known = ((self._names.get(name), heartbeat) for name, heartbeat in self._last_heartbeats.items())
        return {slot: heartbeat for slot, heartbeat in known if slot in self._actors}

    def _event(self, answer: Any) -> Event:
        slot = self._answers.pop(answer)
        try:
            return Answered(slot, ray.get(answer))
        except RayTaskError as error:
            cause = error.cause if isinstance(error.cause, BaseException) else error
            if isinstance(cause, RooflensError):
                return Failed(slot, str(cause))
            return Failed(slot, f"{type(cause).__name__}: {_first_line(cause)}")
        except RayActorError as error:
            why = _why_dead(error)
            if why != DIED:
                self._suspects[slot.node] = time.monotonic()
            return Lost(slot, why)
        except RayError as error:
            return Lost(slot, _first_line(error))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


DIED = "its process died"


def _why_dead(error: RayActorError) -> str:
    """Shorten how Ray explains that an actor does not answer.

    If it may be more than the death of its process, its node is not used for a while.
    """
    text = " ".join(str(error).split())
    is_process = "its worker process has died" in text and not isinstance(error, ActorUnavailableError)
    return DIED if is_process else "its node does not answer"


def _left_idle(gpus: float, offers: Mapping[str, int]) -> str:
    """Say how many GPUs of a node cannot be used, because it does not offer their architecture."""
    idle = int(gpus) - sum(count for arch, count in offers.items() if is_gpu(arch))
    if idle > 0:
        return f"{idle} GPUs are not offered: start it with rooflens fleet start"
    return f"it offers {-idle} more than Ray has GPUs there: pass --num-gpus to ray start" if idle < 0 else ""
