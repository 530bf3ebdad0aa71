"""The scripted device against timelines worked out by hand: what the other tests stand on."""

import pytest

from ..fake_cache import Buffer, FakeCache, Traffic
from ..fake_device import FakeDevice
from ..fake_script import FREE, Costs, Slowdown


def test_kernels_wait_for_their_launch_and_for_each_other():
    """Host: kernels are queued at 10, 20 and 30 us. Device: 25 us each, 2 us before each."""
    device = FakeDevice(Costs(launch_s=10e-6, gap_s=2e-6, synchronize_s=5e-6))
    kernel = device.kernel(25e-6)
    device.launcher(kernel, kernel, kernel)()
    assert device.host_s == pytest.approx(30e-6)
    device.synchronize()
    assert [start for start, _ in kernel.runs] == pytest.approx([12e-6, 39e-6, 66e-6])
    assert device.host_s == pytest.approx(91e-6 + 5e-6)
    device.launcher(kernel)()  # queued at 106 us on an idle device
    device.synchronize()
    assert kernel.runs[-1][0] == pytest.approx(108e-6)


def test_events_stamp_device_time_in_steps_and_are_reached_when_it_has_passed():
    device = FakeDevice(Costs(launch_s=10e-6, event_s=0.0, gap_s=0.0), resolution_s=1e-6)
    begin, end = device.event(), device.event()
    begin.record()
    device.launcher(device.kernel(20.7e-6))()
    end.record()
    assert begin.reached()
    assert not end.reached()
    with pytest.raises(RuntimeError, match="not reached"):
        begin.seconds_until(end)
    device.synchronize()
    assert begin.seconds_until(end) == pytest.approx(30e-6)  # 0 to 30.7 us, and the step is 1 us


def test_a_stall_and_a_full_queue_keep_the_host():
    device = FakeDevice(Costs(launch_s=1e-6, gap_s=0.0), stalls={2: 50e-6})
    kernel = device.kernel(10e-6)
    device.launcher(kernel, kernel)()
    assert device.host_s == pytest.approx(52e-6)
    device = FakeDevice(FREE, queue_limit=3)
    kernel = device.kernel(10e-6)
    for _ in range(5):
        device.launcher(kernel)()
    assert device.host_s == pytest.approx(10e-6)  # one runs, three are queued, the fifth waited for the first to end


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


def test_the_least_recently_used_lines_go_first_and_dirty_ones_are_written_back():
    cache = FakeCache(400, line=100)
    first, second, third = Buffer(200), Buffer(200), Buffer(250)
    for buffer in (first, second, first):
        cache.read(buffer, Traffic())
    assert (cache.resident(first), cache.resident(second)) == (200, 200)
    traffic = Traffic()
    cache.write(third, traffic)  # evicts the second, and then 100 bytes of the first
    assert (cache.resident(first), cache.resident(second), cache.resident(third)) == (100, 0, 250)
    assert traffic == Traffic(missed=0, hit=250, written_back=0)
    traffic = Traffic()
    cache.read(Buffer(400), traffic)
    assert traffic == Traffic(missed=400, hit=0, written_back=250)
