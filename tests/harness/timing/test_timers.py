"""The host timer, which timer a device gets, and that all timers agree where only the kernel takes time."""

import weakref

import pytest
from rooflens.harness.timing.host_timer import LEAST_READINGS, MOST_LAUNCHES, HostTimer
from rooflens.harness.timing.timer import Subject
from rooflens.harness.timing.timers import TIMERS, automatic, make_timer, unavailable
from rooflens.shapes.errors import UsageError
from rooflens.shapes.protocol import TIMERS as PROTOCOL_TIMERS

from ..fake_device import CPU, H200, FakeDevice
from ..fake_latency import Latency
from ..fake_script import FREE, Costs


def test_the_host_timer_takes_the_launch_and_not_the_flush():
    device = FakeDevice.cpu()
    kernel = device.kernel(Latency(1e-3, noise=0.1, seed=1))
    timer = HostTimer(device, Subject(device.launcher(kernel), device.flusher(50e-3), 2))
    batch = timer.batch(5)
    assert batch.times_s == pytest.approx(kernel.durations_s, rel=1e-9)
    assert (batch.blocked, batch.host_s, batch.discarded) == (None, (), ())
    assert timer.remark == ""


def test_a_stall_of_the_host_is_in_its_sample_alone():
    device = FakeDevice.cpu()
    timer = HostTimer(device, Subject(device.launcher(device.kernel(1e-3))))
    device.stalls = {device.calls + 2 + 4 * 2: 5e-3}  # four calls a sample: synchronize, clock, launch, synchronize
    times = timer.batch(6).times_s
    assert sorted(times) == pytest.approx([1e-3] * 5 + [6e-3])


def test_on_a_gpu_the_host_timer_reaches_from_idle_to_idle():
    device = FakeDevice(Costs(launch_s=4e-6, synchronize_s=3e-6, clock_s=0.0, gap_s=1e-6))
    timer = HostTimer(device, Subject(device.launcher(device.kernel(20e-6)), device.flusher(60e-6), 2))
    assert timer.batch(3).times_s == pytest.approx([28e-6] * 3)
    assert timer.launches_per_sample == 1


@pytest.mark.parametrize(
    ("kernel_s", "launches"), [(1e-6, 50), (20e-6, 3), (50e-6, 1), (1e-3, 1), (1e-12, MOST_LAUNCHES)]
)
def test_launches_too_short_for_the_clock_are_timed_many_at_once(kernel_s, launches):
    """A sample lasts 1000 steps of 50 ns."""
    device = FakeDevice.cpu()
    assert LEAST_READINGS * device.reading_s == pytest.approx(50e-6)
    timer = HostTimer(device, Subject(device.launcher(device.kernel(kernel_s))))
    assert timer.launches_per_sample == launches
    assert timer.resolution_s == pytest.approx(50e-9 / launches)
    assert timer.batch(3).times_s == pytest.approx([kernel_s] * 3, abs=1e-15)
    cold = Subject(device.launcher(device.kernel(kernel_s)), device.flusher(1e-3), 2)
    assert HostTimer(device, cold).launches_per_sample == 1


@pytest.mark.parametrize("name", sorted(TIMERS))
def test_where_only_the_kernel_takes_time_all_timers_agree(name):
    device = FakeDevice(FREE)
    kernel = device.kernel(Latency(100e-6, noise=0.01, seed=7))
    timer = TIMERS[name](device, Subject(device.launcher(kernel)))
    found = [time for _ in range(30) for time in timer.batch(30).times_s]
    truth = kernel.durations_s[-len(found) * timer.launches_per_sample :]
    assert sum(found) / len(found) == pytest.approx(sum(truth) / len(truth), abs=32e-9)
    assert timer.name == name


@pytest.mark.parametrize("name", sorted(TIMERS))
def test_a_timer_that_is_gone_keeps_no_operands(uncollected, name):
    device = FakeDevice()
    launch = device.launcher(device.kernel(1e-6))
    kept = weakref.ref(launch)
    TIMERS[name](device, Subject(launch)).batch(3)
    del launch
    assert kept() is None


def test_each_timer_of_the_protocol_exists():
    assert {"auto", *TIMERS} == set(PROTOCOL_TIMERS)


@pytest.mark.parametrize(
    ("device", "kind", "name"),
    [
        (FakeDevice(), H200, "profiler"),
        (FakeDevice(traces=False), H200, "event"),  # it records no kernels
        (FakeDevice.cpu(), CPU, "host"),
    ],
)
def test_auto_is_the_best_timer_that_a_device_has(device, kind, name):
    subject = Subject(device.launcher(device.kernel(1e-6)))
    assert make_timer("auto", device, subject, kind).name == automatic(kind, device.traces) == name
    assert make_timer("host", device, subject, kind).name == "host"


@pytest.mark.parametrize(("name", "lacks"), [("event", "events"), ("graph", "graphs"), ("profiler", "kernels")])
def test_a_cpu_has_the_host_timer_only(name, lacks):
    assert lacks in unavailable(name, CPU)
    assert unavailable(name, H200) == unavailable("host", CPU) == ""
    with pytest.raises(UsageError, match="--set timer=host"):
        make_timer(name, FakeDevice.cpu(), Subject(lambda: None), CPU)
