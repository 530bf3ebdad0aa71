"""One round of one cell over the scripted device: when it stops, what it discards, what it flags, what it costs."""

import gc
from dataclasses import replace
from itertools import count

import pytest
from rooflens.harness.sweep.believed import wrong_times
from rooflens.harness.telemetry.reading import Reading
from rooflens.harness.timing.event_timer import EventTimer
from rooflens.harness.timing.host_timer import HostTimer
from rooflens.harness.timing.measure import WARMUPS, measure
from rooflens.harness.timing.profiler_timer import ProfilerTimer
from rooflens.harness.timing.samples import MOST_DISCARDED
from rooflens.harness.timing.stop import StopRule
from rooflens.harness.timing.timer import Subject
from rooflens.harness.worker.messages import UnitResult
from rooflens.shapes.errors import RooflensError
from rooflens.shapes.median import interval
from rooflens.shapes.protocol import Protocol

from ..fake_cache import Buffer, FakeCache
from ..fake_device import CLOCK_HZ, FakeDevice
from ..fake_latency import Latency
from ..fake_script import FREE, Costs, Slowdown

COSTS = Costs(launch_s=9e-6, event_s=1e-6, synchronize_s=5e-6, gap_s=0.0)
"""A host that takes 12 us for the launch, 20 us for the flush and 3 us for the events of a sample."""


def cold(device, kernel, flush_s=60e-6):
    return Subject(device.launcher(kernel), device.flusher(flush_s, host_s=20e-6), 3)


def measured(device, subject, timer=EventTimer, telemetry=None, **rule):
    clock = timer(device, subject)
    rule = StopRule(
        **{"min_samples": 10, "target_ci": 0.01, "budget_s": 1.0, "resolution_s": clock.resolution_s, **rule}
    )
    taken = measure(subject, clock, rule, device, telemetry or device)
    # Whatever a timer measures, the parent believes.
    assert wrong_times(UnitResult(0, 0, {"verdict": "passed", "samples": len(taken.times_s)}, taken), Protocol()) == ""
    return taken


class Scripted:
    """Telemetry that says one reading after the other, the last one for ever."""

    def __init__(self, *readings):
        self.readings = list(readings)

    def read(self):
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


# When it stops.


def test_a_steady_kernel_takes_the_least_samples():
    device = FakeDevice(COSTS)
    taken = measured(device, cold(device, device.kernel(20e-6)))
    assert (taken.stop_reason, taken.times_s) == ("converged", pytest.approx([20e-6] * 10, abs=33e-9))
    assert taken.discarded == ("",) * 10
    assert taken.disturbed == taken.remark == ""
    assert taken.blocked is True
    assert taken.launches_per_sample == 1


def test_warm_ups_are_not_in_the_samples_and_flush_like_them():
    device = FakeDevice.cpu()
    kernel, flush = device.kernel(1e-3), device.kernel(10e-3, "flush")
    taken = measured(device, Subject(device.launcher(kernel), device.launcher(flush), 1), HostTimer)
    assert len(kernel.runs) == len(flush.runs) == WARMUPS + len(taken.times_s)


def test_every_copy_of_a_rotation_is_warmed_up():
    device = FakeDevice(FREE)
    kernels = [device.kernel(20e-6, str(number)) for number in range(7)]
    turn = iter(range(10_000))
    subject = Subject(lambda: device.launcher(kernels[next(turn) % 7])(), period=7)
    firsts = []
    timer = EventTimer(device, subject)
    batch = timer.batch

    def spy(*arguments):
        device.synchronize()
        firsts.append([len(kernel.runs) for kernel in kernels])
        return batch(*arguments)

    timer.batch = spy
    measure(subject, timer, StopRule(10, 0.01, 1.0, timer.resolution_s), device, device)
    assert min(firsts[0]) >= 1


def test_not_many_more_samples_are_taken_than_the_interval_needs():
    """Independent noise of 2 %: a median is known to 1 % after (1.96 x 1.253 x 2)^2 = 24 samples (95 %, normal)."""
    counts = []
    for seed in range(40):
        device = FakeDevice(COSTS)
        counts.append(len(measured(device, cold(device, device.kernel(Latency(20e-6, noise=0.02, seed=seed)))).times_s))
    assert 20 < sum(counts) / len(counts) < 2 * 24


@pytest.mark.parametrize("budget_s", [0.02, 0.1, 0.5])
def test_a_budget_is_kept_within_one_batch(budget_s):
    device = FakeDevice(COSTS)
    began = device.host_s
    taken = measured(device, cold(device, device.kernel(Latency(20e-6, noise=0.5))), target_ci=0.001, budget_s=budget_s)
    assert taken.stop_reason == "budget"
    assert budget_s <= taken.elapsed_s <= 1.15 * budget_s + 2e-3
    assert taken.elapsed_s <= device.host_s - began


