"""What devices say of themselves: NVML and amdsmi by stand-ins, the host by a made-up /proc and /sys, and real ones."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from rooflens.harness import telemetry as front
from rooflens.harness.device import find_device
from rooflens.harness.environment import environment
from rooflens.harness.telemetry import INVALIDATING, SLOWDOWNS, Reading, telemetry
from rooflens.harness.telemetry_amdsmi import AmdSmi
from rooflens.harness.telemetry_host import HostTelemetry
from rooflens.harness.telemetry_nvml import REASONS, Nvml
from rooflens.harness.telemetry_reading import OtherProcesses, TelemetryError, others
from rooflens.shapes.device import Device

from .fake_smi import GPU_0, GPU_1, MI300X_METRICS, NAVI_METRICS, NOT_SUPPORTED, FakeAmdSmi, FakeNvml

H200 = Device("cuda", 0, "NVIDIA H200", "NVIDIA", "sm90", 132, 60 << 20, 60 << 20, 141 << 30)
MI300X = Device("cuda", 0, "AMD Instinct MI300X", "AMD", "gfx942", 304, 256 << 20, 32 << 20, 192 << 30)
CPU = Device("cpu", 0, "CPU", "AuthenticAMD", "x86_64-avx2", 2, 32 << 20, 1 << 20, 8 << 30)


BARE_UUID = GPU_0.removeprefix("GPU-")
"""As torch writes it."""


def nvml(fake, uuid=BARE_UUID, address=None, holds_context=False):
    return Nvml(replace(H200, uuid=uuid), fake, lambda: address, lambda: holds_context)


def amd(fake, uuid="", address="0000:c0:00.0", holds_context=False):
    return AmdSmi(replace(MI300X, uuid=uuid), fake, lambda: address, lambda: holds_context)


# --- NVML


def test_nvml_reading_is_in_base_units():
    assert nvml(FakeNvml()).read() == Reading(
        clock_hz=1.5e9,
        memory_clock_hz=3.201e9,
        temperature_c=41.0,
        power_w=254.0,
        slowdown=(),
        other_processes=0,
    )


def test_nvml_board_is_in_base_units():
    board = nvml(FakeNvml()).board()
    assert (board.driver, board.max_clock_hz, board.max_memory_clock_hz) == ("580.159.03", 1.98e9, 3.201e9)
    assert (board.power_limit_w, board.default_power_limit_w, board.slowdown_temperature_c) == (700.0, 700.0, 92.0)
    assert (board.ecc, board.mig, board.persistence, board.partition) == (True, False, True, None)


@pytest.mark.parametrize("uuid", [GPU_1, GPU_1.removeprefix("GPU-")])
def test_torch_index_0_is_nvml_index_1_when_the_first_gpu_is_hidden(uuid, monkeypatch):
    """CUDA_VISIBLE_DEVICES=1: torch calls the second GPU cuda:0, and NVML still calls it 1."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert nvml(FakeNvml(), uuid=uuid).read().temperature_c == 42.0


def test_a_gpu_without_uuid_is_found_by_its_pci_address():
    fake = FakeNvml()
    assert nvml(fake, uuid="", address="0000:11:00.0").read().temperature_c == 42.0
    assert "nvmlDeviceGetHandleByIndex" not in fake.calls


def test_a_mig_instance_is_found_by_its_own_uuid():
    fake = FakeNvml(uuids=(GPU_0, "MIG-77777777-0000-4000-8000-00000000000c"))
    assert nvml(fake, uuid="77777777-0000-4000-8000-00000000000c").read().temperature_c == 42.0


def test_an_unknown_gpu_is_the_only_one_or_an_error_but_never_a_guess():
    assert nvml(FakeNvml(uuids=(GPU_0,), pids=((),)), uuid="", address=None).read().temperature_c == 41.0
    with pytest.raises(TelemetryError, match="no GPU of this UUID or PCI address"):
        nvml(FakeNvml(), uuid="5555", address="0000:99:00.0")


@pytest.mark.parametrize(
    "bits, words",
    [
        (0x0, ()),
        (0x1, ()),  # idle
        (0x4, ("power_cap",)),  # seen on an H200 under a large GEMM
        (0x20, ("thermal",)),
        (0x40 | 0x8, ("thermal", "hardware")),
        (0x80 | 0x8, ("hardware",)),
        (0x4 | 0x20 | 0x2 | 0x10, ("thermal", "power_cap", "sync_boost", "application_clocks")),
        (0x1000, ()),  # a bit of a later driver
    ],
)
def test_slowdown_words_are_those_of_the_bits_in_fixed_order(bits, words):
    assert nvml(FakeNvml(reasons=bits)).read().slowdown == words


