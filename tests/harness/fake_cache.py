"""A last-level cache: least recently used lines go first, dirty ones are written back, persisting ones stay."""

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


@dataclass
class Traffic:
    """Bytes that one kernel moved."""

    missed: int = 0
    hit: int = 0
    written_back: int = 0


@dataclass
class _Line:
    size: int
    dirty: bool = False


class FakeCache:
    """Exact LRU by bytes over lines (coarse ones: a real line's 128 bytes would change nothing but the time it takes).

    A read that misses costs memory bandwidth, everything else the cache's; a line that is evicted while dirty costs
    memory bandwidth once more, and whoever evicts it pays. Writes fill whole lines, so they fetch nothing.
    """

    def __init__(
        self, size: int, memory_bytes_per_s: float = 4e12, cache_bytes_per_s: float = 12e12, line: int = 0
    ) -> None:
        self.size, self.line = size, line or max(1, size // 64)
        self._memory, self._cache = memory_bytes_per_s, cache_bytes_per_s
        self._lines: OrderedDict[tuple[int, int], _Line] = OrderedDict()
        self._persisting: OrderedDict[tuple[int, int], _Line] = OrderedDict()
        self._used = 0

    def seconds(self, traffic: Traffic) -> float:
        """Time that `traffic` takes."""
        return (traffic.missed + traffic.written_back) / self._memory + traffic.hit / self._cache

    def read(self, buffer: Buffer, traffic: Traffic, persists: bool = False) -> None:
        """Read all of `buffer`; `persists` asks its lines to stay."""
        for key, size in self._keys(buffer):
            if self._touch(key, persists) is not None:
                traffic.hit += size
            else:
                traffic.missed += size
                self._insert(key, _Line(size), traffic, persists)

    def write(self, buffer: Buffer, traffic: Traffic) -> None:
        """Write all of `buffer`."""
        for key, size in self._keys(buffer):
            line = self._touch(key, False)
            if line is None:
                line = _Line(size)
                self._insert(key, line, traffic, False)
            line.dirty = True
            traffic.hit += size

    def resident(self, buffer: Buffer) -> int:
        """Bytes of `buffer` in the cache."""
        return sum(size for key, size in self._keys(buffer) if key in self._lines or key in self._persisting)

    def end_persistence(self) -> None:
        """Make all lines ordinary; those that were persisting count as just used."""
        self._lines.update(self._persisting)
        self._persisting.clear()

    def _keys(self, buffer: Buffer) -> Iterator[tuple[tuple[int, int], int]]:
        for start in range(0, buffer.size, self.line):
            yield (buffer.number, start), min(self.line, buffer.size - start)

    def _touch(self, key: tuple[int, int], persists: bool) -> _Line | None:
        if (line := self._persisting.get(key)) is not None:
            return line
        if (line := self._lines.get(key)) is None:
            return None
        self._lines.move_to_end(key)
        if persists:
            self._persisting[key] = self._lines.pop(key)
        return line

    def _insert(self, key: tuple[int, int], line: _Line, traffic: Traffic, persists: bool) -> None:
        while self._used + line.size > self.size and self._lines:
            _, evicted = self._lines.popitem(last=False)
            self._used -= evicted.size
            traffic.written_back += evicted.size if evicted.dirty else 0
        if self._used + line.size > self.size:
            # Nothing but persisting lines is left: this one passes the cache by.
            return
        (self._persisting if persists else self._lines)[key] = line
        self._used += line.size
