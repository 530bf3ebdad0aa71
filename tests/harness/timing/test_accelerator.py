"""The real device behind the timers: the CPU's clock, and on a GPU that timers and cache controls agree."""

import dataclasses
import subprocess
import sys
from functools import partial
from itertools import pairwise
from statistics import median

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.harness.timing.accelerator import TorchAccelerator, TorchHost, accelerator, rehearse
from rooflens.harness.timing.cache import Flush, Rotation, flushed, rotated, warm
from rooflens.harness.timing.cache_sizes import copies_needed
from rooflens.harness.timing.event_timer import EventTimer
from rooflens.harness.timing.graph_timer import GraphTimer
from rooflens.harness.timing.host_timer import HostTimer
from rooflens.harness.timing.profiler_timer import ProfilerTimer
from rooflens.kernels.probes.probe import Pattern

pytestmark = pytest.mark.exclusive


def test_the_cpus_clock_steps_by_less_than_a_microsecond_and_never_back():
    host = TorchHost()
    readings = [host.now() for _ in range(1000)]
    assert all(after >= before for before, after in pairwise(readings))
    assert 0 < host.resolution_s < 1e-6
    assert host.end_persistence() is False
    assert isinstance(accelerator(find_device("cpu")), TorchHost)


def test_on_the_cpu_many_launches_make_a_sample_of_a_short_one():
    """An addition of one element takes far less than a thousand steps of the clock; a flushed one is timed alone."""
    host, x = TorchHost(), torch.zeros(1)
    for _ in range(100):  # the first calls of an operation set it up
        x.add_(1)
    timer = HostTimer(host, warm(lambda: x.add_(1)))
    assert timer.launches_per_sample > 1
    before = float(x)
    batch = timer.batch(5)
    assert float(x) - before == 5 * timer.launches_per_sample
    assert 0 < median(batch.times_s) < 1e-3
    small = dataclasses.replace(find_device("cpu"), llc_bytes=1 << 20)
    assert HostTimer(host, flushed(lambda: x.add_(1), Flush(small))).launches_per_sample == 1


@pytest.fixture(scope="module")
def gpu():
    device = find_device("cuda")
    return device, TorchAccelerator(device)


