"""The graph timer where events cannot be nodes of a graph (HIP): what it subtracts, and when it refuses."""

import pytest
from rooflens.harness.graph_difference_timer import FLUSHED_LAUNCHES, GraphDifferenceTimer
from rooflens.harness.timer import Subject

from .fake_cache import Buffer, FakeCache
from .fake_device import FakeDevice
from .fake_latency import Latency
from .fake_script import Costs

TICK = 32e-9

GAP = Costs().graph_gap_s


def test_a_flush_is_subtracted():
    device = FakeDevice()
    kernel = device.kernel(Latency(20e-6, noise=0.05, seed=5))
    timer = GraphDifferenceTimer(device, Subject(device.launcher(kernel), device.flusher(60e-6), 2))
    assert timer.launches_per_sample == FLUSHED_LAUNCHES
    batch = timer.batch(5)
    truth = kernel.durations_s[-5 * FLUSHED_LAUNCHES :]
    means = [sum(part) / FLUSHED_LAUNCHES + GAP for part in zip(*[iter(truth)] * FLUSHED_LAUNCHES, strict=True)]
    assert batch.times_s == pytest.approx(means, rel=0, abs=2 * TICK / FLUSHED_LAUNCHES)
    assert timer.objection() == ""
    assert timer.resolution_s == 2 * TICK / FLUSHED_LAUNCHES


def test_the_difference_counts_what_the_launch_leaves_for_the_flush_to_write_back():
    """A known bias of the method: 100 kB of output are evicted by the next flush, at the speed of memory."""
    device = FakeDevice(Costs(graph_gap_s=0.0), cache=FakeCache(1 << 20, line=10_000))
    kernel = device.kernel(30e-6, reads=[Buffer(500_000)], writes=[Buffer(100_000)])
    timer = GraphDifferenceTimer(device, Subject(device.launcher(kernel), device.flusher(), 2))
    truth = 30e-6 + 500_000 / 4e12 + 100_000 / 12e12
    assert timer.batch(3).times_s == pytest.approx([truth + 100_000 / 4e12] * 3, abs=2 * TICK / FLUSHED_LAUNCHES)


@pytest.mark.parametrize(("kernel_us", "refused"), [(5, True), (5.7, True), (6.3, False), (20, False)])
def test_a_launch_that_is_small_beside_its_flush_is_refused(kernel_us, refused):
    """The limit is a tenth of the flush's 60 us; gaps of 0.2 us come on top."""
    device = FakeDevice()
    timer = GraphDifferenceTimer(
        device, Subject(device.launcher(device.kernel(kernel_us * 1e-6)), device.flusher(60e-6), 2)
    )
    timer.batch(1)
    assert timer.objection() == "", "one sample says nothing yet"
    timer.batch(10)
    assert ("under 10% of the flush" in timer.objection()) is refused
    assert ("--cold-by rotation" in timer.objection()) is refused


def test_a_difference_that_drowns_in_noise_is_refused():
    """A 10 us launch behind a flush whose two halves scatter by most of their 30 us each."""
    device = FakeDevice()
    halves = [device.kernel(Latency(30e-6, noise=0.8, seed=seed)) for seed in (1, 2)]
    timer = GraphDifferenceTimer(device, Subject(device.launcher(device.kernel(10e-6)), device.launcher(*halves), 2))
    timer.batch(4)
    assert "under 3 standard errors" in timer.objection()
    for _ in range(30):
        timer.batch(30)
    assert timer.objection() == "", "enough samples make it significant"


def test_a_negative_difference_is_kept_with_its_reason():
    device = FakeDevice()
    halves = [device.kernel(Latency(30e-6, noise=0.5, seed=seed)) for seed in (1, 2)]
    timer = GraphDifferenceTimer(device, Subject(device.launcher(device.kernel(1e-6)), device.launcher(*halves), 2))
    batch = timer.batch(20)
    assert min(batch.times_s) < 0
    assert [reason == "negative time" for reason in batch.discarded] == [time <= 0 for time in batch.times_s]


def test_lines_that_a_launch_told_to_stay_are_not_used_again_in_a_graph():
    """Nothing inside of a graph releases them: it holds one launch."""
    size = 256 << 10
    device = FakeDevice(Costs(graph_gap_s=0.0), cache=FakeCache(1 << 20), persistence=True)
    kernel = device.kernel(30e-6, reads=[Buffer(size)], persists=True)
    timer = GraphDifferenceTimer(device, Subject(device.launcher(kernel), device.flusher(), 2))
    assert timer.launches_per_sample == 1
    cold = 30e-6 + size / 4e12
    assert [timer.batch(1).times_s[0] for _ in range(4)] == pytest.approx([cold] * 4, abs=3 * TICK)
