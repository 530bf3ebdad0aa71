"""Which free device gets which part of what is to be measured. Pure: no clock, no thread.

Parts of equal weights are neighbours: a device continues with its weight, else with the least held one. A device that
is free when all weights are held helps another. The cost of a step does not depend on the number of parts.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MOST_LOSSES = 3
"""Devices that may be lost over one part before it is given up: it may be the part that ends them."""


@dataclass(frozen=True, slots=True)
class Item:
    """What one device measures in one piece, its `content`; `name` is for the reader, and `key` tells it from others.

    Parts with equal weights share operands, which a device keeps from one to the next.
    """

    key: Any
    weight: Hashable
    name: str
    content: Any

    def __str__(self) -> str:
        return self.name


class PartQueue:
    """The parts of one architecture that remain. A device is any permanent identifier, such as its UUID.

    `begun` has the device of each part that is stored in part: it alone can complete it, another one starts over.
    """

    def __init__(self, parts: Iterable[Item] = (), begun: Mapping[Hashable, Hashable] | None = None) -> None:
        self._weights: deque[deque[Item]] = deque()
        self._own: dict[Hashable, deque[Item]] = {}
        self._begun: dict[Hashable, deque[Item]] = {}
        self._lost: deque[tuple[Item, Hashable]] = deque()
        self._losses: Counter[Hashable] = Counter()
        self.given_up: list[Item] = []
        self._left = 0
        self.add(parts, begun)

    def __len__(self) -> int:
        """Number of unassigned parts."""
        return self._left

    def add(self, parts: Iterable[Item], begun: Mapping[Hashable, Hashable] | None = None) -> None:
        """Add parts."""
        groups: dict[Hashable, deque[Item]] = {}
        for part in parts:
            self._left += 1
            if begun and part.key in begun:
                self._begun.setdefault(begun[part.key], deque()).append(part)
            else:
                groups.setdefault(part.weight, deque()).append(part)
        self._weights.extendleft(reversed(groups.values()))

    def next(self, device: Hashable, present: Iterable[Hashable] = (), others_expected: bool = False) -> Item | None:
        """Take the next part for `device`; None when it has to wait, or nothing is left.

        A part that was lost goes to another device if there is one. One that another device has begun is reserved for
        that one while it is `present`, or `others_expected`.
        """
        part = (
            _first(self._begun.get(device))
            or self._lost_elsewhere(device)
            or self._of_a_weight(device)
            or self._begun_elsewhere(set(present), others_expected)
        )
        if part is None and self._lost and not others_expected and set(present) <= {device}:
            part = self._lost.popleft()[0]
        self._left -= part is not None
        return part

    def back(self, part: Item) -> None:
        """Return a part that its device could not do, for a reason that lies with the device."""
        self._lost.append((part, None))
        self._left += 1

    def lost(self, part: Item, device: Hashable) -> bool:
        """Return a part whose device was lost over it; False when it is given up after too many losses."""
        self._losses[part.key] += 1
        if self._losses[part.key] >= MOST_LOSSES:
            self.given_up.append(part)
            return False
        self._lost.append((part, device))
        self._left += 1
        return True

    def _of_a_weight(self, device: Hashable) -> Item | None:
        own = self._own.get(device)
        if not own:
            while self._weights and not self._weights[0]:
                self._weights.popleft()
            if not self._weights:
                return None
            own = self._own[device] = self._weights[0]
            self._weights.rotate(-1)
        return own.popleft()

    def _lost_elsewhere(self, device: Hashable) -> Item | None:
        for at, (part, where) in enumerate(self._lost):
            if where != device:
                del self._lost[at]
                return part
        return None

    def _begun_elsewhere(self, present: set[Hashable], others_expected: bool) -> Item | None:
        if others_expected:
            return None
        return next((_first(parts) for owner, parts in self._begun.items() if parts and owner not in present), None)


def _first(parts: deque[Item] | None) -> Item | None:
    return parts.popleft() if parts else None
