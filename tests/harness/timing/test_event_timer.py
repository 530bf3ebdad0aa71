"""The event timer over the scripted device: exact times, and no host latency in any of them, or its flag says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.harness.timing.event_timer import (
    HOST_SAMPLES,
    LONGEST_BLOCKER_S,
    MAX_QUEUED,
    MOST_LATE,
    TRIES,
    EventTimer,
)
from rooflens.harness.timing.samples import NOT_BLOCKED
from rooflens.harness.timing.timer import Subject

from ..fake_cache import Buffer, FakeCache
from ..fake_device import FakeDevice
from ..fake_latency import Latency
from ..fake_script import Costs

TICK = 32e-9

MICROSECOND = 1e-6


def within_a_tick(times, kernel, gap=1e-6):
    """The latest runs of `kernel`, with the gap before each, which lies between the events."""
    truth = [duration + gap for duration in kernel.durations_s[-len(times) :]]
    return list(times) == pytest.approx(truth, rel=0, abs=1.01 * TICK)


def counting_within_a_tick(batch, kernel, gap=1e-6):
    """The same of those samples that count; the others say that they were not blocked."""
    reasons = batch.discarded or ("",) * len(batch.times_s)
    assert set(reasons) <= {"", NOT_BLOCKED}
    truths = kernel.durations_s[-len(batch.times_s) :]
    pairs = [(time, truth + gap) for time, truth, why in zip(batch.times_s, truths, reasons, strict=True) if not why]
    assert len(pairs) >= (1 - MOST_LATE) * len(reasons)
    return [time for time, _ in pairs] == pytest.approx([truth for _, truth in pairs], rel=0, abs=1.01 * TICK)


def test_each_sample_is_its_launch_and_nothing_else():
    device = FakeDevice()
    kernel = device.kernel(Latency(20e-6, noise=0.2, seed=1))
    timer = EventTimer(device, Subject(device.launcher(kernel), device.flusher(60e-6), 2))
    for count in (10, 5, 30):
        batch = timer.batch(count)
        assert len(batch.times_s) == count
        assert within_a_tick(batch.times_s, kernel)
        assert batch.blocked is True
        assert batch.discarded == ()
    assert timer.resolution_s == TICK
    assert timer.remark == ""


def test_a_launch_of_several_kernels_is_timed_from_the_first_to_the_last():
    device = FakeDevice()
    launch = device.launcher(device.kernel(5e-6), device.kernel(7e-6))
    assert EventTimer(device, Subject(launch)).batch(10).times_s == pytest.approx([14e-6] * 10, abs=2 * TICK)


@given(
    launch_us=st.floats(1, 300),
    flush_launch_us=st.floats(1, 50),
    kernel_us=st.floats(0.5, 400),
    flush_us=st.one_of(st.none(), st.floats(1, 300)),
    spin_factor=st.floats(0.5, 20),
    counts=st.lists(st.integers(1, 80), min_size=1, max_size=4),
    stalls=st.dictionaries(st.integers(1, 1500), st.floats(5e-6, 5e-3), max_size=6),
)
def test_no_blocked_sample_holds_host_latency_at_any_pace(
    launch_us, flush_launch_us, kernel_us, flush_us, spin_factor, counts, stalls
):
    device = FakeDevice(stalls=stalls, spin_factor=spin_factor)
    kernel = device.kernel(kernel_us * MICROSECOND, host_s=launch_us * MICROSECOND)
    subject = Subject(device.launcher(kernel))
    if flush_us is not None:
        flush = device.flusher(flush_us * MICROSECOND, host_s=flush_launch_us * MICROSECOND)
        subject = Subject(device.launcher(kernel), flush, 2)
    timer = EventTimer(device, subject)
    for count in counts:
        batch = timer.batch(count)
        assert 1 <= len(batch.times_s) <= count
        if batch.blocked:
            assert counting_within_a_tick(batch, kernel)
        else:
            assert stalls, "nothing but a stall of the host is a reason here"


@given(count=st.integers(2, 60), late=st.integers(0, 59), flush_us=st.sampled_from([0, 60]))
def test_a_stall_inside_of_any_sample_is_overcome(count, late, flush_us):
    """The host stands still for 5 ms at one call of the first batch: its sample does not count, or all are repeated."""
    device = FakeDevice()
    kernel = device.kernel(5e-6)
    subject = Subject(device.launcher(kernel), device.flusher(flush_us * MICROSECOND), 2)
    if not flush_us:
        subject = Subject(device.launcher(kernel))
    timer = EventTimer(device, subject)
    timer.batch(1)
    device.stalls = {device.calls + 4 + late * 5: 5e-3}
    batch = timer.batch(count)
    assert batch.blocked is True
    assert counting_within_a_tick(batch, kernel)


def test_times_that_do_hold_host_latency_are_flagged():
    """The same stall, at every try: what is kept is not called blocked, and is not right either."""
    device = FakeDevice(Costs(launch_s=5e-6))
    kernel = device.kernel(5e-6)

    def launch():
        device.host_call(2 * LONGEST_BLOCKER_S)
        device.launcher(kernel)()

    batch = EventTimer(device, Subject(launch)).batch(4)
    assert batch.blocked is False
    assert min(batch.times_s) > 1e-3


@pytest.mark.parametrize(
    ("is_noticed", "spins", "longest_s"),
    [(True, 20, 1e-3), (False, 1 + TRIES + 19, 2 * LONGEST_BLOCKER_S)],  # the pilot, the first batch, the others
)
def test_a_launch_that_waits_is_flagged_and_costs_no_ever_longer_blocker(monkeypatch, is_noticed, spins, longest_s):
    device = FakeDevice()
    if not is_noticed:  # by the framework
        monkeypatch.setattr(device, "synchronizes", lambda work: False)
    timer = EventTimer(device, Subject(device.launcher(device.kernel(5e-6), waits=True)))
    assert ("waits for the device" in timer.remark) is is_noticed
    for _ in range(20):
        assert timer.batch(10).blocked is False
    assert len(device.spins_s) <= spins
    assert max(device.spins_s) <= longest_s
    assert sum(device.spins_s) < 20 * LONGEST_BLOCKER_S
    assert device.spins_s[-1] < 5e-3


def test_a_launch_of_many_kernels_is_queued_in_smaller_batches():
    """60 kernels x 60 samples are more than the driver holds, and no blocker outlasts a host that waits for it."""
    device = FakeDevice(Costs(gap_s=0.2e-6), queue_limit=1024)
    kernel = device.kernel(1e-6, host_s=3e-6)
    timer = EventTimer(device, Subject(device.launcher(*[kernel] * 60)))
    batches = [timer.batch(60) for _ in range(3)]
    assert len(batches[0].times_s) < 60
    for batch in batches:
        assert batch.blocked is True
        reasons = batch.discarded or ("",) * len(batch.times_s)
        counting = [time for time, why in zip(batch.times_s, reasons, strict=True) if not why]
        assert counting == pytest.approx([60 * 1.2e-6] * len(counting), abs=2 * TICK)
        assert len(counting) >= (1 - MOST_LATE) * len(reasons)


def test_the_queue_stays_short_of_what_the_driver_holds():
    device = FakeDevice(queue_limit=MAX_QUEUED + 2)
    timer = EventTimer(device, Subject(device.launcher(device.kernel(5e-6)), device.flusher(60e-6), 2))
    batch = timer.batch(1000)
    assert batch.blocked is True
    assert len(batch.times_s) * 5 <= MAX_QUEUED


def test_negative_times_are_kept_with_their_reason():
    """HIP returns some: here the begin of the fourth sample is stamped a millisecond late (3 stamps were before)."""
    device = FakeDevice(moved_stamps={3 + 2 * 3 + 1: 1e-3})
    batch = EventTimer(device, Subject(device.launcher(device.kernel(20e-6)))).batch(10)
    assert batch.times_s[3] == pytest.approx(21e-6 - 1e-3, abs=2 * TICK)
    assert batch.discarded == ("",) * 3 + ("negative time",) + ("",) * 6


def test_host_times_are_taken_once_from_an_idle_device_to_an_idle_device():
    device = FakeDevice(Costs(launch_s=4e-6, synchronize_s=3e-6, clock_s=0.0, gap_s=1e-6))
    timer = EventTimer(device, Subject(device.launcher(device.kernel(20e-6)), device.flusher(60e-6), 2))
    assert timer.batch(10).host_s == pytest.approx([4e-6 + 1e-6 + 20e-6 + 3e-6] * HOST_SAMPLES)
    assert timer.batch(10).host_s == ()


def test_the_rest_is_done_while_the_device_works():
    device = FakeDevice()
    timer = EventTimer(device, Subject(device.launcher(device.kernel(50e-6))))
    seen = []
    timer.batch(10, lambda: seen.append(device.is_busy))
    assert seen == [True]


def test_lines_that_a_launch_told_to_stay_are_gone_before_each_batch():
    """Also before one that is queued again, and before the first, whose launches alone have left such lines."""
    device = FakeDevice(Costs(gap_s=0.0), cache=FakeCache(1 << 20), persistence=True)
    kernel = device.kernel(1e-6, reads=[Buffer(512 << 10)], persists=True)
    timer = EventTimer(device, Subject(device.launcher(kernel), device.flusher(), 2))
    cold = 1e-6 + (512 << 10) / 4e12
    device.launcher(kernel)()
    times = list(timer.batch(1).times_s)
    device.stalls = {device.calls + 5: 1e-3}
    spins = len(device.spins_s)
    times += [timer.batch(1).times_s[0] for _ in range(5)]
    assert len(device.spins_s) > spins + 5, "one batch had to be queued again"
    assert times == pytest.approx([cold] * 6, abs=2 * TICK)
