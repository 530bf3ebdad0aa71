"""Devices that run alike are not said to differ, whatever the noise; a slow one is found and named."""

from dataclasses import replace

import pandas as pd
import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.analysis.stability.canary import drifts_by_device
from rooflens.analysis.stability.device_spread import device_warnings, spreads
from rooflens.analysis.stability.devices import measured_devices
from rooflens.shapes.device import Device

from ..several_devices import fleet, gpu, noisy, reading
from ..synthetic import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two shapes, each measured by a device of its own."""
    options = fleet([gpu(0, [0]), gpu(1, [1])], [reading(0)], lambda cell, round_: int(cell.layer == "o"))
    return load_run(write_run(tmp_path_factory.mktemp("fleet") / "run", **options))


def with_canary(run, rows, entries=None):
    """The run as devices of these canaries measured it, one per process unless `entries` say otherwise."""
    numbers = sorted({row["process"] for row in rows})
    entries = entries or [gpu(0, [number], uuid=f"{number:08d}") for number in numbers]
    return replace(
        run, canary=pd.DataFrame(rows), manifest=replace(run.manifest, devices=[Device(**one) for one in entries])
    )


def found_in(run):
    return spreads(run, measured_devices(run, drifts_by_device(run.canary, run.device_of)))


def told(run):
    return list(device_warnings(run, found_in(run)))


@pytest.mark.parametrize(
    ("devices", "readings"), [(2, 2), (2, 5), (8, 3), (8, 30), pytest.param(200, 3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_identical_devices_are_not_warned_of(run, devices, readings, noise):
    """One run of a hundred may err for each part of the canary: that 4 or more of 20 do has a chance of 0.06 %."""
    tries = (with_canary(run, noisy([1.0] * devices, readings, noise, seed)) for seed in range(20))
    assert sum(bool(told(one)) for one in tries) <= 3


@pytest.mark.parametrize(
    ("devices", "readings", "noise"),
    [
        (2, 3, 0.003),
        (2, 15, 0.01),
        (8, 3, 0.003),
        (8, 5, 0.01),
        (8, 30, 0.02),
        pytest.param(200, 3, 0.003, marks=pytest.mark.slow),
    ],
)
def test_a_gpu_that_is_5_percent_slower_is_named(run, devices, readings, noise):
    """In over nine runs of ten, with so much noise."""
    slowdowns = [1.05 if number == 1 else 1.0 for number in range(devices)]
    named = 0
    for seed in range(20):
        tried = with_canary(run, noisy(slowdowns, readings, noise, seed))
        gemm, copy = found_in(tried)
        assert (gemm.slowest.number, gemm.devices) == (1, devices)
        assert gemm.excess == pytest.approx(0.05, abs=6 * noise)
        named += len(told(tried))
        assert not copy.proven
    assert named > 18


def test_the_line_says_what_it_means_and_what_to_do(run):
    canary = [reading(minute, time, process=number) for number, time in enumerate((1e-3, 1.06e-3)) for minute in (0, 1)]
    entries = [gpu(0, [0]), gpu(1, [1], host="node1")]
    assert told(with_canary(run, canary, entries)) == [
        "devices differ: the canary's GEMM takes 6.0% longer on node1 GPU-8f6d2c11 than on node0 GPU-8f6d2c10. So do "
        "times of problems that different devices measured; speedups hold, as all providers of a problem ran on one "
        "device. Look at clock, power limit, temperature and other work of node1 GPU-8f6d2c11, or measure without it"
    ]


@pytest.mark.parametrize(
    ("kind", "slow", "expected"), [("cuda", 1.029, 0), ("cuda", 1.031, 1), ("cpu", 1.09, 0), ("cpu", 1.11, 1)]
)
def test_a_cpu_may_differ_by_10_percent_and_a_gpu_by_3(run, kind, slow, expected):
    canary = [
        reading(minute, time, process=number) for number, time in enumerate((1e-3, slow * 1e-3)) for minute in (0, 1)
    ]
    there = replace(run, manifest=replace(run.manifest, device=replace(run.device, kind=kind)))
    assert len(told(with_canary(there, canary))) == expected


def test_a_device_with_one_reading_is_not_judged(run):
    canary = [reading(minute, process=number) for number in (0, 1) for minute in (0, 1)]
    once = with_canary(run, [*canary, reading(0, 2e-3, process=2)])
    assert [(one.devices, one.excess) for one in found_in(once)] == [(2, 0.0)] * 2
    assert told(once) == []
    assert found_in(with_canary(run, [reading(0), reading(0, 2e-3, process=1), reading(1, 2e-3, process=1)])) == ()
    assert found_in(with_canary(run, [reading(0), reading(0, 2e-3, process=1)])) == ()


def test_a_burst_of_other_work_is_no_slow_device_and_hides_none(run):
    canary = noisy([1.0, 1.0], readings=9)
    canary[4]["gemm_s"] *= 1.4
    assert told(with_canary(run, canary)) == []
    slow = noisy([1.0, 1.06], readings=9)
    slow[4]["gemm_s"] *= 1.4
    assert len(told(with_canary(run, slow))) == 1


def test_a_device_that_is_noisy_is_held_to_its_own_noise(run):
    """Seven quiet devices, and one whose readings scatter by 8 %: its median is off by as much as that allows."""
    faster = (with_canary(run, noisy([1.0] * 7 + [0.9], 10, 0.003, seed)) for seed in range(10))
    assert all(map(told, faster)), "nothing is slow there, but the fastest stands apart"
    for seed in range(10):
        canary = noisy([1.0] * 7, 6, 0.003, seed)
        canary += [row | {"process": 7} for row in noisy([1.0], 6, 0.08, seed + 100)]
        assert told(with_canary(run, canary)) == []


def test_another_architecture_is_no_slow_device(run):
    canary = [reading(minute, time, process=number) for number, time in enumerate((1e-3, 3e-3)) for minute in (0, 1)]
    assert len(told(with_canary(run, canary))) == 1
    assert told(with_canary(run, canary, [gpu(0, [0]), gpu(1, [1], arch="gfx950")])) == []


def test_speedups_across_devices_are_told(tmp_path):
    """A merge can join the providers of one problem from two devices: here those of one of the two problems."""
    canary = [reading(minute, time, process=number) for number, time in enumerate((1e-3, 1.06e-3)) for minute in (0, 1)]

    def process_of(cell, round_):
        return int(cell.layer == "o" and cell.provider == "dequant_blas")

    run = load_run(write_run(tmp_path / "run", **fleet([gpu(0, [0]), gpu(1, [1])], canary, process_of)))
    (warning,) = told(run)
    assert "and so may speedups of 1 of 2 problems whose providers ran on several devices" in warning
    assert "speedups hold" not in warning


def test_it_concerns_the_run_as_a_whole(tmp_path):
    canary = noisy([1.0, 1.08], noise=0.003)
    for devices, count in (([gpu(0, [0]), gpu(1, [1])], 1), ([gpu(0, [0, 1])], 0)):
        options = fleet(devices, canary, lambda cell, round_: int(cell.layer == "o"))
        warned = analyze(load_run(write_run(tmp_path, **options))).warnings
        assert sum(one.startswith("devices differ: ") for one in warned) == count
