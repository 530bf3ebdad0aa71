"""The graph timer over the scripted device: means over whole periods."""

from dataclasses import replace

import pytest
from rooflens.harness.timing.cache import Rotation, rotated
from rooflens.harness.timing.cache_sizes import copies_needed
from rooflens.harness.timing.graph_timer import LEAST_S, MOST_LAUNCHES, GraphTimer
from rooflens.harness.timing.timer import Subject
from rooflens.shapes.errors import RooflensError

from ..fake_cache import Buffer, FakeCache
from ..fake_device import H200, FakeDevice
from ..fake_latency import Latency
from ..fake_script import Costs

TICK = 32e-9

GAP = Costs().graph_gap_s

SMALL = replace(H200, llc_bytes=1 << 20)


def test_a_sample_is_the_mean_over_the_launches_of_a_replay():
    device = FakeDevice()
    kernel = device.kernel(Latency(5e-6, noise=0.3, seed=2))
    timer = GraphTimer(device, Subject(device.launcher(kernel)))
    each = timer.launches_per_sample
    batch = timer.batch(7)
    truth = kernel.durations_s[-7 * each :]
    means = [sum(truth[start : start + each]) / each + GAP for start in range(0, 7 * each, each)]
    assert batch.times_s == pytest.approx(means, rel=0, abs=1.01 * TICK / each)
    assert batch.blocked is True
    assert timer.resolution_s == pytest.approx(TICK / each)


@pytest.mark.parametrize("kernel_s", [0.3e-6, 1e-6, 5e-6, 50e-6, 1e-3])
def test_a_graph_runs_long_enough_for_its_surroundings_not_to_count(kernel_s):
    device = FakeDevice()
    timer = GraphTimer(device, Subject(device.launcher(device.kernel(kernel_s))))
    assert timer.batch(3).times_s == pytest.approx([kernel_s + GAP] * 3, rel=1e-3)
    assert timer.launches_per_sample <= MOST_LAUNCHES
    lasts_s = timer.launches_per_sample * (kernel_s + GAP)
    assert lasts_s > 0.95 * LEAST_S


@pytest.mark.parametrize("period", [1, 3, 47, 700, 1500])
def test_a_graph_holds_whole_periods(period):
    device = FakeDevice()
    kernels = [device.kernel(1e-6, str(number)) for number in range(period)]
    calls = [device.launcher(kernel) for kernel in kernels]
    subject = Subject(calls[0])
    if period > 1:
        subject = rotated(Rotation(calls, 1 + 2 * H200.llc_bytes // (period - 1), H200))
    timer = GraphTimer(device, subject)
    assert timer.launches_per_sample % period == 0
    assert timer.launches_per_sample <= max(period, MOST_LAUNCHES)
    before = [len(kernel.runs) for kernel in kernels]
    timer.batch(2)
    runs = {len(kernel.runs) - count for kernel, count in zip(kernels, before, strict=True)}
    assert len(runs) == 1, "some copies were used more often than others"


def test_rotation_is_cold_within_a_replay_and_from_one_to_the_next():
    size = 300_000
    device = FakeDevice(Costs(graph_gap_s=0.0), cache=FakeCache(1 << 20))
    copies = [device.kernel(1e-6, reads=[Buffer(size)]) for _ in range(copies_needed(size, SMALL))]
    subject = rotated(Rotation([device.launcher(copy) for copy in copies], size, SMALL))
    timer = GraphTimer(device, subject)
    cold = 1e-6 + size / 4e12
    assert timer.batch(5).times_s == pytest.approx([cold] * 5, rel=1e-3)
    assert all(copy.durations_s[1:] == pytest.approx([cold] * (len(copy.runs) - 1)) for copy in copies)


def test_a_host_that_takes_long_to_replay_is_not_in_the_time():
    """As on HIP, where each node of a graph costs the host about as much as a launch."""
    device = FakeDevice(Costs(node_s=2e-6))
    timer = GraphTimer(device, Subject(device.launcher(device.kernel(1e-6))))
    for _ in range(3):
        batch = timer.batch(10)
        assert batch.blocked is True
        assert batch.times_s == pytest.approx([1e-6 + GAP] * len(batch.times_s), rel=1e-3)


def test_a_launch_that_waits_cannot_be_captured():
    device = FakeDevice()
    with pytest.raises(RooflensError, match="waits for the device"):
        GraphTimer(device, Subject(device.launcher(device.kernel(5e-6), waits=True)))


def test_lines_that_a_launch_told_to_stay_are_not_used_again_in_a_graph():
    """Nothing inside of a graph releases them: it holds one period."""
    size = 256 << 10
    device = FakeDevice(Costs(graph_gap_s=0.0), cache=FakeCache(1 << 20), persistence=True)
    copies = [device.kernel(1e-6, reads=[Buffer(size)], persists=True) for _ in range(copies_needed(size, SMALL))]
    rotation = rotated(Rotation([device.launcher(copy) for copy in copies], size, SMALL))
    timer = GraphTimer(device, rotation)
    assert timer.launches_per_sample == len(copies)
    times = [timer.batch(1).times_s[0] for _ in range(4)]
    assert times == pytest.approx([1e-6 + size / 4e12] * 4, abs=2 * TICK)
