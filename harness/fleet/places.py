"""Places for stations on the nodes of a cluster, numbered: pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

from .orders import Slot


@dataclass(frozen=True, slots=True)
class Offer:
    """What one node offers of one architecture."""

    node: str
    host: str
    arch: str
    amount: int


def numbered(offers: Sequence[Offer], known: Iterable[Slot]) -> list[Slot]:
    """Number the places of nodes that are new, beside those that are `known`.

    Places of one host and architecture share its cores, whatever nodes they are of: so none has the number of another,
    and each says how many there are. What is known keeps its number and count, because a station may be at work there.
    """
    taken: dict[tuple[str, str], list[Slot]] = {}
    for slot in known:
        taken.setdefault((slot.host, slot.arch), []).append(slot)
    fresh: dict[tuple[str, str], int] = {}
    for offer in offers:
        place = offer.host, offer.arch
        fresh[place] = fresh.get(place, 0) + offer.amount
    free = {place: _free({slot.index for slot in taken.get(place, ())}) for place in fresh}
    found = []
    for offer in offers:
        place = offer.host, offer.arch
        others = taken.get(place, [])
        total = max([len(others) + fresh[place], *(slot.count for slot in others)])
        found += [Slot(offer.node, *place, index, total) for index in islice(free[place], offer.amount)]
    return found


def _free(taken: set[int]) -> Iterator[int]:
    return (number for number in count() if number not in taken)
