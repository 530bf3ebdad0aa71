"""A whole node, a head and a disk that are lost in the middle of a sweep, and a node that joins with other code."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.tiny_runs import FAULTY, check_whole, fresh, read, rooflens, wait_until, write_suite

from .fleet_runs import (
    SLOW_UNITS,
    arch_of,
    cells_of,
    ended,
    fleet_args,
    planted,
    problems_at_home,
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

    Returns the folder, the shards and the table that were there at the end, the exit code and what stderr said.
    """
    place = write_suite(tmp_path_factory.mktemp("left"))
    file = place / "kernels.py"
    shutil.copy(FAULTY, file)
    offer, what = {arch_of("aarch64"): 1}, planted("aarch64", cores=2)
    command = (*plan(two_nodes.address, "aarch64", file), "--set", "budget_s=250ms")
    with (
        two_nodes.added(offer, **what) as one,
        two_nodes.added(offer, **what) as other,
        started(place, command, two_nodes.environment) as process,
    ):
        wait_for_problems(place, 2, process)
        file.write_text(file.read_text() + "\nEDITED = True\n")
        one.lose_raylet()
        with two_nodes.added(offer, **what):
            wait_until(lambda: "is other code" in events(place), process, "the refusal")
            other.lose_raylet()
            code, errors = ended(process)
    shutil.copy(FAULTY, file)
    return place, problems_at_home(place), read(place), code, errors


def events(place):
    path = place / "out" / "events.log"
    return path.read_text() if path.exists() else ""


def test_a_lost_node_costs_the_problem_it_was_at(left):
    *_, errors = left
    lost = [line for line in errors.splitlines() if "is lost" in line]
    assert len(lost) == 2
    assert all("is lost: its node does not answer; M=" in line and line.endswith(" is measured again") for line in lost)


def test_a_node_with_other_code_of_a_provider_takes_no_part(left):
    *_, errors = left
    (line,) = [line for line in errors.splitlines() if "is excluded: " in line]
    assert "provider right is other code in" in line


def test_without_a_device_that_is_left_the_sweep_ends_incomplete(left):
    _, shards, _, code, errors = left
    assert code == 4, errors
    last = errors.splitlines()[-1]
    assert last.startswith(f"rooflens: error: no {arch_of('aarch64')} is left for {PROBLEMS - len(shards)} problems: ")
    assert "--resume" in last
    assert 2 <= len(shards) < PROBLEMS


def test_another_cluster_goes_on_with_what_is_stored(left, another):
    place, shards, table, _, _ = left
    offer = {arch_of("aarch64"): 2}
    with another.added(offer, **planted("aarch64", cores=2)):
        resume = ["run", "-o", "out", "--resume", "--on", arch_of("aarch64"), "--address", another.address]
        done = fresh(place, *resume, env=another.environment)
    assert f"{2 * len(shards)} of {2 * PROBLEMS} units are stored already" in done.stderr
    check_whole(place, cells=PROBLEMS)
    now = problems_at_home(place)
    assert {name: now[name] for name in shards} == shards
    rows = {(row["cell_id"], row["round"]): row | {"process": ""} for row in read(place)}
    assert all(rows[row["cell_id"], row["round"]] == row | {"process": ""} for row in table)


def test_a_head_that_is_gone_is_told_in_one_line(another, place):
    """The last test of this cluster."""
    command = (*fleet_args(another.address, "dequant_blas", file=None), *SLOW_UNITS, "--set", "budget_s=500ms")
    with another.added(), started(place, command, another.environment) as process:
        wait_for_problems(place, 1, process)
        another.head.signal(signal.SIGKILL, another.head.processes("gcs_server"))
        began = time.monotonic()
        code, errors = ended(process)
    assert time.monotonic() - began < 30
    assert code == 1, errors
    *progress, line = errors.splitlines()  # the sweep may have lasted long enough for a line of its progress
    assert all(re.match(r"\d+ of \d+ units", text) for text in progress), errors
    assert line.startswith("rooflens: error: the head of the Ray cluster (127.0.0.1:")
    assert "--resume" in line
    rooflens(place, "validate", "out")
    assert {len(cells_of(parcel)) for parcel in problems_at_home(place).values()} == {2}


@contextmanager
def small_disk(size):
    """Mount a file system of its own in memory."""
    folder = Path(tempfile.mkdtemp(prefix="rl-disk-", dir="/tmp"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "rooflens", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("mounting a small file system is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def test_a_full_disk_on_one_node_leaves_the_sweep_to_the_other(two_nodes, place):
    offer, what = {arch_of("s390x"): 1}, planted("s390x", cores=2)
    with (
        small_disk("8m") as disk,
        two_nodes.added(offer, **what),
        two_nodes.added(offer, **what, TMPDIR=str(disk)),
        started(place, plan(two_nodes.address, "s390x"), two_nodes.environment) as process,
    ):
        wait_until(lambda: any(disk.glob("rooflens-*/*/M*/cells.csv")), process, "a problem on the small disk")
        with suppress(OSError), (disk / "full").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        code, errors = ended(process)
    assert code == 0, errors
    (line,) = [line for line in errors.splitlines() if "is excluded: " in line]
    assert "No space left on device" in line
    check_whole(place, cells=PROBLEMS)