@pytest.mark.parametrize(("launch_s", "samples"), [(0.1, 10), (0.8, 5), (30.0, 3)])
def test_a_slow_launch_gets_fewer_samples_than_asked_for(launch_s, samples):
    """A budget of 1 s may be overrun four times, and three samples are taken whatever they cost."""
    device = FakeDevice.cpu()
    kernel = device.kernel(launch_s)
    subject = Subject(device.launcher(kernel), device.flusher(), 1)
    taken = measured(device, subject, HostTimer, resolution_s=launch_s)
    assert len(taken.times_s) == samples
    assert len(kernel.runs) == WARMUPS + samples


# What the interval at stopping is worth.


def coverage(runs, **model):
    """Share of seeded runs whose interval, a tick wider, holds the true median of their model."""
    held = 0
    for seed in range(runs):
        device = FakeDevice(COSTS)
        latency = Latency(20e-6, seed=seed, **model)
        times = measured(device, cold(device, device.kernel(latency))).times_s
        low, high = interval(times)
        held += low - 16e-9 <= latency.true_median_s() <= high + 16e-9 + 32e-9
    return held / runs


@pytest.mark.parametrize(
    "model",
    [
        {"noise": 0.01},
        {"noise": 0.02},
        {"noise": 0.05},
        {"noise": 0.02, "outliers": 0.05},
        {"noise": 0.01, "second_mode": 1.1, "share": 0.3},
    ],
    ids=lambda model: "-".join(f"{name}{value:g}" for name, value in model.items()),
)
def test_under_independent_noise_the_interval_at_stopping_covers_the_median(model):
    """Nominally 95 %; stopping when it is narrow costs a little of that."""
    assert coverage(200, **model) >= 0.90


def test_under_autocorrelated_noise_it_does_not_which_is_why_rounds_decide():
    """An interval over iterations takes them as independent: with a correlation of 0.8 it is far too narrow."""
    assert coverage(100, noise=0.02, correlation=0.8) < 0.75


# What it discards.


def test_samples_of_a_hot_device_are_kept_with_their_reason():
    """Thermal slowdown sets in 30 ms after the start and ends 3 ms later."""
    device = FakeDevice(COSTS, slowdowns=[Slowdown(30e-3, 0.7, ("thermal",), 33e-3)])
    taken = measured(device, cold(device, device.kernel(Latency(20e-6, noise=0.1, seed=3))))
    marked = [time for time, why in zip(taken.times_s, taken.discarded, strict=True) if why == "thermal slowdown"]
    assert 0 < len(marked) < MOST_DISCARDED * len(taken.times_s)
    assert {*taken.discarded} == {"", "thermal slowdown"}
    assert "clock from 1386 to 1980 MHz" in taken.disturbed
    assert "kept" not in taken.disturbed
    good = [time for time, why in zip(taken.times_s, taken.discarded, strict=True) if not why]
    low, high = interval(good)
    assert (low + high) / 2 == pytest.approx(20e-6, rel=0.03)


@pytest.mark.parametrize("reason", ["thermal", "hardware"])
def test_a_cell_that_would_lose_more_than_a_third_keeps_all_and_says_so(reason):
    device = FakeDevice(COSTS, slowdowns=[Slowdown(0.0, 0.5, (reason,))])
    taken = measured(device, cold(device, device.kernel(20e-6)), budget_s=0.05)
    assert set(taken.discarded) == {""}
    assert len(taken.times_s) >= 10
    assert f"{reason} slowdown during {len(taken.times_s)} of {len(taken.times_s)} samples" in taken.disturbed
    assert "all of them kept" in taken.disturbed


def test_a_power_limit_is_no_reason_to_discard():
    device = FakeDevice(COSTS, slowdowns=[Slowdown(2e-3, 0.8, ("power_cap",))])
    taken = measured(device, cold(device, device.kernel(Latency(20e-6, noise=0.02, seed=1))))
    assert set(taken.discarded) == {""}
    assert taken.disturbed == ""
    assert ("power_cap",) in {reading.slowdown for _, reading in taken.readings}


def test_impossible_times_stay_out_whatever_their_number():
    """Every second sample is stamped wrongly: the other half counts, and none of the negative ones comes back."""
    device = FakeDevice(COSTS, moved_stamps=dict.fromkeys(range(4, 60, 4), 1e-3))
    taken = measured(device, cold(device, device.kernel(20e-6)), budget_s=0.01)
    assert all((why == "negative time") == (time < 0) for why, time in zip(taken.discarded, taken.times_s, strict=True))
    assert sum(time < 0 for time in taken.times_s) > 0


def test_none_that_counts_is_an_error():
    device = FakeDevice(COSTS, moved_stamps=dict.fromkeys(range(4, 200_000, 2), 1e-3))
    with pytest.raises(RooflensError, match=r"none of .* samples has a positive time"):
        measured(device, cold(device, device.kernel(20e-6)), budget_s=0.01)


# What it flags.

STEADY = Reading(CLOCK_HZ, 3.2e9, 50.0, 300.0, (), 0, None)


