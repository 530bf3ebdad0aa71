"""Ceilings against closed forms: with a timer that says 1 ms for everything, each is its bytes or FLOPs times 1,000."""

import dataclasses

import pytest
from rooflens.harness import calibrate as module
from rooflens.harness.timers import Batch
from rooflens.shapes import device as devices
from rooflens.shapes.device import Device
from rooflens.shapes.scheme import DType

LLC = 1 << 20
CPU = Device("cpu", 0, "test", "", "x86-64", 2, LLC, 1 << 18, 1 << 34)


class Millisecond:
    name = "event"
    resolution_s = 0.0

    def batch(self, launch, before, count):
        return Batch((3e-3,) * (count - 1) + (1e-3,))


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(module, "BUDGET_S", 0.0)
    monkeypatch.setattr(module, "make_timer", lambda *_, **__: Millisecond())

    def run(device):
        rows, remarks = module.calibrate(device, [DType.FP32], "auto")
        return {(row["ceiling"], row["level"], row["pattern"], row["kind"]): row["value"] for row in rows}, remarks

    return run


def test_each_ceiling_is_its_work_over_the_fastest_time(measured):
    values, remarks = measured(CPU)
    beyond, inside = 4 * LLC, LLC // 4
    expected = {
        ("bandwidth", level, pattern, "measured"): size / 1e-3  # a copy reads one half and writes the other
        for level, size in (("dram", beyond), ("llc", inside))
        for pattern in ("copy", "read", "write")
    } | {("peak", "", "gemm", "measured"): 2 * 512 * 4096 * 4096 / 1e-3, ("launch", "", "", "measured"): 1e-3}
    assert values == pytest.approx(expected)
    assert remarks == []


def test_a_measurement_above_the_published_peak_is_refused(measured):
    h200 = devices.spec("NVIDIA H200 SXM")
    slow = dataclasses.replace(h200, peak_flops={"fp32": 1e12}, bandwidth_bytes_per_s=1e15)
    values, remarks = measured(dataclasses.replace(CPU, spec=slow))
    assert ("peak", "", "gemm", "measured") not in values
    assert values["peak", "", "gemm", "spec"] == 1e12
    assert ("bandwidth", "dram", "read", "measured") in values
    assert len(remarks) == 1
    assert "above the published 1e+12" in remarks[0]
