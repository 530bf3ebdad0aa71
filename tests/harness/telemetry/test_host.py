"""The host by a made-up /proc and /sys, and the real one with a process at work."""

import os
import subprocess
import sys
import time

import pytest
from rooflens.harness.telemetry.host import HostTelemetry
from rooflens.harness.telemetry.source import Reading, telemetry
from rooflens.shapes.device import Device

CPU = Device("cpu", 0, "CPU", "AuthenticAMD", "x86_64-avx2", 2, 32 << 20, 1 << 20, 8 << 30)


class FakeHost:
    """A /proc and /sys with two cores, and a scripted clock."""

    def __init__(self, root):
        self.root, self.now, self.own = root, 0.0, 0.0
        self.busy_s, self.steal_s = 0.0, 0.0
        tick = os.sysconf("SC_CLK_TCK")
        core = min(os.sched_getaffinity(0))
        self.core = root / f"sys/devices/system/cpu/cpu{core}"
        self._tick = tick
        self.write("proc/self/cgroup", "0::/job\n")
        self.write("sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nnr_throttled 7\n")
        self.update()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def update(self):
        busy, steal = int(self.busy_s * self._tick), int(self.steal_s * self._tick)
        idle = int((2 * (100 + self.now) - self.busy_s - self.steal_s) * self._tick)
        self.write("proc/stat", f"cpu  {busy} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 0\ncpu1 0\nintr 1 2\n")

    def spend(self, seconds, busy=0.0, own=0.0, steal=0.0):
        self.now += seconds
        self.busy_s += busy
        self.own += own
        self.steal_s += steal
        self.update()

    def telemetry(self):
        return HostTelemetry(self.root, lambda: self.now, lambda: self.own)


def test_busy_elsewhere_is_what_others_used_of_all_cores(tmp_path):
    host = FakeHost(tmp_path)
    source = host.telemetry()
    assert source.read().busy_elsewhere is None  # nothing to compare with yet
    host.spend(1.0, busy=1.0, own=1.0)
    assert source.read().busy_elsewhere == pytest.approx(0.0)
    host.spend(1.0, busy=1.5, own=0.5)  # one core of two was others'
    assert source.read().busy_elsewhere == pytest.approx(0.5)
    host.spend(1.0, steal=0.5)
    assert source.read().busy_elsewhere == pytest.approx(0.25)


def test_busy_elsewhere_keeps_its_value_within_a_short_window_and_its_range_when_ticks_are_late(tmp_path):
    host = FakeHost(tmp_path)
    source = host.telemetry()
    spent = [(1.0, 1.0, 0.0), (0.1, 0.0, 0.0), (0.3, 0.0, 0.0), (1.0, 1.0, 1.02), (1.0, 2.05, 0.0)]
    found = []
    for seconds, busy, own in spent:
        host.spend(seconds, busy=busy, own=own)
        found.append(source.read().busy_elsewhere)
    assert found == pytest.approx([0.5, 0.5, 0.0, 0.0, 1.0])
    assert 0 <= found[3] <= found[4] <= 1


@pytest.mark.parametrize("stat", ["", "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0\n", "nonsense\n"])
def test_a_host_that_counts_nothing_leaves_it_unknown(tmp_path, stat):
    host = FakeHost(tmp_path)
    host.write("proc/stat", stat)
    source = host.telemetry()
    host.now += 1.0
    assert source.read().busy_elsewhere is None


def test_clock_and_temperature_of_a_cpu_that_tells(tmp_path):
    host = FakeHost(tmp_path)
    host.write(host.core / "cpufreq/scaling_cur_freq", "3400000\n")  # kHz
    host.write(host.core / "cpufreq/cpuinfo_max_freq", "4500000\n")
    host.write("sys/class/hwmon/hwmon0/name", "nvme\n")
    host.write("sys/class/hwmon/hwmon0/temp1_input", "30000\n")
    host.write("sys/class/hwmon/hwmon1/name", "k10temp\n")
    host.write("sys/class/hwmon/hwmon1/temp1_input", "61250\n")
    source = host.telemetry()
    reading = source.read()
    assert (reading.clock_hz, reading.temperature_c) == (3.4e9, 61.25)
    assert source.board().max_clock_hz == 4.5e9


def test_counters_of_heat_and_quota_that_grew_are_slowdowns(tmp_path):
    host = FakeHost(tmp_path)
    for part in ("core", "package"):
        host.write(host.core / f"thermal_throttle/{part}_throttle_count", "3\n")
    source = host.telemetry()
    assert source.read().slowdown == ()
    host.write(host.core / "thermal_throttle/package_throttle_count", "4\n")
    host.write("sys/fs/cgroup/job/cpu.stat", "usage_usec 9\nnr_throttled 8\n")
    assert source.read().slowdown == ("thermal", "cpu_quota")
    assert source.read().slowdown == ()


def test_a_machine_without_these_files_is_unknown_and_no_error(tmp_path):
    source = HostTelemetry(tmp_path)
    assert source.read() == Reading()
    assert source.processes() is None


@pytest.mark.exclusive
def test_the_real_host_sees_another_process_at_work():
    """A child burns one core: at least half of that shows, and a quiet machine shows less."""
    source = telemetry(CPU)
    assert source.name == "host"
    code = "import time\nend = time.monotonic() + 30\nwhile time.monotonic() < end: pass"
    child = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(0.3)
        source.read()
        time.sleep(0.6)
        share = source.read().busy_elsewhere
    finally:
        child.kill()
        child.wait()
    assert share is not None
    assert share >= 0.5 / (os.cpu_count() or 1)