def test_only_heat_and_hardware_invalidate_samples():
    assert set(REASONS.values()) <= set(SLOWDOWNS)
    assert sorted(INVALIDATING) == ["hardware", "thermal"]
    assert {bit for bit, word in REASONS.items() if word in INVALIDATING} == {0x08, 0x20, 0x40, 0x80}


def test_a_driver_that_only_knows_throttle_reasons_is_asked_for_those():
    fake = FakeNvml(
        reasons=0x4, broken={"nvmlDeviceGetCurrentClocksEventReasons": FakeNvml.NVMLError_FunctionNotFound()}
    )
    assert nvml(fake).read().slowdown == ("power_cap",)


@pytest.mark.parametrize(
    "function, unknown",
    [
        ("nvmlDeviceGetTemperature", "temperature_c"),
        ("nvmlDeviceGetPowerUsage", "power_w"),
        ("nvmlDeviceGetComputeRunningProcesses", "other_processes"),
    ],
)
def test_a_refused_question_is_unknown_and_never_put_again(function, unknown):
    fake = FakeNvml(broken={function: FakeNvml.NVMLError_NotSupported()})
    source = nvml(fake)
    readings = [source.read() for _ in range(3)]
    assert [getattr(reading, unknown) for reading in readings] == [None] * 3
    assert fake.calls.count(function) == 1
    assert all(reading.clock_hz == 1.5e9 for reading in readings)


def test_a_question_that_failed_once_is_put_again():
    fake = FakeNvml(broken={"nvmlDeviceGetPowerUsage": FakeNvml.NVMLError_Timeout()})
    source = nvml(fake)
    assert source.read().power_w is None
    fake.broken.clear()
    assert source.read().power_w == 254.0


def test_nvml_lists_processes_with_names_and_memory():
    (process,) = nvml(FakeNvml(pids=((77,), ()))).processes()
    assert (process.pid, process.name, process.memory_bytes) == (77, "program77", 5 << 30)
    hidden = FakeNvml(pids=((77,), ()), broken={"nvmlSystemGetProcessName": FakeNvml.NVMLError_NotFound()})
    (process,) = nvml(hidden).processes()
    assert (process.pid, process.name) == (77, "")


# --- who else is on the device


@pytest.mark.parametrize(
    "pids, holds_context, expected",
    [
        ((), False, 0),
        ((os.getpid(),), True, 0),
        ((os.getpid(), 4711), True, 1),
        ((4711,), False, 1),
        # In a container whose pids the driver does not translate, we are one of these, under a number of the host.
        ((987_654,), True, 0),
        ((987_654, 987_655), True, 1),
        # A list in which not even we are cannot be trusted.
        ((), True, None),
        # One process may have several entries (one per MIG instance).
        ((os.getpid(), os.getpid(), 4711), True, 1),
    ],
)
def test_this_process_never_counts_as_a_foreign_one(pids, holds_context, expected):
    assert others(pids, os.getpid(), holds_context) == expected
    assert nvml(FakeNvml(pids=(pids, ())), holds_context=holds_context).read().other_processes == expected


def test_processes_of_the_other_gpu_do_not_count():
    assert nvml(FakeNvml(pids=((), (4711, 4712)))).read().other_processes == 0


def test_the_process_list_is_asked_for_once_a_second():
    now, lists = [0.0], [[1, 2], [1, 2, 3]]
    counter = OtherProcesses(lambda: lists.pop(0), lambda: False, lambda: now[0])
    assert [counter.count(), counter.count()] == [2, 2]
    now[0] = 0.99
    assert counter.count() == 2
    now[0] = 1.0
    assert counter.count() == 3


# --- amdsmi (by a stand-in only: there is no AMD GPU to run it on)


def test_amdsmi_reading_of_an_mi300x_takes_everything_from_its_metrics():
    reading = amd(FakeAmdSmi(MI300X_METRICS)).read()
    assert reading == Reading(
        clock_hz=2.0e9,  # the mean of eight dies
        memory_clock_hz=1.3e9,
        temperature_c=52.0,
        power_w=310.0,
        slowdown=(),
        other_processes=0,
    )


def test_amdsmi_reading_of_a_radeon():
    reading = amd(FakeAmdSmi(NAVI_METRICS)).read()
    assert (reading.clock_hz, reading.memory_clock_hz) == (2.4e9, 1.249e9)
    assert (reading.temperature_c, reading.power_w, reading.slowdown) == (58.0, 120.0, ())


