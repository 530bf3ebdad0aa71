"""A last-level cache: least recently used lines go first, persisting ones stay."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

_numbers = count()


@dataclass(frozen=True)
class Buffer:
    """Device memory of a kernel's operand."""

    size: int
    number: int = field(default_factory=lambda: next(_numbers))


class FakeCache:
    """Exact LRU by bytes over lines (coarse ones: a real line's 128 bytes would change nothing but the time it takes).

    A read that misses costs memory bandwidth, one that hits the cache's.
    """

    def __init__(self, size: int, memory_bytes_per_s: float = 4e12, cache_bytes_per_s: float = 12e12) -> None:
        self.size, self._line = size, max(1, size // 64)
        self._memory, self._cache = memory_bytes_per_s, cache_bytes_per_s
        self._lines: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._persisting: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._used = 0

    def read_s(self, buffer: Buffer, persists: bool = False) -> float:
        """Read all of `buffer`; `persists` asks its lines to stay. Return the seconds that it takes."""
        seconds = 0.0
        for key, size in self._keys(buffer):
            if self._touch(key, persists):
                seconds += size / self._cache
            else:
                seconds += size / self._memory
                self._insert(key, size, persists)
        return seconds

    def end_persistence(self) -> None:
        """Make all lines ordinary; those that were persisting count as just used."""
        self._lines.update(self._persisting)
        self._persisting.clear()

    def _keys(self, buffer: Buffer) -> Iterator[tuple[tuple[int, int], int]]:
        for start in range(0, buffer.size, self._line):
            yield (buffer.number, start), min(self._line, buffer.size - start)

    def _touch(self, key: tuple[int, int], persists: bool) -> bool:
        if key in self._persisting:
            return True
        if key not in self._lines:
            return False
        self._lines.move_to_end(key)
        if persists:
            self._persisting[key] = self._lines.pop(key)
        return True

    def _insert(self, key: tuple[int, int], size: int, persists: bool) -> None:
        while self._used + size > self.size and self._lines:
            self._used -= self._lines.popitem(last=False)[1]
        if self._used + size > self.size:
            # Nothing but persisting lines is left: this one passes the cache by.
            return
        (self._persisting if persists else self._lines)[key] = size
        self._used += size
