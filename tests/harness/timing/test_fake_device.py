"""The scripted cache against times worked out by hand, where no timer's test would notice."""

from ..fake_cache import Buffer, FakeCache


def test_the_least_recently_used_lines_go_first_and_those_told_to_stay_never():
    """Of 64 bytes; memory gives a byte per second, the cache two."""
    cache = FakeCache(64, memory_bytes_per_s=1.0, cache_bytes_per_s=2.0)
    first, second, third, fourth = (Buffer(32) for _ in range(4))
    assert [cache.read_s(buffer) for buffer in (first, second, first, third, first)] == [32, 32, 16, 32, 16]
    assert [cache.read_s(first, persists=True), cache.read_s(fourth), cache.read_s(second)] == [16, 32, 32]
    assert cache.read_s(first) == 16
    cache.end_persistence()
    assert [cache.read_s(buffer) for buffer in (third, fourth, first)] == [32, 32, 32]
