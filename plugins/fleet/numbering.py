"""The architectures that nodes of a cluster offer, and the numbers of their places."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from ...harness.sweep.cluster import Place
from ...shapes.architectures import is_architecture, is_gpu


class NodeOffer(NamedTuple):
    """What one node offers of one architecture."""

    node: str
    host: str
    arch: str
    amount: int


def architectures(resources: Mapping[str, float]) -> dict[str, int]:
    """Return the architectures among the resources of a Ray node or cluster, and how many devices of each."""
    return {name: int(amount) for name, amount in sorted(resources.items()) if int(amount) and is_architecture(name)}


def numbered(offers: Sequence[NodeOffer], known: Iterable[Place]) -> list[Place]:
    """Number the places of new nodes, beside those that are `known`.

    Those of one host and architecture share its cores, whatever their nodes: no two have the same number, and each
    says how many there are. A known one keeps its number and count, because a worker may be running there.
    """
    numbers = {(place.host, place.arch, place.index): place.count for place in known}
    totals = Counter((host, arch) for host, arch, _ in numbers)
    for offer in offers:
        totals[offer.host, offer.arch] += offer.amount
    found = []
    for offer in offers:
        where = offer.host, offer.arch
        total = max([totals[where], *(most for (*taken, _), most in numbers.items() if (*taken,) == where)])
        for _ in range(offer.amount):
            index = next(number for number in count() if (*where, number) not in numbers)
            numbers[*where, index] = total
            found.append(Place(*where, index, total, "cuda" if is_gpu(offer.arch) else "cpu", offer.node))
    return found
