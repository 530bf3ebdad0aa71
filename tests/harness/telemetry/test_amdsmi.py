"""amdsmi by a stand-in only, since there is no AMD GPU to run it on."""

from dataclasses import replace

import pytest
from rooflens.harness.telemetry.amdsmi import AmdSmi
from rooflens.harness.telemetry.source import Reading
from rooflens.shapes.device import Device
from rooflens.shapes.errors import RooflensError

from ..fake_smi import MI300X_METRICS, NAVI_METRICS, NOT_SUPPORTED, FakeAmdSmi

MI300X = Device("cuda", 0, "AMD Instinct MI300X", "AMD", "gfx942", 304, 256 << 20, 32 << 20, 192 << 30)


def amd(fake, uuid="", address="0000:c0:00.0", holds_context=False):
    return AmdSmi(replace(MI300X, uuid=uuid), fake, lambda: address, lambda: holds_context)


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
    with pytest.raises(RooflensError, match="no GPU of this PCI address"):
        amd(fake, uuid="1234", address=None)


def test_amd_processes_have_memory_and_perhaps_no_name():
    (process,) = amd(FakeAmdSmi(MI300X_METRICS, pids=((5,), ()))).processes()
    assert (process.pid, process.name, process.memory_bytes) == (5, "", 3 << 30)


@pytest.mark.parametrize("function", ["get_gpu_process_list", "get_gpu_driver_info"])
def test_an_amdsmi_without_a_function_leaves_the_figure_unknown(function):
    fake = FakeAmdSmi(MI300X_METRICS)
    del fake.answers[function]
    source = amd(fake)
    assert source.read().clock_hz == 2.0e9
    assert source.board().max_clock_hz == 2.1e9


def test_an_amdsmi_error_at_the_start_says_what_is_needed():
    def fails():
        raise NOT_SUPPORTED

    fake = FakeAmdSmi()
    fake.answers["init"] = fails
    with pytest.raises(RooflensError, match=r"libamd_smi\.so"):
        amd(fake)
