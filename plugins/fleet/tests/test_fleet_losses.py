"""A whole node and a head that are lost in the middle of a sweep, and a node that joins with other code."""

import re
import shutil
import time

import pytest

from tests.cli.tiny_runs import FAULTY, check_whole, fresh, read, rooflens, wait_until, write_suite

from .fleet_runs import (
    SLOW_UNITS,
    arch_of,
    assert_kept,
    ended,
    fleet_args,
    planted,
    problems,
    started,
    wait_for_problems,
)
from .ray_nodes import cluster

pytestmark = [pytest.mark.ray, pytest.mark.exclusive, pytest.mark.slow]

PROBLEMS = 32


def plan(address, machine, file=None):
    arguments = fleet_args(address, "right" if file else "dequant_blas", file=file, on=(arch_of(machine),))
    return (*arguments, *SLOW_UNITS, "--set", "threads=1", "--wait", "2s")


@pytest.fixture(scope="module")
def another():
    """Return a cluster that was started after the other one: another head at another port."""
    with cluster(nodes=0) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def left(two_nodes, tmp_path_factory):
    """Measure on two nodes; kill one, let a third join with other code, kill the second as well.

    Returns the folder, the problems that were stored at the end, the exit code and what stderr said.
    """
    place = write_suite(tmp_path_factory.mktemp("left"))
    file = place / "kernels.py"
    shutil.copy(FAULTY, file)
    offer, what = {arch_of("aarch64"): 1}, planted("aarch64", cores=2)
    command = (*plan(two_nodes.address, "aarch64", file), "--set", "budget_s=500ms")
    with (
        two_nodes.added(offer, **what) as one,
        two_nodes.added(offer, **what) as other,
        started(place, command, two_nodes.environment) as process,
    ):
        wait_for_problems(place, 2, process)
        wait_until(lambda: len({row["process"] for row in read(place)}) == 2, process, "both nodes at work")
        file.write_text(file.read_text() + "\nEDITED = True\n")
        one.lose()
        with two_nodes.added(offer, **what):
            log = place / "out" / "events.log"
            wait_until(lambda: log.exists() and "of provider right was" in log.read_text(), process, "the refusal")
            other.lose()
            code, errors = ended(process)
    shutil.copy(FAULTY, file)
    return place, problems(place), code, errors


def test_a_lost_node_costs_the_problem_it_was_at(left):
    *_, errors = left
    lost = [line for line in errors.splitlines() if "is lost" in line]
    assert len(lost) == 2
    assert all("is lost: its node does not answer; M=" in line and line.endswith(" is measured again") for line in lost)


def test_a_node_with_other_code_of_a_provider_takes_no_part(left):
    *_, errors = left
    (line,) = [line for line in errors.splitlines() if "is excluded: " in line]
    assert "source of provider right was" in line


def test_without_a_device_that_is_left_the_sweep_ends_incomplete(left):
    _, stored, code, errors = left
    assert code == 4, errors
    last = errors.splitlines()[-1]
    assert last.startswith(f"rooflens: error: no {arch_of('aarch64')} is left for ")
    assert "--resume" in last
    assert 2 <= len(stored) < PROBLEMS


def test_another_cluster_goes_on_with_what_is_stored(left, another):
    place, stored, _, _ = left
    offer = {arch_of("aarch64"): 2}
    with another.added(offer, **planted("aarch64", cores=2)):
        resume = ["run", "-o", "out", "--resume", "--on", arch_of("aarch64"), "--address", another.address]
        done = fresh(place, *resume, env=another.environment)
    assert "units are stored already" in done.stderr
    check_whole(place, cells=PROBLEMS)
    assert_kept(place, stored)


def test_a_head_that_is_gone_is_told_in_one_line(another, place):
    """The last test of this cluster. Ray itself would end the command, silently, by either variable."""
    command = (*fleet_args(another.address, "dequant_blas", file=None), *SLOW_UNITS, "--set", "budget_s=500ms")
    impatient = {"RAY_gcs_rpc_server_reconnect_timeout_s": "1", "RAY_RAYLET_PID": str(2**22)}  # which no process has
    with another.added(), started(place, command, another.environment | impatient) as process:
        wait_for_problems(place, 1, process)
        another.head.lose("gcs_server")
        began = time.monotonic()
        code, errors = ended(process)
    assert time.monotonic() - began < 30
    assert code == 1, errors
    *progress, line = errors.splitlines()  # the sweep may have lasted long enough for a line of its progress
    assert all(re.match(r"\d+ of \d+ units", text) for text in progress), errors
    assert line.startswith("rooflens: error: the head of the Ray cluster (127.0.0.1:")
    assert "--resume" in line
    rooflens(place, "validate", "out")
