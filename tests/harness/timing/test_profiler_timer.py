"""The profiler timer over scripted traces: spans, sums and names, and refusal where records were lost."""

from dataclasses import replace

import pytest
from rooflens.harness.timing.profiler_timer import ProfilerTimer
from rooflens.harness.timing.timer import Subject
from rooflens.shapes.errors import RooflensError

from ..fake_device import FakeDevice
from ..fake_latency import Latency
from ..fake_script import FREE, Costs

TICK = 32e-9


def timer_of(device, *kernels, flush=False):
    launch = device.launcher(*kernels)
    subject = Subject(launch, device.flusher(60e-6, fills=True), 2) if flush else Subject(launch)
    return ProfilerTimer(device, subject)


@pytest.mark.parametrize("flush", [False, True])
def test_a_sample_lasts_from_its_first_kernels_start_to_its_last_ones_end(flush):
    device = FakeDevice(Costs(gap_s=2e-6))
    kernels = [device.kernel(Latency(5e-6, noise=0.2, seed=seed), f"part{seed}") for seed in range(3)]
    batch = timer_of(device, *kernels, flush=flush).batch(8)
    durations = [sum(parts) for parts in zip(*[kernel.durations_s[-8:] for kernel in kernels], strict=True)]
    assert batch.kernels_s == pytest.approx(durations)
    assert batch.times_s == pytest.approx([total + 2 * 2e-6 for total in durations])
    assert batch.event_s == pytest.approx([total + 3 * 2e-6 for total in durations], abs=TICK)  # launching as well
    assert batch.kernels == ("part0", "part1", "part2")
    assert batch.discarded == ()
    assert batch.blocked is True


def test_a_stall_between_the_kernels_of_a_launch_is_seen():
    """No blocker outlasts it, whichever sample it hits; a launch of one kernel cannot suffer from it."""
    for kernels, blocked in ((2, False), (1, True)):
        device = FakeDevice()
        timer = timer_of(device, *[device.kernel(5e-6, f"part{number}") for number in range(kernels)])
        timer.batch(5)
        device.stalls = dict.fromkeys(range(device.calls, device.calls + 2000, 3), 60e-3)
        batch = timer.batch(5)
        assert batch.blocked is blocked
        if blocked:
            assert batch.times_s == pytest.approx([5e-6] * len(batch.times_s))


def test_kernels_belong_to_the_launch_that_queued_them_whenever_they_run():
    """As on another stream: the second kernel of a sample starts when the next sample's first one does."""
    device = FakeDevice(FREE)
    timer = timer_of(device, device.kernel(5e-6, "main"), device.kernel(5e-6, "aside"))
    inner = device.trace

    def late(work):
        return [
            replace(record, start_s=record.start_s + 7e-6) if record.name == "aside" else record
            for record in inner(work)
        ]

    device.trace = late
    batch = timer.batch(6)
    assert batch.times_s == pytest.approx([17e-6] * 6)
    assert batch.kernels == ("main", "aside")


@pytest.mark.parametrize(("kernels", "name"), [(1, "spin"), (2, "spin"), (1, "part0"), (2, "part0"), (2, "part1")])
@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("every", [1, 2, 7])
def test_lost_records_are_refused(kernels, name, flush, every):
    device = FakeDevice()
    timer = timer_of(device, *[device.kernel(5e-6, f"part{number}") for number in range(kernels)], flush=flush)
    assert len(timer.batch(10).times_s) == 10
    inner = device.trace

    def losing(work):
        records = inner(work)
        lost = [record for record in records if record.name == name][::every]
        return [record for record in records if record not in lost]

    device.trace = losing
    with pytest.raises(RooflensError, match="--set timer=event"):
        timer.batch(10)


def test_without_records_the_timer_is_refused():
    device = FakeDevice(traces=False)
    with pytest.raises(RooflensError, match=r"^timer profiler: .*no records.*--set timer=event"):
        timer_of(device, device.kernel(5e-6))


@pytest.mark.parametrize("flush", [False, True])
def test_a_launch_without_kernels_is_said_to_compute_elsewhere(flush):
    timer = timer_of(FakeDevice(), flush=flush)
    with pytest.raises(RooflensError, match=r"no kernel in 10 launches: .* on the CPU.*--device cpu"):
        timer.batch(10)


def test_a_launch_that_takes_turns_between_kernels_is_refused():
    device = FakeDevice()
    kernels = [device.kernel(5e-6, "odd"), device.kernel(9e-6, "even")]
    calls = [device.launcher(kernel) for kernel in kernels]
    turn = iter(range(1000))
    timer = ProfilerTimer(device, Subject(lambda: calls[next(turn) % 2]()))
    with pytest.raises(RooflensError, match="does not always run the same kernels"):
        timer.batch(10)


def test_the_rest_is_done_while_the_device_works():
    device = FakeDevice()
    seen = []
    timer_of(device, device.kernel(50e-6)).batch(10, lambda: seen.append(device.is_busy))
    assert seen == [True]
