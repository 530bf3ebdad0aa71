"""The host timer against a scripted clock; what is inside and outside of a sample."""

import pytest
from rooflens.harness import timers
from rooflens.harness.measure import measure
from rooflens.harness.stop import StopRule
from rooflens.harness.timers import HostTimer, make_timer
from rooflens.kernels.provider import Launch
from rooflens.shapes.device import Device
from rooflens.shapes.errors import UsageError


class FakeDevice:
    """A clock in nanoseconds that launches, flushes and synchronizations advance by known amounts."""

    def __init__(self, launch_ns=1000, flush_ns=50_000):
        self.now = 0
        self.log = []
        self._launch_ns, self._flush_ns = launch_ns, flush_ns

    def clock(self):
        return self.now

    def launch(self):
        self.log.append("launch")
        self.now += self._launch_ns

    def flush(self):
        self.log.append("flush")
        self.now += self._flush_ns

    def synchronize(self):
        self.log.append("sync")


def test_a_sample_holds_the_launch_and_not_the_flush():
    device = FakeDevice()
    batch = HostTimer(device.synchronize, device.clock).batch(device.launch, device.flush, 3)
    assert batch.times_s == pytest.approx((1e-6, 1e-6, 1e-6))
    assert device.log == ["flush", "sync", "launch", "sync"] * 3


def test_measure_warms_up_untimed_and_stops_when_converged():
    device = FakeDevice(launch_ns=2_000_000)
    timer = HostTimer(device.synchronize, device.clock)
    rule = StopRule(min_samples=10, target_ci=0.01, budget_s=60.0, resolution_s=0.0)
    taken = measure(Launch(device.launch, None), timer, device.flush, rule, clock=lambda: device.now * 1e-9)
    assert taken.stop_reason == "converged"
    assert taken.times_s == pytest.approx((2e-3,) * 10)
    assert device.log[:4] == ["flush", "launch"] * 2  # warm-ups, in the same cache state


def test_measure_respects_the_budget():
    device = FakeDevice()

    def jitter():
        device.log.append("launch")
        device.now += 1_000_000 * (1 + len(device.log) % 2 * 9)

    timer = HostTimer(lambda: None, device.clock)
    rule = StopRule(min_samples=10, target_ci=0.001, budget_s=0.5, resolution_s=0.0)
    taken = measure(Launch(jitter, None), timer, lambda: None, rule, clock=lambda: device.now * 1e-9)
    assert taken.stop_reason in ("budget", "converged")
    assert taken.elapsed_s < 0.6
    assert sum(taken.times_s) <= taken.elapsed_s


@pytest.mark.parametrize(
    ("launch_s", "warmups", "samples"),
    [(0.1, 2, 10), (0.8, 2, 5), (30.0, 1, 3)],
)
def test_a_slow_launch_gets_fewer_samples_than_asked_for(launch_s, warmups, samples):
    """A budget of 1 s may be overrun four times, and three samples are taken whatever they cost."""
    device = FakeDevice(launch_ns=int(launch_s * 1e9))
    timer = HostTimer(device.synchronize, device.clock)
    rule = StopRule(min_samples=10, target_ci=0.01, budget_s=1.0, resolution_s=1.0)
    taken = measure(Launch(device.launch, None), timer, lambda: None, rule, clock=lambda: device.now * 1e-9)
    assert len(taken.times_s) == samples
    assert device.log.count("launch") == warmups + samples


def test_the_event_timer_needs_a_gpu():
    with pytest.raises(UsageError, match="--timer host"):
        make_timer("event", Device("cpu", 0, "test", "", "x86-64", 2, 32 << 20, 1 << 20, 1 << 34), 0)


class FakeCuda:
    """Stands in for torch.cuda: events take scripted durations, the blocker outlasts queueing from some try on."""

    def __init__(self, durations_ms, blocked_from):
        self.durations, self.blocked_from = iter(durations_ms), blocked_from
        self.spins, self.log = [], []
        cuda = self

        class Event:
            def __init__(self, enable_timing=False):
                self.timing = enable_timing

            def record(self):
                cuda.log.append("record" if self.timing else "blocker ends")

            def query(self):
                return len(cuda.spins) < cuda.blocked_from

            def elapsed_time(self, end):
                return next(cuda.durations)

        self.Event = Event

    def _sleep(self, cycles):
        self.spins.append(cycles)

    def synchronize(self, device=None):
        self.log.append("sync")


def event_batch(monkeypatch, fake, count=3):
    monkeypatch.setattr(timers.torch, "cuda", fake)
    timer = timers.EventTimer(Device("cuda", 0, "test", "NVIDIA", "sm90", 132, 60 << 20, 60 << 20, 1 << 37), 2)
    return timer.batch(lambda: fake.log.append("launch"), lambda: fake.log.append("flush"), count)


def test_events_enclose_the_launch_and_not_the_flush(monkeypatch):
    fake = FakeCuda([0.004, 0.005, 0.006], blocked_from=1)
    batch = event_batch(monkeypatch, fake)
    assert batch.times_s == pytest.approx((4e-6, 5e-6, 6e-6))
    assert batch.blocked is True
    assert fake.log[:2] == ["sync", "blocker ends"]
    assert fake.log[2:14] == ["flush", "record", "launch", "record"] * 3
    assert len(batch.host_s) == 1


def test_the_blocker_grows_until_it_outlasts_the_queueing(monkeypatch):
    fake = FakeCuda([0.004] * 3, blocked_from=3)
    assert event_batch(monkeypatch, fake).blocked is True
    assert len(fake.spins) == 3
    assert fake.spins[2] >= 2 * fake.spins[1] >= 4 * fake.spins[0]


def test_a_blocker_that_never_outlasts_it_is_told(monkeypatch):
    assert event_batch(monkeypatch, FakeCuda([0.004] * 3, blocked_from=99)).blocked is False


def test_negative_event_times_are_left_out(monkeypatch):
    """HIP returns them now and then."""
    assert event_batch(monkeypatch, FakeCuda([0.004, -1.0, 0.006], 1)).times_s == pytest.approx((4e-6, 6e-6))


def test_the_queue_stays_short_of_what_the_driver_holds(monkeypatch):
    fake = FakeCuda([0.004] * 1000, blocked_from=1)
    assert len(event_batch(monkeypatch, fake, count=1000).times_s) * 5 <= timers.EventTimer.MAX_QUEUED