def test_without_the_metrics_table_amdsmi_is_asked_figure_by_figure():
    fake = FakeAmdSmi(metrics=None)
    source = amd(fake)
    readings = {source.read() for _ in range(3)}
    assert readings == {
        Reading(clock_hz=1.7e9, memory_clock_hz=0.9e9, temperature_c=61.0, power_w=95.0, other_processes=0)
    }
    assert fake.calls == ["metrics"]  # refused once, never asked for again


def test_amdsmi_counters_that_grew_name_the_slowdown():
    fake = FakeAmdSmi(dict(MI300X_METRICS))
    source = amd(fake)
    assert source.read().slowdown == ()
    fake.metrics["ppt_residency_acc"] += 3
    assert source.read().slowdown == ("power_cap",)
    assert source.read().slowdown == ()  # it has not grown since
    fake.metrics["socket_thm_residency_acc"] += 1
    fake.metrics["prochot_residency_acc"] += 1
    assert source.read().slowdown == ("thermal", "hardware")


def test_older_amd_chips_do_not_say_why_they_are_slowed_down():
    fake = FakeAmdSmi(NAVI_METRICS | {"throttle_status": True})
    assert amd(fake).read().slowdown == ("unspecified",)


def test_amdsmi_board():
    board = amd(FakeAmdSmi(MI300X_METRICS)).board()
    assert (board.driver, board.max_clock_hz, board.max_memory_clock_hz) == ("6.12.12", 2.1e9, 1.3e9)
    assert (board.power_limit_w, board.default_power_limit_w) == pytest.approx((600.0, 750.0))
    assert (board.slowdown_temperature_c, board.ecc, board.partition) == (100.0, True, "SPX, NPS1")


def test_amd_gpus_are_found_by_address_or_serial_and_never_by_index():
    fake = FakeAmdSmi(MI300X_METRICS, pids=((), (1,)))
    assert amd(fake, address="0000:c1:00.0").read().other_processes == 1
    # HIP's UUID is the serial's 16 hex digits as ASCII, which torch prints as 32 hex digits with dashes.
    digits = b"0badc0de12345678".hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    assert amd(fake, uuid=uuid, address=None).read().other_processes == 1
    with pytest.raises(TelemetryError, match="no GPU of this PCI address"):
        amd(fake, uuid="1234", address=None)


def test_amd_processes_have_memory_and_perhaps_no_name():
    (process,) = amd(FakeAmdSmi(MI300X_METRICS, pids=((5,), ()))).processes()
    assert (process.pid, process.name, process.memory_bytes) == (5, "", 3 << 30)


@pytest.mark.parametrize("function", ["amdsmi_get_gpu_process_list", "amdsmi_get_gpu_driver_info"])
def test_an_amdsmi_without_a_function_leaves_the_figure_unknown(function, monkeypatch):
    fake = FakeAmdSmi(MI300X_METRICS)
    monkeypatch.delattr(FakeAmdSmi, function)
    source = amd(fake)
    assert source.read().clock_hz == 2.0e9
    assert source.board().max_clock_hz == 2.1e9


def test_an_amdsmi_error_at_the_start_says_what_is_needed():
    class Broken(FakeAmdSmi):
        def amdsmi_init(self):
            raise NOT_SUPPORTED

    with pytest.raises(TelemetryError, match=r"libamd_smi\.so"):
        amd(Broken())


# --- which source, and why none


def unknown(device):
    source = telemetry(device)
    assert source.name == "unknown"
    assert source.read() == Reading()
    assert source.processes() is None
    assert "\n" not in source.why
    return source.why


def test_nvidia_without_the_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install rooflens[nvidia]" in unknown(H200)


@pytest.mark.parametrize(
    "error, words", [("LibraryNotFound", "libnvidia-ml.so"), ("DriverNotLoaded", "driver is not loaded")]
)
def test_nvidia_without_a_driver_says_so(monkeypatch, error, words):
    fake = FakeNvml(broken={"nvmlInit": getattr(FakeNvml, f"NVMLError_{error}")()})
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert words in unknown(H200)


def test_the_source_of_an_nvidia_gpu_is_nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    source = telemetry(replace(H200, uuid=GPU_1))
    assert source.name == "nvml"
    assert source.board().max_clock_hz == 1.981e9


def test_no_surprise_of_a_driver_stops_a_measurement(monkeypatch):
    fake = FakeNvml(broken={"nvmlDeviceGetHandleByIndex": RuntimeError("a\nsurprise")})
    fake.uuids = [GPU_0]
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(front, "pci_address", lambda device: None)
    assert unknown(replace(H200, uuid="")) == "RuntimeError: a surprise"