@pytest.mark.parametrize(
    ("readings", "says"),
    [
        ([STEADY], ""),
        ([STEADY, replace(STEADY, clock_hz=0.97 * CLOCK_HZ)], ""),
        ([STEADY, replace(STEADY, clock_hz=0.9 * CLOCK_HZ)], "clock from 1782 to 1980 MHz"),
        ([STEADY, replace(STEADY, clock_hz=0.9 * CLOCK_HZ, slowdown=("power_cap",))], ""),
        ([STEADY, replace(STEADY, other_processes=1)], "1 other process on the device"),
        ([replace(STEADY, other_processes=2)], "2 other processes on the device"),
        ([replace(STEADY, busy_elsewhere=0.4)], "other processes used 40% of the cores"),
        ([replace(STEADY, busy_elsewhere=0.05)], ""),
        ([Reading()], ""),
    ],
)
def test_what_moved_is_named(readings, says):
    device = FakeDevice(COSTS)
    subject = cold(device, device.kernel(Latency(20e-6, noise=0.05, seed=1)))
    assert measured(device, subject, telemetry=Scripted(*readings)).disturbed == says


@pytest.mark.parametrize(
    ("busy", "says"),
    [
        (None, "preempted during {0} of {0} samples, all of them kept"),
        (0.02, ""),
        (0.4, "other processes used 40% of the cores"),
    ],
)
def test_a_core_that_is_lost_in_every_sample_counts_by_what_others_used(monkeypatch, busy, says):
    """Of a sample as long as a time slice, any system takes a part: only the share of the cores tells how much."""
    device = FakeDevice(COSTS)
    monkeypatch.setattr(device, "preemptions", count().__next__)
    subject = cold(device, device.kernel(Latency(1e-3, noise=0.05, seed=1)))
    taken = measured(device, subject, HostTimer, Scripted(Reading(busy_elsewhere=busy)))
    assert taken.disturbed == says.format(len(taken.times_s))
    assert set(taken.discarded) == {""}


def test_each_batch_has_its_reading_at_the_sample_that_it_speaks_of():
    device = FakeDevice(COSTS)
    taken = measured(device, cold(device, device.kernel(Latency(20e-6, noise=0.05, seed=1))))
    starts = [start for start, _ in taken.readings]
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert starts[-1] < len(taken.times_s)
    assert len(starts) > 1


def test_one_batch_that_was_not_blocked_flags_the_round():
    device = FakeDevice(COSTS)
    kernel = device.kernel(Latency(20e-6, noise=0.1, seed=1))
    subject = cold(device, kernel)
    timer = EventTimer(device, subject)
    timer.batch(10)
    # The host stands still again and again, for a while.
    device.stalls = dict.fromkeys(range(device.calls + 30, device.calls + 600, 8), 60e-3)
    taken = measure(subject, timer, StopRule(10, 0.01, 60.0, timer.resolution_s), device, device)
    assert taken.blocked is False


# What it costs.


def test_bookkeeping_is_at_most_a_tenth_of_the_wall_time():
    """33 samples of a 5 us kernel behind a 60 us flush, all that belongs to them included but setting the timer up.

    Bookkeeping is what the device does not spend in launches and flushes.
    """
    device = FakeDevice(COSTS)
    subject = cold(device, device.kernel(5e-6, host_s=12e-6))
    timer = EventTimer(device, subject)
    device.synchronize()
    began, busy = device.host_s, device.busy_s
    taken = measure(subject, timer, StopRule(33, 0.01, 1.0, timer.resolution_s), device, device)
    assert len(taken.times_s) == 33
    assert taken.elapsed_s == pytest.approx(device.host_s - began, abs=1e-7)
    assert 1 - (device.busy_s - busy) / taken.elapsed_s <= 0.10


def test_the_garbage_collector_rests_while_samples_are_taken_and_goes_on_after():
    device = FakeDevice(COSTS)
    kernel, seen = device.kernel(20e-6), set()

    def launch():
        seen.add(gc.isenabled())
        device.launcher(kernel)()

    timer = EventTimer(device, Subject(launch))
    seen.clear()
    assert gc.isenabled()
    measure(Subject(launch), timer, StopRule(10, 0.01, 1.0, timer.resolution_s), device, device)
    assert seen == {False}
    assert gc.isenabled()

    def failing():
        raise ValueError

    with pytest.raises(ValueError):
        measure(Subject(failing), timer, StopRule(10, 0.01, 1.0, timer.resolution_s), device, device)
    assert gc.isenabled()


@pytest.mark.parametrize("timer", [EventTimer, HostTimer, ProfilerTimer])
def test_lines_that_launches_told_to_stay_make_no_sample_warm(timer):
    """Where the device allows such lines, samples come one by one; warm-ups leave lines as well."""
    size = 512 << 10
    device = FakeDevice(replace(FREE, launch_s=5e-6), cache=FakeCache(1 << 20), persistence=True)
    kernel = device.kernel(30e-6, reads=[Buffer(size)], persists=True)
    subject = Subject(device.launcher(kernel), device.flusher(40e-6), 2)
    truth = 30e-6 + size / 4e12 + (5e-6 if timer is HostTimer else 0.0)
    taken = measured(device, subject, timer)
    assert taken.times_s == pytest.approx([truth] * len(taken.times_s), abs=65e-9)
