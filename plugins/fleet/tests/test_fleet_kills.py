"""kill -9, Ctrl-C and a frozen actor in sweeps over two nodes: what is finished stays, the rest is done once."""

import json
import os
import signal
import sys
import time
from collections import Counter
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
    write_suite,
)

from .fleet_runs import assert_kept, ended, fleet_args, problems, started, wait_for_problems

pytestmark = [pytest.mark.ray, pytest.mark.exclusive, pytest.mark.slow]

PROBLEMS, ROUNDS = 40, 4


def plan(address):
    """Arguments of a sweep whose units take some 80 ms each."""
    return (*fleet_args(address, "dequant_blas", file=None), *unconverged("80ms"), "--set", "threads=1")


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
    """Kill an actor, then the worker of one, then freeze one while the other measures.

    Returns the folder, what stderr said, the problems that were stored before, and the processes that had to end.
    """
    place = place_of_module
    command = (*plan(two_nodes.address), "-a", f"M=1..{PROBLEMS // 2}", "--rounds", ROUNDS, *LIMITS)
    with started(place, command, two_nodes.environment, (sys.executable, str(IMPATIENT))) as process:
        wait_for_problems(place, 2, process, ROUNDS)
        actor = stopped(two_nodes, "actors", place, process)
        victims = {actor: birth(actor)} | children(actor)
        os.kill(actor, signal.SIGKILL)
        stored = problems(place, ROUNDS)
        os.kill(stopped(two_nodes, "measuring", place, process), signal.SIGKILL)
        actor = stopped(two_nodes, "actors", place, process)
        victims |= {actor: birth(actor)} | children(actor)
        code, errors = ended(process)
    assert code == 0, errors
    return place, errors, stored, victims


def stopped(nodes, kind, place, process):
    """Stop a process of a node that is certainly in the middle of a problem; return its pid."""
    wait_for_problems(place, len(problems(place, ROUNDS)) + 1, process, ROUNDS)
    before = len(read(place))
    while process.poll() is None:
        for pid in [pid for node in nodes.nodes for pid in getattr(node, kind)()]:
            os.kill(pid, signal.SIGSTOP)
            if is_amid(place, pid, before):
                return pid
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)
    raise AssertionError(process.communicate())


def is_amid(place, pid, before):
    """Whether the newest worker of a node has stored something after so many rows, in a problem that lacks two rounds.

    The next round may be on its way. A process of the node tells which of the two it is by its cores.
    """
    slot = int(min(os.sched_getaffinity(pid)) > min(os.sched_getaffinity(0)))
    devices = json.loads((place / "out" / "run.json").read_text())["devices"]
    newest = {str(device["processes"][-1]) for device in devices if device["slot"] == slot}
    rows = read(place)
    last = [row for row in rows[before:] if row["process"] in newest][-1:]
    stored = Counter((row["layer"], row["M"]) for row in rows)
    return any(row["verdict"] == "passed" and stored[row["layer"], row["M"]] <= ROUNDS - 2 for row in last)


@pytest.fixture(scope="module")
def place_of_module(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("hurt"))


def test_a_killed_actor_costs_the_problem_it_was_at(hurt):
    place, errors, stored, _ = hurt
    (line,) = [line for line in errors.splitlines() if "is lost: its process died; " in line]
    assert line.endswith(" is measured again")
    assert_kept(place, stored)


def test_a_killed_worker_costs_its_unit_as_in_a_run_of_one_device(hurt):
    place, *_ = hurt
    crashed = [row for row in read(place) if row["verdict"] == "crashed"]
    assert len(crashed) <= 1  # none if it was killed between two units
    assert all(row["reason"].endswith("worker killed by SIGKILL") for row in crashed)


def test_a_frozen_actor_is_given_up_and_its_problem_measured_again(hurt):
    """SIGSTOP: the process is there, and says nothing ever again."""
    _, errors, _, victims = hurt
    (line,) = [line for line in errors.splitlines() if "is lost: did not respond for " in line]
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


def test_a_sweep_that_is_killed_interrupted_and_out_of_time_goes_on_with_resume(two_nodes, place):
    count, rounds = 6, 24
    command = (*plan(two_nodes.address), "-a", "M=1..3", "--rounds", rounds)
    environment = two_nodes.environment
    with started(place, command, environment) as process:
        wait_for_problems(place, 1, process, rounds)
        process.kill()
        ended(process)
    killed = problems(place, rounds)

    with started(place, [*command, "--resume"], environment) as process:
        wait_for_problems(place, len(killed) + 1, process, rounds)
        process.send_signal(signal.SIGINT)
        code, errors = ended(process)
    assert code == 130, errors
    assert errors.splitlines()[-1].startswith("rooflens: error: interrupted; ")
    assert "--resume" in errors.splitlines()[-1]
    assert_kept(place, killed)
    interrupted = problems(place, rounds)

    done = fresh(place, *command, "--resume", "--max-time", "4s", env=environment)
    assert "--resume" in done.stderr
    assert_kept(place, interrupted)
    out_of_time = problems(place, rounds)

    fresh(place, "run", "-o", "out", "--resume", "--address", two_nodes.address, env=environment)
    assert_kept(place, out_of_time)
    check_whole(place, cells=count, rounds=rounds)


def test_a_token_that_is_missing_is_named(without_token, two_nodes):
    code, errors = ended(without_token)
    assert code == 1
    assert errors.startswith(f"rooflens: error: the Ray cluster at {two_nodes.address} requires its token: ")
    assert errors.count("\n") == 1, errors
