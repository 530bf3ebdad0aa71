"""The canary on the real CPU, and when a worker takes it."""

from types import SimpleNamespace

import pytest
from rooflens.harness.machine.device import find_device
from rooflens.harness.timing import canary as module
from rooflens.harness.timing.accelerator import accelerator
from rooflens.harness.timing.canary import Canary
from rooflens.harness.timing.samples import Samples
from rooflens.harness.worker.worker import Worker


class FakeClock:
    """A machine whose time passes only where a test says so."""

    def __init__(self):
        self.now_s = 1000.0

    def now(self):
        return self.now_s

    def synchronize(self):
        pass


def timed(subject):
    return lambda count: Samples((1.0,) * count)


def test_it_times_a_gemm_and_a_copy_and_says_when():
    device = find_device("cpu", 1 << 20)
    canary = Canary(device, accelerator(device))
    reading = canary.read()
    flops, copied = 2 * 768**3, 2 * 2 * device.llc_bytes
    assert 1e9 < flops / reading["gemm_s"] < 1e13
    assert 1e8 < copied / reading["copy_s"] < 1e12
    assert reading["at"].endswith("+00:00")


def test_samples_that_do_not_count_do_not_count():
    class Timer:
        def batch(self, count):
            return Samples((9.0, 1.0, 1.0, 1.0, 9.0), ("preempted", "", "", "", "preempted"))

    assert module._typical(Timer()) == 1.0


@pytest.mark.parametrize(("takes_s", "starting"), [(0.1, 6), (0.3, 4), (5.0, 3)])
def test_a_process_begins_with_several_readings_within_a_second_and_takes_one_from_then_on(takes_s, starting):
    clock = FakeClock()

    def read():
        clock.now_s += takes_s
        return {"at": str(clock.now_s)}

    worker = object.__new__(Worker)
    worker._canary_due, worker._bench = 0.0, SimpleNamespace(machine=clock, canary=read)
    worker._guard = SimpleNamespace(alone=None)
    assert [len(worker._take_canary().rows) for _ in range(3)] == [starting, 1, 1]


def test_only_what_was_idle_is_warmed_up(monkeypatch):
    """Each product takes 10 ms of the clock; the copy none."""
    clock, products = FakeClock(), []
    monkeypatch.setattr(module, "make_timer", lambda name, host, subject, device: SimpleNamespace(batch=timed(subject)))
    canary = Canary(find_device("cpu", 1 << 20), clock)

    def product():
        clock.now_s += 0.01
        products.append(clock.now_s)

    canary._gemm, canary._copy = product, lambda: None
    counts = []
    for pause_s in (0.0, 0.0, 60.0):
        clock.now_s += pause_s
        before = len(products)
        canary.read()
        counts.append(len(products) - before)
    assert counts == [pytest.approx(20, abs=1), 0, pytest.approx(20, abs=1)]
