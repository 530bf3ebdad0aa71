"""The devices of a cluster of Ray: nodes offer an architecture as a resource, and host an actor for each device.

Import `ray_environment` first, and prepare for the cluster with it: Ray reads its settings when it is imported.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ...harness.storage.tables import StorageError
from ...harness.sweep.cluster import Place
from ...harness.sweep.deadline import Deadline, OutOfTimeError
from ...harness.sweep.supervisor import PlaceLostError
from ...harness.worker.messages import Interpreter
from ...shapes.architectures import is_gpu
from ...shapes.errors import Interrupted, RooflensError
from .numbering import NodeOffer, architectures, numbered
from .ray_environment import answers, captured_stderr
from .ray_host import PART_BYTES, RayHost

# Messages of nodes go to stdout; without this switch they would show there, and nothing else happens.
vars(ray._private.worker)["_worker_logs_enabled"] = False

SILENT_S = 60.0
"""Time within which a node answers, besides what it was asked to wait for; a new actor imports rooflens first."""

CALL_S = 3600.0
"""Most time for what a node is asked to do, such as a --setup that builds what the kernels are part of."""

LOOK_S = 2.0
"""Interval between two looks at the deadline, in a wait that is longer than `RemoteChild.poll_s`."""

SUSPECT_S = 30.0
"""Time for which a node is not used after a device was lost there: Ray lists a dead one as alive for 15 s and more."""

HEAD_GONE = 3
"""Times in a row, a second and more apart, that the head must not accept a connection to count as dead."""


_HELD = ExitStack()
"""The connection to a cluster, which stays when its head is dead."""


@contextmanager
def joined(address: str) -> Iterator["RayCluster"]:
    """Connect to the cluster at `address`, HOST:PORT, which outlives the block.

    A dead head is left by the next call, or when Python ends: Ray may end this process then, before the error is told.
    """
    with captured_stderr() as captured:  # what Ray prints regardless of its settings: our remarks report what matters
        _HELD.close()
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
        _HELD.callback(ray.shutdown)
        host, _, port = address.rpartition(":")
        try:
            yield RayCluster()
        finally:
            if answers(host, int(port)):
                _HELD.close()


_T = TypeVar("_T")


def ask(head: tuple[str, int], question: Callable[[], _T]) -> _T:
    """Return what the head of a cluster answers. Raises RooflensError when it is dead.

    Ray does not return from a question to a dead head: a thread waits.
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


