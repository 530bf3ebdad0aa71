"""What a cluster reports of its workers, and the numbering of its slots."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from ....harness.sweep.events import Doing, Finished
from ....harness.sweep.events import Event as OfASession
from .protocol import ResultArchive, Slot


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What one node offers of one architecture."""

    node: str
    host: str
    arch: str
    amount: int


def numbered(offers: Sequence[NodeOffer], known: Iterable[Slot]) -> list[Slot]:
    """Number the slots of new nodes, beside those that are `known`.

    Slots of one host and architecture share its cores, whatever their nodes: no two have the same number, and each
    says how many there are. A known slot keeps its number and count, because a worker may be running there.
    """
    numbers = {(slot.host, slot.arch, slot.index): slot.count for slot in known}
    places = Counter((host, arch) for host, arch, _ in numbers)
    for offer in offers:
        places[offer.host, offer.arch] += offer.amount
    found = []
    for offer in offers:
        place = offer.host, offer.arch
        total = max([places[place], *(most for (*taken, _), most in numbers.items() if (*taken,) == place)])
        for _ in range(offer.amount):
            index = next(number for number in count() if (*place, number) not in numbers)
            numbers[*place, index] = total
            found.append(Slot(offer.node, *place, index, total))
    return found


@dataclass(frozen=True, slots=True)
class Answered:
    """A worker finished its last request."""

    slot: Slot
    archive: ResultArchive


@dataclass(frozen=True, slots=True)
class Failed:
    """A worker is alive and reports why it cannot continue: no device, a full disk, a missing provider."""

    slot: Slot
    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker is gone: its process, its node or the connection."""

    slot: Slot
    reason: str


Event = Answered | Failed | Lost


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last report of a worker: what it does, and the finished units of its job.

    A worker whose `count` of reports stands still hangs.
    """

    doing: str
    units: int
    count: int


class Pulse:
    """Observer of a session: what the next heartbeat says."""

    def __init__(self) -> None:
        self.heartbeat = Heartbeat("", 0, 0)

    def begin(self) -> None:
        """Count the units of the next job from 0."""
        self.heartbeat = replace(self.heartbeat, units=0, count=self.heartbeat.count + 1)

    def __call__(self, event: OfASession) -> None:
        """Count units, and every event as a sign of life."""
        last = self.heartbeat
        doing = event.what if isinstance(event, Doing) else last.doing
        units = last.units + (event.units if isinstance(event, Finished) else 0)
        self.heartbeat = Heartbeat(doing, units, last.count + 1)
