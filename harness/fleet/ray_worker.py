"""A station in an actor of Ray, and the board on which stations say how far they are."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

from ...shapes.verdict import Verdict
from ..plan.plan import Cell
from ..storage.scratch import new_scratch, open_scratch
from .cluster import Sign
from .device_worker import take_cores
from .protocol import AnyBrief, Order, Parcel, Slot

SIGN_EVERY_S = 1.0

_OF_RAY = ("OMP_NUM_THREADS",)
"""What Ray sets in the environment of its workers and `rooflens run` does not: kernels would be measured otherwise."""


class Board:
    """An actor: the last sign of every station, and whether they are to stop."""

    def __init__(self) -> None:
        self._signs: dict[str, Sign] = {}
        self._stop = False

    def post(self, station: str, sign: Sign) -> bool:
        """Take a station's sign; True when it is to stop."""
        self._signs[station] = sign
        return self._stop

    def read(self) -> Mapping[str, Sign]:
        """Return the last sign of every station by its name."""
        return self._signs

    def stop(self) -> None:
        """Ask all stations to stop."""
        self._stop = True


class Signals:
    """Observer of a session: passes on what it hears, without ever waiting for the board."""

    def __init__(self, post: Callable[[Sign], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._post, self._clock = post, clock
        self._doing, self._units, self._count = "", 0, 0
        self._posted_at, self._posted_count = -SIGN_EVERY_S, -1
        self._answer: Any = None
        self._stop = False

    def started(self, total_units: int, finished_units: int) -> None:
        """Begin a job."""

    def begin(self) -> None:
        """Count the units of the next job from 0."""
        self._units = 0
        self._count += 1

    def doing(self, what: str) -> None:
        """Note what the worker does."""
        self._doing = what
        self._count += 1

    def finished(self, cell: Cell, verdict: Verdict, reason: str, units: int) -> None:
        """Count units."""
        self.home(units)

    def home(self, units: int) -> None:
        """Count units of which there is no more to say."""
        self._units += units
        self._count += 1

    def grown(self, total_units: int) -> None:
        """Nothing: a job does not grow."""

    def remark(self, text: str) -> None:
        """Note that something happened; the text is in events.log."""
        self._count += 1

    def should_stop(self) -> bool:
        """Tell whether the board said stop. Asked ten times a second, so this is where signs are posted."""
        if self._answer is not None:
            ready, _ = ray.wait([self._answer], timeout=0)
            if ready:
                with suppress(RayError):  # a board that is gone for a moment, or for good, stops no measurement
                    self._stop = bool(ray.get(self._answer))
                self._answer = None
        now = self._clock()
        if self._answer is None and now - self._posted_at >= SIGN_EVERY_S:
            self._posted_at = now
            self._answer = self._post(Sign(self._doing, self._units, self._count))
        return self._stop


def as_started_by_hand() -> tuple[str, ...]:
    """Undo what Ray does to its workers and `rooflens run` does not have; return what could not be undone."""
    for variable in _OF_RAY:
        os.environ.pop(variable, None)
    niceness = os.nice(0)
    if niceness > 0:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        except OSError:
            return (
                f"Ray runs its workers at nice {niceness}, so that others come first: start its nodes with "
                "RAY_worker_niceness=0 in the environment",
            )
    return ()


class RayStation:
    """An actor: `Station`, with a scratch folder where temporary files are on this machine."""

    def __init__(self, brief: AnyBrief, slot: Slot, name: str, board: Any) -> None:
        remarks = as_started_by_hand()
        self._cores_of = slot if brief.device == "cpu" else None
        self._signals = Signals(lambda sign: board.post.remote(name, sign))
        self._scratch = new_scratch(name)
        self._station = brief.station(slot, name, self._scratch, self._signals, self._signals.should_stop, remarks)

    def open(self) -> Parcel:
        """See `Station`. What goes wrong here is told with its reason; in `__init__`, Ray would say that it died."""
        if self._cores_of is not None:
            take_cores(self._cores_of)
        open_scratch(self._scratch)
        return self._station.open()

    def measure(self, order: Order) -> Parcel:
        """See `Station`."""
        self._signals.begin()
        return self._station.measure(order)

    def close(self) -> Parcel:
        """See `Station`."""
        return self._station.close()