class There:
    """A node of Ray, for one device: what `RayHost` does there. Raises PlaceLostError where that does not answer.

    What takes long there is left alone, and all of it, as `deadline` says.
    """

    def __init__(self, host: Any, lost: Callable[[], object], deadline: Deadline) -> None:
        self._host, self._lost, self._deadline, self.remark = host, lost, deadline, ""
        self._is_left = False
        """Whether nothing is asked any more: it is busy, or hangs."""

    def start(
        self, interpreter: Interpreter | None, enter: Callable[..., None], setup: Any, log: Path
    ) -> "RemoteChild":
        """Start a process; at its end, `log` of this machine gets what it has printed."""
        self.ask("start", interpreter, enter, setup)
        return RemoteChild(self, log)

    def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return what a function returns there, which may take its time."""
        found: _T = self.ask("call", function, *arguments, within_s=CALL_S)
        return found

    def ask(self, method: str, *arguments: Any, within_s: float = 0.0, is_end: bool = False) -> Any:
        """Return what a method of the host returns, or raise what it raises; `is_end`: whatever the deadline says."""
        if self._is_left:
            raise PlaceLostError("was left before it had answered")
        try:
            found, error = self._answer(getattr(self._host, method).remote(*arguments), within_s + SILENT_S, is_end)
        except RayTaskError as broken:  # before our code there, which tells its errors otherwise
            raise RooflensError(f"{type(broken.cause).__name__}: {_first_line(broken.cause)}") from None
        except RayActorError as gone:
            why = _why_dead(gone)
            if why != DIED:
                self._lost()
            raise PlaceLostError(why) from None
        except (RayError, OSError) as broken:
            raise PlaceLostError(_first_line(broken)) from None
        if isinstance(error, StorageError):  # of its machine, not of this one
            raise RooflensError(str(error))
        if error:
            raise error
        return found

    def _answer(self, answer: Any, seconds: float, is_end: bool) -> tuple[Any, BaseException | None]:
        latest = time.monotonic() + seconds
        while True:
            try:
                found: tuple[Any, BaseException | None] = ray.get(answer, timeout=LOOK_S)
                return found
            except GetTimeoutError:
                if time.monotonic() >= latest:
                    self._is_left = True
                    raise PlaceLostError(f"did not respond for {seconds:.0f} s") from None
            try:
                if not is_end and self._deadline.check():
                    raise Interrupted("stopped")
            except (Interrupted, OutOfTimeError):
                self._is_left = True
                raise


class RemoteChild:
    """A process on a node, as `Child` is one on this machine."""

    poll_s = 1.0
    """A cluster of a thousand devices asks Ray a thousand times a second."""

    def __init__(self, there: There, log: Path) -> None:
        self._there, self._log = there, log

    def send(self, content: bytes) -> None:
        """Send a message."""
        self._there.ask("child", "send", content)

    def poll(self, seconds: float) -> bool:
        """Wait for a message."""
        return bool(self._there.ask("child", "poll", seconds, within_s=seconds))

    def receive(self, within_s: float) -> bytes:
        """Read a message."""
        return self._message(self._there.ask("receive", within_s, within_s=within_s))

    def worked_s(self, itself: bool) -> float:
        """Processor time of all that it has started."""
        return float(self._there.ask("child", "worked_s", itself))

    def code(self, within_s: float) -> int | None:
        """Exit code."""
        code: int | None = self._there.ask("child", "code", within_s, within_s=within_s)
        return code

    def end(self) -> None:
        """End it, and keep its log; on a node that is lost it ends by itself."""
        with suppress(PlaceLostError):
            if text := self._message(self._there.ask("end", is_end=True), is_end=True):
                with suppress(OSError), self._log.open("ab") as file:
                    file.write(text)

    def _message(self, size: int, is_end: bool = False) -> bytes:
        starts = range(0, size, PART_BYTES)
        return b"".join(bytes(self._there.ask("part", start, is_end=is_end)) for start in starts)


class RayCluster:
    """The devices of the cluster that this process is connected to."""

    is_here = False

    def __init__(self) -> None:
        host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
        self.head = host, int(port)
        self._suspects: dict[str, float] = {}
        self._places: dict[str, list[Place]] = {}

    def offered(self) -> Mapping[str, int]:
        """Count the devices of the cluster by architecture."""
        return architectures(ask(self.head, ray.cluster_resources))

    def nodes(self) -> list[dict[str, Any]]:
        """List the nodes that are alive: host, address, what they offer, and what they should."""
        return [
            {
                "host": node["NodeManagerHostname"],
                "address": node["NodeManagerAddress"],
                "offers": (offers := architectures(node["Resources"])),
                "remark": _left_idle(node["Resources"].get("GPU", 0), offers),
            }
            for node in self._alive().values()
        ]

    def now(self) -> Sequence[Place]:
        """List the current places. Raises RooflensError when the head of the cluster does not answer."""
        alive, now = self._alive(), time.monotonic()
        self._places = {node: places for node, places in self._places.items() if node in alive}
        trusted = [node for node in self._places if now - self._suspects.get(node, -SUSPECT_S) >= SUSPECT_S]
        known = [place for node in trusted for place in self._places[node]]
        fresh = sorted(alive.keys() - self._places.keys())
        offers = [
            NodeOffer(name, alive[name]["NodeManagerHostname"], arch, amount)
            for name in fresh
            for arch, amount in architectures(alive[name]["Resources"]).items()
        ]
        self._places |= {name: [] for name in fresh}
        # A restarted node takes over the numbers of the one that died, which Ray still lists as alive.
        for place in numbered(offers, known):
            self._places[place.node].append(place)
        return known + [place for name in fresh for place in self._places[name]]

    def _alive(self) -> dict[str, Mapping[str, Any]]:
        try:
            nodes: Sequence[Mapping[str, Any]] = ask(self.head, ray.nodes)
        except OSError as error:  # Ray may notice before we miss its answers
            if answers(*self.head):
                raise
            raise _silent(self.head) from error
        return {node["NodeID"]: node for node in nodes if node["Alive"]}

    @contextmanager
    def entered(self, place: Place, deadline: Deadline) -> Iterator[There]:
        """Start an actor on the node of a place."""
        options = ray.remote(RayHost).options(
            num_cpus=0,
            num_gpus=1 if is_gpu(place.arch) else 0,
            resources={place.arch: 1},
            scheduling_strategy=NodeAffinitySchedulingStrategy(place.node, soft=False),
            max_restarts=0,
            max_task_retries=0,
        )
        host = options.remote(place, f"{place.host}-{place.index}")
        there = There(host, lambda: self._suspects.update({place.node: time.monotonic()}), deadline)
        try:
            there.remark = there.ask("enter", within_s=CALL_S)
            yield there
        finally:
            with suppress(PlaceLostError, RooflensError):
                there.ask("leave", is_end=True)
            with suppress(RayError, OSError, RooflensError):
                ask(self.head, partial(ray.kill, host, no_restart=True))


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
