"""What /proc and /sys say of the host, from made-up trees of files."""

import os

import pytest
from rooflens.harness.telemetry import linux


@pytest.fixture
def root(tmp_path):
    """Return `root.write(path, text)` over an empty tree."""

    class Root:
        path = tmp_path

        def write(self, path, text):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)

    return Root()


CPU = f"sys/devices/system/cpu/cpu{min(os.sched_getaffinity(0))}"


@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        # cgroup 2: the strictest on the way up
        (
            "0::/kubepods/pod7\n",
            {"kubepods/cpu.max": "150000 100000\n", "kubepods/pod7/cpu.max": "400000 100000\n"},
            1.5,
        ),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),  # inside a container with a cgroup namespace
        (
            "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n",  # cgroup 1
            {
                "cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "300000\n",
                "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ("0::/\n", {}, None),
        ("", {}, None),
    ],
)
def test_quotas(root, group, files, cores):
    root.write("proc/self/cgroup", group)
    for name, content in files.items():
        root.write(f"sys/fs/cgroup/{name}", content)
    assert linux.quota_cores(root.path) == cores


def test_a_quota_that_is_no_limit_for_these_cores_is_left_out(root):
    cores = len(os.sched_getaffinity(0))
    root.write("proc/self/cgroup", "0::/\n")
    root.write("sys/fs/cgroup/cpu.max", f"{cores * 100000} 100000\n")
    assert linux.describe(root.path).quota_cores is None
    root.write("sys/fs/cgroup/cpu.max", f"{cores * 50000} 100000\n")
    assert linux.describe(root.path).quota_cores == cores / 2


def test_governor_and_boost(root):
    assert (linux.governor(root.path), linux.boost(root.path)) == (None, None)
    root.write(f"{CPU}/cpufreq/scaling_governor", "schedutil\n")
    root.write("sys/devices/system/cpu/cpufreq/boost", "1\n")
    assert (linux.governor(root.path), linux.boost(root.path)) == ("schedutil", True)
    root.write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n")  # Intel says it the other way round
    assert linux.boost(root.path) is False


def test_load_memory_and_virtual_machine(root):
    root.write("proc/loadavg", "3.10 2.00 1.00 1/2 3\n")
    root.write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:    2048 kB\n")
    root.write("proc/cpuinfo", "processor : 0\nflags\t\t: fpu sse hypervisor avx\n")
    host = linux.describe(root.path)
    assert (host.load_1min, host.memory_available_bytes, host.is_virtual) == (3.1, 2 << 20, True)
    root.write("proc/cpuinfo", "processor : 0\nflags\t\t: fpu sse avx\n")
    assert linux.describe(root.path).is_virtual is False


def test_an_empty_machine_is_unknown_and_no_error(root):
    host = linux.describe(root.path)
    assert host.cores >= host.usable_cores >= 1
    unknown = host.quota_cores, host.load_1min, host.governor, host.boost
    assert (*unknown, host.is_virtual, host.memory_available_bytes) == (None,) * 6