def test_amdsmi_without_rocm_is_unknown_and_silent(tmp_path):
    """The real package prints, below Python as well, and raises KeyError when it finds no library."""
    (tmp_path / "amdsmi.py").write_text(
        "import os\nprint('Unable to find libamd_smi.so')\nos.write(1, b'noise')\nos.write(2, b'noise')\n"
        "raise KeyError('libamd_smi.so')\n"
    )
    code = (
        "from rooflens.harness.telemetry_amdsmi import import_amdsmi\n"
        "from rooflens.harness.telemetry_reading import TelemetryError\n"
        "print('before')\n"
        "try:\n    import_amdsmi()\nexcept TelemetryError as error:\n    print(error)\n"
    )
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    before, why = done.stdout.splitlines()
    assert before == "before"
    assert why.startswith("amdsmi cannot be used (KeyError: 'libamd_smi.so')")
    assert done.stderr == ""


def test_amd_without_the_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert "pip install rooflens[amd]" in unknown(MI300X)


# --- the host


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


def test_busy_elsewhere_keeps_its_value_within_a_window_shorter_than_the_kernel_resolves(tmp_path):
    host = FakeHost(tmp_path)
    source = host.telemetry()
    host.spend(1.0, busy=1.0)
    assert source.read().busy_elsewhere == pytest.approx(0.5)
    host.spend(0.1)
    assert source.read().busy_elsewhere == pytest.approx(0.5)
    host.spend(0.3)
    assert source.read().busy_elsewhere == pytest.approx(0.0)


def test_busy_elsewhere_stays_within_its_range_when_ticks_are_late(tmp_path):
    host = FakeHost(tmp_path)
    source = host.telemetry()
    host.spend(1.0, busy=1.0, own=1.02)
    assert source.read().busy_elsewhere == 0.0
    host.spend(1.0, busy=2.05)
    assert source.read().busy_elsewhere == 1.0


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


# --- what a run stores


def test_the_environment_of_a_run_names_the_source_and_leaves_unknown_figures_out(monkeypatch):
    record = environment(find_device("cpu"))
    assert record["telemetry"] == "host"
    assert "driver" not in record
    assert all(isinstance(value, str) and value for value in record.values())


def test_the_environment_of_a_run_on_a_gpu_holds_driver_and_limits(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    record = environment(replace(H200, uuid=GPU_0))
    assert record["telemetry"] == "nvml"
    assert (record["driver"], record["max SM clock"], record["max memory clock"]) == (
        "580.159.03",
        "1980 MHz",
        "3201 MHz",
    )
    assert (record["power limit"], record["ECC"], record["MIG"], record["persistence mode"]) == (
        "700 W",
        "on",
        "off",
        "on",
    )


# --- real hardware


@pytest.mark.gpu
def test_a_real_gpu_tells_clock_power_and_temperature():
    import torch

    device = find_device("cuda")
    source = telemetry(device)
    if source.name == "unknown":
        pytest.skip(source.why)
    a = torch.randn(4096, 4096, device=device.torch_name, dtype=torch.bfloat16)
    for _ in range(50):
        a @ a
    reading = source.read()
    torch.cuda.synchronize()
    assert reading.clock_hz is not None
    assert 100e6 <= reading.clock_hz <= 3e9
    assert reading.power_w is not None
    assert reading.power_w > 0
    assert reading.temperature_c is not None
    assert 5 < reading.temperature_c < 110
    assert not reading.other_processes, "this process counts as a foreign one, or somebody else is on the GPU"
    board = source.board()
    assert board.max_clock_hz is not None
    assert reading.clock_hz <= board.max_clock_hz <= 4e9


@pytest.mark.gpu
def test_a_reading_of_a_real_gpu_is_cheap():
    source = telemetry(find_device("cuda"))
    if source.name == "unknown":
        pytest.skip(source.why)
    source.read()
    times = []
    for _ in range(200):
        start = time.perf_counter()
        source.read()
        times.append(time.perf_counter() - start)
    assert sorted(times)[100] < 1e-3


@pytest.mark.gpu
def test_another_process_on_a_real_gpu_is_counted():
    """A child takes memory on the device: one process more, where the driver shows any."""
    device = find_device("cuda")
    source = telemetry(device)
    if source.name == "unknown":
        pytest.skip(source.why)
    import torch

    torch.ones(1, device=device.torch_name)
    before = source.read().other_processes
    if before is None:
        pytest.skip("this driver lists no processes")
    code = (
        "import sys, torch\nx = torch.ones(1 << 20, device='cuda')\ntorch.cuda.synchronize()\nprint('up', flush=True)\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code + "sys.stdin.read()"], **pipes) as child:
        try:
            assert child.stdout.readline().strip() == "up"
            time.sleep(1.1)  # the list of processes is asked for once a second
            assert source.read().other_processes == before + 1
        finally:
            child.kill()
