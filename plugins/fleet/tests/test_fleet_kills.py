"""kill -9, Ctrl-C and a frozen station in sweeps over two nodes: what is finished stays, the rest is done once."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cli.tiny_runs import (
    assert_gone,
    birth,
    check_whole,
    children,
    fresh,
    read,
    rooflens,
    unconverged,
    wait_until,
    write_suite,
)

from .fleet_runs import cells_of, ended, fleet_args, problems_at_home, started, wait_for_problems

pytestmark = [pytest.mark.ray, pytest.mark.exclusive]

PROBLEMS, ROUNDS = 24, 4


def plan(address):
    """Arguments of a sweep whose units take some 80 ms each."""
    arguments = fleet_args(address, "dequant_blas", file=None)
    return (*arguments, *unconverged("80ms"), "--set", "threads=1")


def at_work(nodes, kind):
    """Return the pid of a process of a station that measures, once there is one."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for node in nodes.nodes:
            if node.processes("ray::RayWorker.measure") and (pids := getattr(node, kind)()):
                return pids[0]
    raise AssertionError("no station measures")


def whole(shards, rounds):
    """Those of the shards that hold all rounds of their cell."""
    return {name: parcel for name, parcel in shards.items() if len(cells_of(parcel)) == rounds}


def assert_kept(place, shards):
    """What was at home is there still, byte for byte, and its rows are in the table; the numbers of processes aside."""
    now = problems_at_home(place)
    units = {(row["cell_id"], row["round"]): row for row in read(place)}
    for name, parcel in shards.items():
        assert now[name] == parcel
        for row in cells_of(parcel):
            assert units[row["cell_id"], row["round"]] | {"process": ""} == row | {"process": ""}


@pytest.fixture(scope="module", autouse=True)
def without_token(two_nodes, tmp_path_factory):
    """Begin a command that cannot join the cluster. Ray takes 20 s to say so, in which the tests of this file go on."""
    environment = {name: text for name, text in two_nodes.environment.items() if not name.startswith("RAY_AUTH")}
    home = tmp_path_factory.mktemp("home")
    command = ("fleet", "devices", "--address", two_nodes.address)
    with started(home, command, environment | {"HOME": str(home)}) as process:
        yield process


IMPATIENT = Path(__file__).with_name("impatient_fleet.py")


LIMITS = ("--set", "timeout_s=1s", "--set", "build_timeout_s=10s")


@pytest.fixture(scope="module")
def hurt(two_nodes, place_of_module):
    """Kill a station, then the worker of one, then freeze one while the other measures.

    Returns the folder, what stderr said, the shards that were there before, and the processes that had to end.
    """
    place = place_of_module
    command = (*plan(two_nodes.address), "-a", f"M=1..{PROBLEMS // 2}", "--rounds", ROUNDS, *LIMITS)
    program = (sys.executable, str(IMPATIENT))
    with started(place, command, two_nodes.environment, program) as process:
        wait_for_problems(place, 2, process)
        station = at_work(two_nodes, "stations")
        victims = {station: birth(station)} | children(station)
        os.kill(station, signal.SIGKILL)
        shards = problems_at_home(place)
        wait_for_problems(place, len(shards) + 2, process)
        os.kill(at_work(two_nodes, "measuring"), signal.SIGKILL)
        wait_for_problems(place, len(shards) + 4, process)
        both = lambda: all(node.rows_underway() > 0 for node in two_nodes.nodes)  # noqa: E731
        wait_until(both, process, "a row of either node")
        station = at_work(two_nodes, "stations")
        victims |= {station: birth(station)} | children(station)
        os.kill(station, signal.SIGSTOP)
        (place / "frozen").touch()
        code, errors = ended(process)
    assert code == 0, errors
    return place, errors, shards, victims


@pytest.fixture(scope="module")
def place_of_module(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("hurt"))


def test_a_killed_station_costs_the_problem_it_was_at(hurt):
    place, errors, shards, _ = hurt
    (line,) = [line for line in errors.splitlines() if "is lost: its process died; " in line]
    assert line.endswith(" is measured again")
    assert_kept(place, shards)


def test_a_killed_worker_costs_its_unit_as_in_a_run_of_one_device(hurt):
    place, *_ = hurt
    crashed = [row for row in read(place) if row["verdict"] == "crashed"]
    assert len(crashed) <= 1  # none if it was killed between two units
    assert all(row["reason"].endswith("worker killed by SIGKILL") for row in crashed)


def test_a_frozen_station_is_given_up_and_its_problem_measured_again(hurt):
    """SIGSTOP: the process is there, and says nothing ever again."""
    _, errors, _, victims = hurt
    (line,) = [line for line in errors.splitlines() if "is lost: did not respond for 13 s; " in line]
    assert line.endswith(" is measured again")
    assert_gone(victims, seconds=30)


def test_no_unit_is_missing_torn_or_there_twice(hurt):
    place, *_ = hurt
    rounds = {}
    for row in read(place):
        rounds.setdefault((row["layer"], row["M"], row["verdict"]), []).append(row["round"])
    failed = {key[:2] for key in rounds if key[2] != "passed"}
    passed = {key[:2]: found for key, found in rounds.items() if key[2] == "passed" and key[:2] not in failed}
    assert len(passed) + len(failed) == PROBLEMS
    assert all(sorted(found) == ["0", "1", "2", "3"] for found in passed.values())
    rooflens(place, "validate", "out", "--strict")


@pytest.mark.slow
def test_a_sweep_that_is_killed_interrupted_and_out_of_time_goes_on_with_resume(two_nodes, place):
    problems, rounds = 6, 24  # long ones: what is asked for reaches a station within two seconds
    command = (*plan(two_nodes.address), "-a", "M=1..3", "--rounds", rounds)
    environment = two_nodes.environment
    with started(place, command, environment) as process:
        wait_for_problems(place, 1, process)
        process.kill()
        ended(process)
    killed = problems_at_home(place)

    with started(place, [*command, "--resume"], environment) as process:
        wait_for_problems(place, len(killed) + 1, process)
        underway = lambda: any(1 <= node.rows_underway() < 5 for node in two_nodes.nodes)  # noqa: E731
        wait_until(underway, process, "a problem that is measured in part")
        process.send_signal(signal.SIGINT)
        code, errors = ended(process)
    assert code == 130, errors
    assert errors.splitlines()[-1].startswith("rooflens: error: interrupted; ")
    assert "--resume" in errors.splitlines()[-1]
    assert_kept(place, killed)
    interrupted = problems_at_home(place)
    assert len(whole(interrupted, rounds)) < len(interrupted)

    done = fresh(place, *command, "--resume", "--max-time", "4s", env=environment)
    assert "--resume" in done.stderr
    assert_kept(place, whole(interrupted, rounds))
    out_of_time = problems_at_home(place)

    fresh(place, "run", "-o", "out", "--resume", "--address", two_nodes.address, env=environment)
    assert_kept(place, whole(out_of_time, rounds))
    check_whole(place, cells=problems, rounds=rounds)


def test_a_token_that_is_missing_is_named(without_token, two_nodes):
    code, errors = ended(without_token)
    assert code == 1
    assert errors.startswith(f"rooflens: error: the Ray cluster at {two_nodes.address} requires its token: ")
    assert errors.count("\n") == 1, errors
