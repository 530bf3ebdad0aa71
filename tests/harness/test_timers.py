"""The host timer against a scripted clock; what is inside and outside of a sample."""

import pytest
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
