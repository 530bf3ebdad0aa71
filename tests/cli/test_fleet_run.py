"""`rooflens fleet run` on two real nodes of Ray: what it stores is what one process would have stored."""

import json

import pytest

from .fleet_runs import arch_of, fleet_args, planted, rows_by_unit
from .ray_nodes import cpu_arch
from .tiny_runs import SLOW, check_whole, read, rooflens, run_args, write_suite

ODD = ("right", "crash", "stopped", "wrong", "refuses", "raises", "prepare_fails")

OF_A_RUN = {
    *("order", "process", "launches_per_sample", "blocked", "samples", "discarded", "disturbed", "stop_reason"),
    *("elapsed_s", "prepare_s", "started_at"),
}
"""Columns of cells.csv in which two runs of one suite differ. The others follow from plan, code and device."""


@pytest.fixture(scope="module")
def both(two_nodes, tmp_path_factory):
    """Measure one suite by a fleet and by a single process; return both folders, and what the fleet printed."""
    limits = ("--timeout", "2s", "--threads", "1", "-a", "M=1,2")
    alone = write_suite(tmp_path_factory.mktemp("alone"))
    done = rooflens(alone, *run_args(*ODD), *limits)
    assert done.returncode == 0, done.stderr
    fleet = write_suite(tmp_path_factory.mktemp("fleet"))
    done = rooflens(fleet, *fleet_args(two_nodes.address, *ODD), *limits, env=two_nodes.environment)
    assert done.returncode == 0, done.stderr
    return alone, fleet, done


def test_a_fleet_stores_the_units_verdicts_and_identities_of_a_single_process(both):
    alone, fleet = map(rows_by_unit, both[:2])
    assert len(alone) == 2 * 2 * 7 * 2 - 2 * 4 - 2 * 2 * 2  # a final failure ends its cell after one round
    assert fleet.keys() == alone.keys()
    for unit, row in alone.items():
        assert {name: text for name, text in fleet[unit].items() if name not in OF_A_RUN} == {
            name: text for name, text in row.items() if name not in OF_A_RUN
        }


def test_both_nodes_measured_and_problems_are_not_divided(both):
    _, fleet, _ = both
    processes = {}
    for row in read(fleet):
        processes.setdefault((row["layer"], row["M"]), set()).add(row["process"])
    assert len(processes) == 4
    assert all(len(of_a_problem) <= 3 for of_a_problem in processes.values())
    assert not set.intersection(*processes.values())


def test_of_two_architectures_each_measures_everything_in_a_run_of_its_own(two_nodes, place):
    other = arch_of("aarch64")
    with two_nodes.added({other: 1}, **planted("aarch64")):
        arguments = fleet_args(two_nodes.address, "dequant_blas", file=None, on=(cpu_arch(), other))
        done = rooflens(place, *arguments, "--threads", "1", env=two_nodes.environment)
        assert done.returncode == 0, done.stderr
    out = place / "out"
    content = json.loads((out / "fleet.json").read_text())
    assert sorted(content["architectures"]) == sorted([cpu_arch(), other])
    devices = []
    for arch in (cpu_arch(), other):
        check_whole(place, cells=6, out=out / arch)
        devices.append(json.loads((out / arch / "run.json").read_text())["devices"])
    assert [{device["arch"] for device in found} for found in devices] == [{cpu_arch()}, {other}]
    assert [len(found) for found in devices] == [2, 1]


def test_two_stations_do_not_share_a_device(two_nodes, place):
    """Both nodes say that they have the same device, as two that were started without visible-device variables."""
    arch = arch_of("arm64")
    what = planted("arm64", uuid="GPU-1234", cores=2)
    with two_nodes.added({arch: 1}, **what), two_nodes.added({arch: 1}, **what):
        arguments = fleet_args(two_nodes.address, "dequant_blas", file=None, on=(arch,))
        done = rooflens(place, *arguments, "--threads", "1", env=two_nodes.environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("takes no part: another station has the same device (GPU-1234)") == 1
    check_whole(place, cells=6)
    (device,) = json.loads((place / "out" / "run.json").read_text())["devices"]
    assert device["uuid"] == "GPU-1234"


def test_six_stations_fill_one_folder(two_nodes, place):
    arch = arch_of("amd64")
    with two_nodes.added({arch: 6}, **planted("amd64", cores=6)):
        arguments = fleet_args(two_nodes.address, "dequant_blas", "blas", file=None, on=(arch,))
        done = rooflens(place, *arguments, "--threads", "1", *SLOW, "100ms", "-a", "M=1..20", env=two_nodes.environment)
    assert done.returncode == 0, done.stderr
    check_whole(place, cells=80)
    devices = json.loads((place / "out" / "run.json").read_text())["devices"]
    assert sorted(device["slot"] for device in devices) == [0, 1, 2, 3, 4, 5]
    done = rooflens(place, "validate", "out", "--strict")
    assert done.returncode == 0, done.stderr