def gemm():
    """A bf16 GEMM of 58 GFLOP: about 70 us at the 819 TFLOP/s measured on an H200, more on smaller devices."""
    a, b = (torch.randn(3072, 3072, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return partial(torch.mm, a, b, out=torch.empty_like(a))


def typical(timer, samples=60):
    """Median over `samples` samples, after as many to warm up."""
    for _ in range(2):
        times = []
        while len(times) < samples:
            times += timer.batch(samples - len(times)).times_s
    return median(times)


@pytest.mark.gpu
def test_the_four_timers_agree_on_a_kernel_of_about_100_us(gpu):
    """Within 3 % after the same timer's launch of one element, but for the host's, which has synchronization in it.

    In turns, since the clock of a GPU that has just begun to work is higher than later.
    """
    _, machine = gpu
    product, one = warm(gemm()), warm(torch.zeros(1, device="cuda").zero_)
    kinds = (EventTimer, GraphTimer, ProfilerTimer, HostTimer)
    rounds = [[typical(kind(machine, product)) - typical(kind(machine, one)) for kind in kinds] for _ in range(5)]
    event, graph, profiler, host = (median(times) for times in zip(*rounds, strict=True))
    assert 30e-6 < profiler < 1e-3
    assert event == pytest.approx(profiler, rel=0.03)
    assert graph == pytest.approx(profiler, rel=0.03)
    assert profiler - 10e-6 < host < profiler + 50e-6


@pytest.mark.gpu
def test_events_tick_at_a_microsecond_at_most(gpu):
    _, machine = gpu
    assert 0 < machine.resolution_s <= 1e-6


@pytest.mark.gpu
def test_a_blocker_lasts_at_least_half_of_what_is_asked_for(gpu):
    _, machine = gpu
    for seconds in (50e-6, 500e-6, 5e-3):
        begin, end = machine.event(), machine.event()
        machine.synchronize()
        begin.record()
        machine.spin(seconds)
        end.record()
        assert not end.reached()
        machine.synchronize()
        assert begin.seconds_until(end) >= seconds / 2


@pytest.mark.gpu
def test_samples_are_blocked_and_a_waiting_launch_is_noticed(gpu):
    _, machine = gpu
    x = torch.ones(1 << 20, device="cuda")
    assert EventTimer(machine, warm(x.sin_)).batch(30).blocked is True
    waiting = warm(lambda: x.sum().item())
    assert machine.synchronizes(waiting.launch)
    timer = EventTimer(machine, waiting)
    assert "waits for the device" in timer.remark
    assert timer.batch(10).blocked is False
    assert not machine.synchronizes(x.sin_)


@pytest.mark.gpu
def test_a_launch_that_allocates_can_be_captured(gpu):
    _, machine = gpu
    x = torch.ones(1 << 20, device="cuda")
    kept = []
    rehearse(machine, lambda: x * 2)
    replay = machine.capture(lambda: kept.append(x * 2))
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    x.fill_(3)
    replay()
    machine.synchronize()
    assert float(kept[-1][0]) == 6.0
    assert median(GraphTimer(machine, warm(lambda: x * 2)).batch(10).times_s) > 0


@pytest.mark.gpu
def test_a_launch_that_waits_cannot_be_captured_and_the_device_goes_on(gpu):
    """In a process of its own: torch's random generators do not survive the attempt, which the error says."""
    code = """
import torch
from rooflens.harness.timing.accelerator import CaptureError, accelerator
from rooflens.harness.machine.device import find_device
from rooflens.harness.isolation.faults import is_lost
machine, x = accelerator(find_device("cuda")), torch.ones(16, device="cuda")
try:
    machine.capture(lambda: x.sum().item())
except CaptureError as error:
    assert is_lost(error) and "use --set timer=event" in str(error), error
    print(float((x + 1).sum()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "32.0\n", done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("megabytes", [2, 4, 8])
def test_flush_rotation_and_profiler_agree_on_cold_reads(gpu, megabytes):
    """Within max(3 %, 0.5 us) after the empty kernel of the same timer and cache control is subtracted.

    The read is one kernel that sweeps over a weight once.
    """
    from rooflens.kernels.probes.triton.floors import empty_launch
    from rooflens.kernels.probes.triton.streams import BLOCK_BYTES, cache_modifier, once, sweep

    device, machine = gpu
    size, flush = megabytes << 20, Flush(device)

    def read():
        data = torch.ones(size // 4, dtype=torch.int32, device="cuda")
        order = once(size, min(2 * device.compute_units, size // BLOCK_BYTES))
        return sweep(Pattern.READ, data, order, cache_modifier(device)).run

    def by_flush(timer, launch):
        return typical(timer(machine, flushed(launch, flush)))

    def by_rotation(timer, launches):
        return typical(timer(machine, rotated(Rotation(launches, size, device))))

    large = [read() for _ in range(copies_needed(size, device))]
    # The empty kernels are called by as many launches in turn, so that host and device do the same.
    empty = [empty_launch(device).run] * len(large)
    found = {
        "flush": by_flush(EventTimer, large[0]) - by_flush(EventTimer, empty[0]),
        "profiler": by_flush(ProfilerTimer, large[0]) - by_flush(ProfilerTimer, empty[0]),
        "graph": by_rotation(GraphTimer, large) - by_rotation(GraphTimer, empty),
        "rotation": by_rotation(EventTimer, large) - by_rotation(EventTimer, empty),
    }
    assert found["flush"] == pytest.approx(found["profiler"], rel=0.03, abs=0.5e-6)
    assert found["rotation"] == pytest.approx(found["flush"], rel=0.03, abs=0.5e-6)
    assert found["graph"] == pytest.approx(found["flush"], rel=0.03, abs=0.5e-6)


@pytest.mark.gpu
def test_what_stays_in_the_cache_is_read_faster_than_after_a_flush(gpu):
    device, machine = gpu
    x, out = torch.ones(device.llc_bytes // 16, device="cuda"), torch.zeros((), device="cuda")
    launch = partial(torch.sum, x, dim=0, out=out)
    cold, hot = typical(EventTimer(machine, flushed(launch, Flush(device)))), typical(EventTimer(machine, warm(launch)))
    assert hot < 0.9 * cold
