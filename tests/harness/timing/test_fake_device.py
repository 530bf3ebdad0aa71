"""The scripted device against timelines worked out by hand, where no timer's test would notice."""

import pytest

from ..fake_cache import Buffer, FakeCache
from ..fake_device import FakeDevice
from ..fake_script import FREE, Costs, Slowdown


def test_a_replayed_graph_runs_its_kernels_with_shorter_gaps():
    device = FakeDevice(Costs(gap_s=3e-6, graph_gap_s=1e-6))
    first, second = device.kernel(5e-6), device.kernel(7e-6)
    replay = device.capture(device.launcher(first, second))
    assert not first.runs, "what is captured does not run"
    replay()
    device.synchronize()
    assert second.runs[-1][0] - first.runs[-1][0] == pytest.approx(6e-6)
    with pytest.raises(RuntimeError, match="capturing"):
        device.capture(device.launcher(first, waits=True))


def test_the_clock_slows_kernels_down_and_the_telemetry_says_so():
    device = FakeDevice(FREE, slowdowns=[Slowdown(1.0, 0.5)])
    kernel = device.kernel(10e-6)
    device.launcher(kernel)()
    assert device.read().slowdown == ()
    fast = device.read().clock_hz
    device.host_s = 2.0
    device.launcher(kernel)()
    device.synchronize()
    assert device.read().slowdown == ("thermal",)
    assert device.read().clock_hz == fast / 2
    assert kernel.durations_s == pytest.approx((10e-6, 20e-6))


def test_the_least_recently_used_lines_go_first_and_those_told_to_stay_never():
    """Of 64 bytes; memory gives a byte per second, the cache two."""
    cache = FakeCache(64, memory_bytes_per_s=1.0, cache_bytes_per_s=2.0)
    first, second, third, fourth = (Buffer(32) for _ in range(4))
    assert [cache.read_s(buffer) for buffer in (first, second, first, third, first)] == [32, 32, 16, 32, 16]
    assert [cache.read_s(first, persists=True), cache.read_s(fourth), cache.read_s(second)] == [16, 32, 32]
    assert cache.read_s(first) == 16
    cache.end_persistence()
    assert [cache.read_s(buffer) for buffer in (third, fourth, first)] == [32, 32, 32]
