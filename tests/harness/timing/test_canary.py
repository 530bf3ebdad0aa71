"""The canary on the real CPU, and when a worker takes it."""

from rooflens.harness.machine.device import find_device
from rooflens.harness.timing import canary as module
from rooflens.harness.timing.accelerator import accelerator
from rooflens.harness.timing.canary import EVERY_S, Canary
from rooflens.harness.timing.samples import Samples


def test_it_times_a_gemm_and_a_copy_and_says_when():
    device = find_device("cpu", 1 << 20)
    canary = Canary(device, accelerator(device))
    reading = canary.read()
    flops, copied = 2 * 768**3, 2 * 2 * device.llc_bytes
    assert 1e9 < flops / reading.gemm_s < 1e13
    assert 1e8 < copied / reading.copy_s < 1e12
    assert reading.at.endswith("+00:00")


def test_samples_that_do_not_count_do_not_count():
    class Timer:
        def batch(self, count):
            return Samples((9.0, 1.0, 1.0, 1.0, 9.0), ("preempted", "", "", "", "preempted"))

    assert module._typical(Timer()) == 1.0


def test_a_minute_lies_between_two_readings():
    assert 30 <= EVERY_S <= 90
