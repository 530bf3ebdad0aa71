"""The profiler timer over scripted traces: sums, spans and names, and refusal where records were lost."""

import pytest
from rooflens.harness.profiler_timer import LARGEST_BATCH, ProfilerTimer
from rooflens.harness.timer import Subject
from rooflens.shapes.errors import RooflensError

from .fake_cache import Buffer, FakeCache
from .fake_device import FakeDevice
from .fake_latency import Latency
from .fake_script import FREE, Costs

TICK = 32e-9


def timer_of(device, *kernels, flush=False):
    launch = device.launcher(*kernels)
    subject = Subject(launch, device.flusher(60e-6, write=2), 2) if flush else Subject(launch)
    return ProfilerTimer(device, subject)


@pytest.mark.parametrize("flush", [False, True])
def test_a_sample_is_the_sum_of_the_launchs_own_kernels(flush):
    device = FakeDevice()
    kernels = [device.kernel(Latency(5e-6, noise=0.2, seed=seed), f"part{seed}") for seed in range(3)]
    batch = timer_of(device, *kernels, flush=flush).batch(8)
    truth = [sum(parts) for parts in zip(*[kernel.durations_s[-8:] for kernel in kernels], strict=True)]
    assert batch.times_s == pytest.approx(truth, rel=0, abs=TICK)
    assert batch.kernels == ("part0", "part1", "part2")
    assert batch.discarded == ()
    assert batch.blocked is None


def test_the_span_has_the_gaps_between_the_kernels_as_well():
    device = FakeDevice(Costs(launch_s=1e-6, gap_s=2e-6))
    batch = timer_of(device, device.kernel(20e-6), device.kernel(30e-6)).batch(4)
    assert batch.times_s == pytest.approx([50e-6] * 4)
    assert batch.spans_s == pytest.approx([52e-6] * 4)


def test_the_span_of_one_kernel_is_its_time():
    device = FakeDevice()
    batch = timer_of(device, device.kernel(20e-6), flush=True).batch(4)
    assert batch.spans_s == pytest.approx(batch.times_s)
    assert batch.times_s == pytest.approx([20e-6] * 4)


@pytest.mark.parametrize(
    ("kernels", "flush", "lost"),
    [
        (1, False, [3]),
        (1, True, [0]),
        (2, True, [7]),
        (2, False, [0, 1]),
        (2, False, range(10, 20)),  # half of the records: ten are left for ten launches
        (2, True, range(30, 40)),
        (2, True, range(0, 40, 4)),  # the first of each flush
        (1, True, range(20)),  # as many as make two thirds
        (1, False, range(10)),  # all of them
    ],
)
def test_lost_records_are_refused(kernels, flush, lost):
    device = FakeDevice()
    timer = timer_of(device, *[device.kernel(5e-6, f"part{number}") for number in range(kernels)], flush=flush)
    assert len(timer.batch(10).times_s) == 10
    device.lost_records = set(lost)
    with pytest.raises(RooflensError, match="--timer event"):
        timer.batch(10)


def test_a_launch_that_takes_turns_between_kernels_is_refused():
    device = FakeDevice()
    kernels = [device.kernel(5e-6, "odd"), device.kernel(9e-6, "even")]
    calls = [device.launcher(kernel) for kernel in kernels]
    turn = iter(range(1000))
    timer = ProfilerTimer(device, Subject(lambda: calls[next(turn) % 2]()))
    with pytest.raises(RooflensError, match="does not always run the same kernels"):
        timer.batch(10)


def test_a_trace_stays_small():
    device = FakeDevice(FREE)
    assert len(timer_of(device, device.kernel(5e-6)).batch(1000).times_s) == LARGEST_BATCH


def test_the_rest_is_done_while_the_device_works():
    device = FakeDevice()
    seen = []
    timer_of(device, device.kernel(50e-6)).batch(10, lambda: seen.append(device.is_busy))
    assert seen == [True]


def test_lines_that_a_launch_told_to_stay_are_gone_before_each_batch():
    size = 512 << 10
    device = FakeDevice(FREE, cache=FakeCache(1 << 20), persistence=True)
    kernel = device.kernel(1e-6, reads=[Buffer(size)], persists=True)
    timer = timer_of(device, kernel, flush=True)
    times = [timer.batch(1).times_s[0] for _ in range(4)]
    assert times == pytest.approx([1e-6 + size / 4e12] * 4, abs=TICK)
