"""Which source of telemetry a device has, why it has none, what a run stores of it, and what real GPUs say."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from rooflens.harness.machine.device import find_device
from rooflens.harness.machine.environment import environment
from rooflens.harness.telemetry import source as front
from rooflens.harness.telemetry.source import Reading, telemetry
from rooflens.shapes.device import Device

from ...environments import printed_by
from ..fake_smi import GPU_0, FakeNvml

H200 = Device("cuda", 0, "NVIDIA H200", "NVIDIA", "sm90", 132, 60 << 20, 60 << 20, 141 << 30)
MI300X = Device("cuda", 0, "AMD Instinct MI300X", "AMD", "gfx942", 304, 256 << 20, 32 << 20, 192 << 30)


def unknown(device):
    source = telemetry(device)
    assert source.name == "unknown"
    assert source.read() == Reading()
    assert source.processes() is None
    assert "\n" not in source.why
    return source.why


@pytest.mark.parametrize(
    ("device", "package", "extra"), [(H200, "pynvml", "rooflens[nvidia]"), (MI300X, "amdsmi", "rooflens[amd]")]
)
def test_a_device_without_its_package_says_what_to_install(monkeypatch, device, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    assert f"pip install {extra}" in unknown(device)


@pytest.mark.parametrize(
    "error, words", [("LibraryNotFound", "libnvidia-ml.so"), ("DriverNotLoaded", "driver is not loaded")]
)
def test_nvidia_without_a_driver_says_so(monkeypatch, error, words):
    fake = FakeNvml(broken={"nvmlInit": getattr(FakeNvml, f"NVMLError_{error}")()})
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert words in unknown(H200)


def test_no_surprise_of_a_driver_stops_a_measurement(monkeypatch):
    fake = FakeNvml(uuids=(GPU_0,), broken={"nvmlDeviceGetHandleByIndex": RuntimeError("a\nsurprise")})
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
        "from rooflens.harness.telemetry.amdsmi import import_amdsmi\n"
        "from rooflens.shapes.errors import RooflensError\n"
        "print('before')\n"
        "try:\n    import_amdsmi()\nexcept RooflensError as error:\n    print(error)\n"
    )
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = printed_by(sys.executable, "-c", code, env=os.environ | {"PYTHONPATH": path}, check=True, timeout=120)
    before, why = done.stdout.splitlines()
    assert before == "before"
    assert why.startswith("amdsmi cannot be used (KeyError: 'libamd_smi.so')")
    assert done.stderr == ""


def test_the_environment_of_a_run_names_the_source_and_leaves_unknown_figures_out(monkeypatch):
    record = environment(find_device("cpu"))
    assert record["telemetry"] == "host"
    assert "driver" not in record
    assert all(isinstance(value, str) and value for value in record.values())


def test_the_environment_of_a_run_on_a_gpu_holds_driver_and_limits(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    record = environment(replace(H200, uuid=GPU_0))
    assert (
        record.items()
        >= {
            "telemetry": "nvml",
            "driver": "580.159.03",
            "max SM clock": "1980 MHz",
            "max memory clock": "3201 MHz",
            "power limit": "700 W",
            "ECC": "on",
            "MIG": "off",
            "persistence mode": "on",
        }.items()
    )


@pytest.fixture
def real():
    """A GPU and its telemetry."""
    device = find_device("cuda")
    source = telemetry(device)
    if source.name == "unknown":
        pytest.skip(source.why)
    return device, source


@pytest.mark.gpu
@pytest.mark.exclusive
def test_a_real_gpu_tells_clock_power_and_temperature(real):
    import torch

    device, source = real
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
@pytest.mark.exclusive
def test_a_reading_of_a_real_gpu_is_cheap(real):
    _, source = real
    source.read()
    times = []
    for _ in range(200):
        start = time.perf_counter()
        source.read()
        times.append(time.perf_counter() - start)
    assert sorted(times)[100] < 1e-3


@pytest.mark.gpu
@pytest.mark.exclusive
def test_another_process_on_a_real_gpu_is_counted(real):
    """A child takes memory on the device: one process more, where the driver shows any."""
    import torch

    device, source = real
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
