"""Who measured what in a run of several devices, and what each of them is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.analysis.run.summarize import summarize
from rooflens.analysis.stability.canary import device_numbers
from rooflens.analysis.stability.devices import beside_fleet, device_name, labels, short_uuids
from rooflens.shapes.device import Device

from ..several_devices import fleet, gpu, reading
from ..synthetic import CPU, write_run


def run_of(folder, *args, **options):
    return load_run(write_run(folder, **fleet(*args, **options)))


def by_layer(cell, round_):
    """The first shape on the processes 0 and, from round 1, 2; the other one on process 1."""
    return 1 if cell.layer == "o" else 2 if round_ else 0


def test_every_device_with_its_cells_rounds_readings_and_restarts(tmp_path):
    canary = [reading(0, 1.0e-3), reading(1, 1.1e-3), reading(2, 1.2e-3, process=2), reading(0, 3e-3, process=1)]
    run = run_of(tmp_path, [gpu(0, [0, 2]), gpu(1, [1], host="node1"), gpu(2, [])], canary, by_layer)
    first, second, idle = analyze(run).devices
    assert (first.label, first.host, first.short_uuid) == ("node0 GPU-8f6d2c10", "node0", "GPU-8f6d2c10")
    assert (first.cells, first.rounds, first.readings, first.restarts) == (2, 6, 3, 1)
    assert (second.cells, second.rounds, second.readings, second.restarts) == (2, 6, 1, 0)
    assert (idle.cells, idle.rounds, idle.readings, idle.restarts) == (0, 0, 0, 0)
    assert first.canary_s == {"gemm": pytest.approx(1.1e-3), "copy": pytest.approx(2e-3)}
    assert first.drifts[0].range == pytest.approx(0.2)
    assert second.drifts[0].range is None
    assert (idle.canary_s, idle.drifts) == ({}, ())


@pytest.mark.parametrize(
    ("entries", "shards", "restarts"),
    [
        ([gpu(0, [0, 3, 4]), gpu(1, [1, 2])], [0, 1, 3], [1, 1]),  # process 4 is of the last shard
        # A sweep that went on twice has three stations on a device, each with a first worker of its own.
        ([gpu(0, [0, 2, 3], stations=3), gpu(1, [1, 4], stations=1)], [], [0, 1]),
    ],
)
def test_shards_and_stations_are_no_restarts(tmp_path, entries, shards, restarts):
    manifest = {"shards": [{"first_process": first} for first in shards]}
    run = run_of(tmp_path, entries, [], manifest=manifest if shards else {})
    assert [device.restarts for device in analyze(run).devices] == restarts


def test_the_fleet_is_the_median_of_its_devices(tmp_path):
    times = (1.0e-3, 1.05e-3, 1.0e-3)
    canary = [reading(0, time, process=number) for number, time in enumerate(times)]
    devices = analyze(run_of(tmp_path, [gpu(number, [number]) for number in range(4)], canary)).devices
    beside = beside_fleet(devices)
    assert {number: round(change["gemm"], 12) for number, change in beside.items()} == {0: 0, 1: 0.05, 2: 0}
    assert {change["copy"] for change in beside.values()} == {0.0}


def test_restarts_of_a_device_do_not_make_it_several(tmp_path):
    """The restarted worker of the first device reads 4 % more; the other device, five times as slow, 6 % less."""
    other = [reading(0.02, 5e-3, process=1), reading(4.02, 4.7e-3, process=1)]
    canary = [reading(0, 1e-3), *other, reading(4, 1.04e-3, process=2)]
    run = run_of(tmp_path, [gpu(0, [0, 2]), gpu(1, [1])], canary, by_layer)
    gemm, _ = analyze(run).canary
    assert (gemm.readings, gemm.range, gemm.trend) == (4, pytest.approx(5 / 4.7 - 1), pytest.approx(-0.06))
    said = summarize(run).set_index(["layer", "provider"])["disturbed"]
    assert said["l", "simt_4bit"] == "canary slowed down by 4.0 % (gemm)"  # rounds in process 0 and in process 2
    assert said["o", "simt_4bit"] == ""


def test_an_older_merged_run_has_a_device_per_process(tmp_path):
    entries = [{key: value for key, value in gpu(number, []).items() if key != "processes"} for number in (0, 1)]
    canary = [reading(0, 1e-3), reading(4, 1.2e-3, process=2), reading(0, 2e-3, process=1)]
    analysis = analyze(run_of(tmp_path, entries, canary, by_layer))
    assert analysis.devices == ()
    assert analysis.canary[0].range is None  # no process has two readings
    assert device_name(analysis.run, -3) == "worker 2"


def test_a_process_that_no_device_has_stands_alone(tmp_path):
    run = run_of(tmp_path, [gpu(0, [0]), gpu(1, [1])], [reading(0), reading(1, process=7)])
    assert device_numbers(run.canary["process"], run.device_of).tolist() == [0, -8]
    assert [device.readings for device in analyze(run).devices] == [1, 0]
    assert [device_name(run, number) for number in (0, -8)] == ["GPU-8f6d2c10", "worker 7"]


def test_a_run_of_one_device_lists_none(tmp_path):
    run = run_of(tmp_path, [gpu(0, [0, 1])], [reading(0), reading(1, process=1)])
    assert (run.several_devices, run.device_of) == (False, None)
    assert analyze(run).devices == ()
    assert analyze(run).canary[0].range == 0.0  # over both processes


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([gpu(0, []), gpu(1, [])], ["GPU-8f6d2c10", "GPU-8f6d2c11"]),
        ([gpu(0, []), gpu(1, [], host="node1")], ["node0 GPU-8f6d2c10", "node1 GPU-8f6d2c11"]),
        ([gpu(0, [], uuid=""), gpu(1, [], uuid="", index=3)], ["GPU 0", "GPU 3"]),
        ([CPU.device | {"host": "a", "slot": 0}, CPU.device | {"host": "a", "slot": 1}], ["slot 0", "slot 1"]),
        ([CPU.device | {"host": "a"}, CPU.device | {"host": "b"}], ["a CPU", "b CPU"]),
        ([{}, {}], ["GPU #1", "GPU #2"]),
        ([gpu(0, [], uuid="GPU-8f6d2c10-00"), gpu(0, [], uuid="8f6d2c10-01")], ["GPU-8f6d2c10-00", "GPU-8f6d2c10-01"]),
    ],
)
def test_labels_by_hand(entries, expected):
    assert labels([Device(**entry) for entry in entries]) == expected
    known = [Device(uuid=uuid) for uuid in ("aaaaaaaa-1111-2", "aaaaaaaa-1112-2", "", "bbbbbbbb-1111-2")]
    assert short_uuids(known) == ["GPU-aaaaaaaa-1111", "GPU-aaaaaaaa-1112", "", "GPU-bbbbbbbb-1111"]


ENTRIES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "host": st.sampled_from(["", "a", "b"]),
            "kind": st.sampled_from(["cpu", "cuda"]),
            "index": st.integers(0, 2),
            "slot": st.integers(0, 2),
            "uuid": st.text("0a-", max_size=12),
        },
    ),
    max_size=8,
)


@given(ENTRIES)
def test_no_two_devices_have_one_label(entries):
    found = labels([Device(**entry) for entry in entries])
    assert len(set(found)) == len(entries)
    assert all(found)
