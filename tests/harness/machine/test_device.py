"""What Linux tells of a CPU's caches."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rooflens.harness.machine import device as devices
from rooflens.harness.machine.device import find_device
from rooflens.shapes.errors import RooflensError, UsageError


def write_cache(root, core, level, size, shared, kind="Unified"):
    entry = root / f"cpu{core}/cache/index{level}{kind[0]}"
    entry.mkdir(parents=True)
    for name, text in (("type", kind), ("level", str(level)), ("size", size), ("shared_cpu_list", shared)):
        (entry / name).write_text(f"{text}\n")


@pytest.mark.parametrize(("cores", "last"), [({0}, 32), ({0, 1}, 32), ({0, 1, 2}, 64), ({0, 2, 4}, 96)])
def test_every_last_level_cache_that_the_process_uses_counts(tmp_path, monkeypatch, cores, last):
    """Three dies of two cores: 32 MiB of L3 each, 1 MiB of L2 per core."""
    for core in range(6):
        die = f"{core // 2 * 2}-{core // 2 * 2 + 1}"
        write_cache(tmp_path, core, 1, "32K", str(core), "Instruction")
        write_cache(tmp_path, core, 1, "48K", str(core), "Data")
        write_cache(tmp_path, core, 2, "1024K", str(core))
        write_cache(tmp_path, core, 3, "32768K", die)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cores)
    assert devices._cpu_caches(tmp_path) == {1: 48 << 10, 2: 1 << 20, 3: last << 20}


def test_a_cpu_that_says_nothing_gets_a_large_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "_cpu_caches", dict)
    assert find_device("cpu").llc_bytes == devices.FALLBACK_LLC_BYTES
    assert find_device("cpu", 1 << 20).llc_bytes == 1 << 20


def test_what_is_no_device_here_is_told(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name in ("cpu:1", "tpu"):
        with pytest.raises(UsageError, match="write cpu, cuda or cuda:N"):
            find_device(name)
    with pytest.raises(RooflensError, match=r"sees no GPU here.*--device cpu"):
        find_device("cuda:0")


@pytest.mark.parametrize("found", ["nvidia0", "nvidiactl", "nvhost-gpu", "kfd", "dxg", "nvidia-smi"])
def test_a_device_file_or_a_tool_of_a_gpu_is_reason_enough_to_ask_torch(tmp_path, monkeypatch, found):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvme0").touch()
    assert not devices.gpu_possible(tmp_path)
    if found == "nvidia-smi":
        monkeypatch.setattr("shutil.which", lambda name: name if name == found else None)
    else:
        (tmp_path / "dev" / found).touch()
    assert devices.gpu_possible(tmp_path)


def test_the_cpu_is_the_same_before_and_after_torch_is_imported():
    """In a process of its own, with the threads that a run gives torch."""
    code = (
        "import os, sys\n"
        "from rooflens.harness.machine.device import find_device\n"
        "before = find_device('cpu')\n"
        "assert 'torch' not in sys.modules\n"
        "import torch\n"
        "torch.set_num_threads(len(os.sched_getaffinity(0)))\n"
        "assert find_device('cpu') == before\n"
    )
    # Told to use another instruction set, torch alone knows which.
    environment = {name: value for name, value in os.environ.items() if name != "ATEN_CPU_CAPABILITY"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)


@pytest.mark.parametrize(("place", "chiplets"), [((0, 5, 0), 8), ((0, 7, 0), 1), ((1, 5, 0), 0), ((0, 9, 0), 0)])
def test_chiplets_of_a_gpu_are_those_that_the_driver_reports(tmp_path, place, chiplets):
    """Nodes of AMD's driver: a processor, a GPU, a partition of another in CPX mode, and one of an older driver."""
    nodes = [
        (0, 0, "num_xcc 0"),
        (0, 5 << 8, "num_xcc 8"),
        (0, 7 << 8 | 1, "num_xcc 1"),
        (0, 9 << 8, "cpu_cores_count 0"),
    ]
    for number, (domain, location, line) in enumerate(nodes):
        (tmp_path / str(number)).mkdir()
        text = f"domain {domain}\nlocation_id {location}\n{line}\n"
        (tmp_path / str(number) / "properties").write_text(text)
    names = ("pci_domain_id", "pci_bus_id", "pci_device_id")
    assert devices._chiplets(SimpleNamespace(**dict(zip(names, place, strict=True))), tmp_path) == chiplets
