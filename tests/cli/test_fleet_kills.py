"""kill -9, Ctrl-C and a frozen station in sweeps over two nodes: what is finished stays, the rest is done once."""

import os
import signal
import sys
import time

from .fleet_runs import SLOW_UNITS, cells_of, ended, fleet_args, problems_at_home, started, wait_for_problems
from .tiny_runs import assert_gone, birth, check_whole, children, read, rooflens

PROBLEMS = 32


def plan(address):
    return (*fleet_args(address, "dequant_blas", file=None), *SLOW_UNITS, "--threads", "1")


def at_work(nodes, kind):
    """Return the node and the pid of a process of its station, once there is one that measures."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for node in nodes.nodes:
            if node.processes("ray::RayStation.measure") and (pids := getattr(node, kind)()):
                return node, pids[0]
    raise AssertionError("no station measures")


def assert_kept(place, shards):
    """What was at home is there still, byte for byte, and its rows are in the table; the numbers of processes aside."""
    now = problems_at_home(place)
    units = {(row["cell_id"], row["round"]): row for row in read(place)}
    for name, parcel in shards.items():
        assert now[name] == parcel
        for row in cells_of(parcel):
            assert units[row["cell_id"], row["round"]] | {"process": ""} == row | {"process": ""}


def test_killed_stations_cost_nothing_and_a_killed_worker_its_unit(two_nodes, place):
    with started(place, plan(two_nodes.address), two_nodes.environment) as process:
        wait_for_problems(place, 2, process)
        _, station = at_work(two_nodes, "stations")
        offspring = children(station)
        os.kill(station, signal.SIGKILL)
        shards = problems_at_home(place)
        wait_for_problems(place, len(shards) + 2, process)
        _, worker = at_work(two_nodes, "measuring")
        os.kill(worker, signal.SIGKILL)
        code, errors = ended(process)
    assert code == 0, errors
    assert errors.count("is lost: its process died; ") == 1
    assert " is measured again" in errors
    assert_kept(place, shards)
    assert_gone(offspring)
    crashed = [row for row in read(place) if row["verdict"] == "crashed"]
    assert len(crashed) <= 1
    assert all(row["reason"].endswith("worker killed by SIGKILL") for row in crashed)
    whole = {(row["layer"], row["M"]) for row in read(place)} - {(row["layer"], row["M"]) for row in crashed}
    assert len(whole) == PROBLEMS - len(crashed)
    rounds = {}
    for row in read(place):
        if (row["layer"], row["M"]) in whole:
            rounds.setdefault((row["layer"], row["M"]), []).append(row["round"])
    assert all(sorted(found) == ["0", "1"] for found in rounds.values())
    done = rooflens(place, "validate", "out", "--strict")
    assert done.returncode == (4 if crashed else 0), done.stderr


def test_a_sweep_that_is_killed_interrupted_and_out_of_time_goes_on_with_resume(two_nodes, place):
    command, environment = (*plan(two_nodes.address), "--budget", "120ms"), two_nodes.environment
    with started(place, command, environment) as process:
        wait_for_problems(place, 4, process)
        process.kill()
        ended(process)
    killed = problems_at_home(place)
    with started(place, [*command, "--resume"], environment) as process:
        wait_for_problems(place, len(killed) + 4, process)
        process.send_signal(signal.SIGINT)
        code, errors = ended(process)
    assert code == 130, errors
    assert "go on with" in errors
    assert errors.splitlines()[-1].startswith("rooflens: error: interrupted; ")
    assert_kept(place, killed)
    interrupted = problems_at_home(place)
    whole = {name for name, parcel in interrupted.items() if len(cells_of(parcel)) == 2}
    done = rooflens(place, *command, "--resume", "--max-time", "5s", env=environment)
    assert done.returncode == 0, done.stderr
    assert "--resume" in done.stderr
    assert_kept(place, {name: interrupted[name] for name in whole})
    out_of_time = problems_at_home(place)
    assert len(interrupted) <= len(out_of_time) < PROBLEMS
    done = rooflens(place, "fleet", "run", "-o", "out", "--resume", "--address", two_nodes.address, env=environment)
    assert done.returncode == 0, done.stderr
    assert_kept(place, {name: out_of_time[name] for name in out_of_time if len(cells_of(out_of_time[name])) == 2})
    check_whole(place, cells=PROBLEMS)


IMPATIENT = """
import sys
from rooflens.harness.fleet import fleet
fleet.GRACE_S = 3.0
from rooflens.cli.main import main
sys.exit(main())
"""


def test_a_frozen_station_is_given_up_and_its_problem_measured_again(two_nodes, place):
    """SIGSTOP: the process is there, and says nothing ever again."""
    command = (*plan(two_nodes.address), "--timeout", "1s")
    (place / "impatient.py").write_text(IMPATIENT)
    with started(place, command, two_nodes.environment, program=(sys.executable, "impatient.py")) as process:
        wait_for_problems(place, 2, process)
        _, station = at_work(two_nodes, "stations")
        frozen = {station: birth(station)} | children(station)
        os.kill(station, signal.SIGSTOP)
        code, errors = ended(process)
    assert code == 0, errors
    assert errors.count("is lost: gave no sign for 4 s; ") == 1
    assert_gone(frozen)
    check_whole(place, cells=PROBLEMS)
