"""NVML by a stand-in: what a GPU of NVIDIA says of itself, and who else is counted on it."""

import os
from dataclasses import replace

import pytest
from rooflens.harness.telemetry import reading
from rooflens.harness.telemetry.nvml import Nvml
from rooflens.harness.telemetry.reading import OtherProcesses, others
from rooflens.harness.telemetry.source import Reading
from rooflens.shapes.device import Device
from rooflens.shapes.errors import RooflensError

from ..fake_smi import GPU_0, GPU_1, FakeNvml

H200 = Device("cuda", 0, "NVIDIA H200", "NVIDIA", "sm90", 132, 60 << 20, 60 << 20, 141 << 30)

BARE_UUID = GPU_0.removeprefix("GPU-")
"""As torch writes it."""


def nvml(fake, uuid=BARE_UUID, address=None, holds_context=False):
    return Nvml(replace(H200, uuid=uuid), fake, lambda: address, lambda: holds_context)


def test_nvml_reading_is_in_base_units():
    assert nvml(FakeNvml()).read() == Reading(
        clock_hz=1.5e9, memory_clock_hz=3.201e9, temperature_c=41.0, power_w=254.0, slowdown=(), other_processes=0
    )


def test_nvml_board_is_in_base_units():
    board = nvml(FakeNvml()).board()
    assert (board.driver, board.max_clock_hz, board.max_memory_clock_hz) == ("580.159.03", 1.98e9, 3.201e9)
    assert (board.power_limit_w, board.default_power_limit_w, board.slowdown_temperature_c) == (700.0, 700.0, 92.0)
    assert (board.ecc, board.mig, board.persistence, board.partition) == (True, False, True, None)


@pytest.mark.parametrize("uuid", [GPU_1, GPU_1.removeprefix("GPU-"), "77777777-0000-4000-8000-00000000000c"])
def test_a_gpu_or_mig_instance_is_found_by_its_own_uuid_and_not_by_its_index(uuid):
    """CUDA_VISIBLE_DEVICES=1: torch calls the second GPU cuda:0, and NVML still calls it 1."""
    second = GPU_1 if uuid in GPU_1 else f"MIG-{uuid}"
    assert nvml(FakeNvml(uuids=(GPU_0, second)), uuid=uuid).read().temperature_c == 42.0


def test_a_gpu_without_uuid_is_found_by_its_pci_address():
    fake = FakeNvml()
    assert nvml(fake, uuid="", address="0000:11:00.0").read().temperature_c == 42.0
    assert "nvmlDeviceGetHandleByIndex" not in fake.calls


def test_an_unknown_gpu_is_the_only_one_or_an_error_but_never_a_guess():
    assert nvml(FakeNvml(uuids=(GPU_0,), pids=((),)), uuid="", address=None).read().temperature_c == 41.0
    with pytest.raises(RooflensError, match="no GPU of this UUID or PCI address"):
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
        (0x100 | 0x200 | 0x400, ("board_limit", "reliability", "display_clocks")),
        (0x1000, ()),  # a bit of a later driver
    ],
)
def test_slowdown_words_are_those_of_the_bits_in_fixed_order(bits, words):
    assert nvml(FakeNvml(reasons=bits)).read().slowdown == words


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


@pytest.mark.parametrize(
    "pids, holds_context, expected",
    [
        ((), False, 0),
        ((os.getpid(),), True, 0),
        ((os.getpid(), 4711), True, 1),
        # The process that started a worker, where a provider's library asked for the device.
        ((os.getpid(), os.getppid()), True, 0),
        ((os.getppid(), 4711), False, 1),
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
def test_neither_this_process_nor_its_parent_counts_as_a_foreign_one(pids, holds_context, expected, monkeypatch):
    monkeypatch.setattr(reading, "STARTED_BY", [os.getppid()])  # of a worker
    assert others(pids, {os.getpid(), os.getppid()}, holds_context) == expected
    assert nvml(FakeNvml(pids=(pids, ())), holds_context=holds_context).read().other_processes == expected


def test_whoever_started_rooflens_is_a_foreign_one():
    assert nvml(FakeNvml(pids=((os.getppid(),), ()))).read().other_processes == 1


def test_processes_of_the_other_gpu_do_not_count():
    assert nvml(FakeNvml(pids=((), (4711, 4712)))).read().other_processes == 0


def test_the_process_list_is_asked_for_once_a_second():
    now, lists = [0.0], [[1, 2], [1, 2, 3]]
    counter = OtherProcesses(lambda: lists.pop(0), int, lambda: False, lambda: now[0])
    assert [counter.count(), counter.count()] == [2, 2]
    now[0] = 0.99
    assert counter.count() == 2
    now[0] = 1.0
    assert counter.count() == 3
