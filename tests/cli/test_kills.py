"""kill -9 of the parent and of the worker, at random moments: what is finished stays, and the rest is done once."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from .tiny_runs import (
    assert_gone,
    check_whole,
    children,
    read,
    rooflens,
    run_args,
    start,
    unconverged,
    wait_for_rows,
    wait_until,
    whole_rows,
    workers,
    write_suite,
)

pytestmark = pytest.mark.exclusive

FEW, MANY = (2, 6), (10, 16)
"""Times that a parent is started, and sizes of M. In each life a worker is killed, then the parent: 4 kills, or 20."""

PLAN = (*run_args("dequant_blas", "blas", file=None), *unconverged("60ms"))
"""Four cells of each M in 2 rounds; units of some 60 ms."""

SHARED = ("make the operands of", "compute the reference of")
"""What a worker does for all cells of a problem at once."""


def committed(place):
    """What of the run is finished: the whole rows of cells.csv, and the samples of their units, as text."""
    rows = (place / "out" / "cells.csv").read_text().split("\n")[1:-1]
    units = {tuple(row.split(",", 2)[:2]) for row in rows}
    samples = (place / "out" / "samples.csv").read_text().split("\n")[1:-1]
    return rows, [sample for sample in samples if tuple(sample.split(",", 2)[:2]) in units]


class Killer:
    """Kills one sweep again and again, and holds after every kill that nothing finished has changed."""

    def __init__(self, place, sizes, seed):
        self.place = place
        self.sizes = sizes
        self.plan = (*PLAN, "-a", f"M=1..{sizes}")
        self.random = random.Random(seed)
        self.finished = ([], [])
        self.lives = 0

    def live(self):
        """Start or resume the run, kill its worker, then the run itself: while the next one starts, or measures."""
        process = start(self.place, *self.plan, *(["--resume"] if self.lives else []))
        moments = [self.after_a_row, self.while_a_unit_is_written]
        self.random.choice(moments)(process)
        crashes = self.crashed()
        (worker,) = workers(process.pid)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: self.crashed() > crashes or workers(process.pid) != [worker], process, "the restart")
        self.hold()
        moment = self.random.choice(moments) if self.lives % 2 else self.while_a_worker_starts
        moment(process)
        offspring = children(process.pid)
        assert offspring
        process.kill()
        process.communicate()
        self.lives += 1
        assert_gone(offspring)
        self.hold()

    def after_a_row(self, process):
        wait_for_rows(self.place, whole_rows(self.place) + self.random.randrange(1, 3), process)
        time.sleep(self.random.uniform(0, 0.08))

    def while_a_unit_is_written(self, process):
        """Samples are appended just before the row that commits them."""
        before = whole_rows(self.place, "samples.csv")
        wait_until(lambda: whole_rows(self.place, "samples.csv") > before, process, "a unit")

    def while_a_worker_starts(self, process):
        time.sleep(self.random.uniform(0, 1))

    def crashed(self):
        return sum(",crashed," in row for row in committed(self.place)[0]) if whole_rows(self.place) else 0

    def hold(self):
        """What was finished is still there, byte for byte; orphans of a killed run are cut when it goes on."""
        found = committed(self.place)
        for earlier, now in zip(self.finished, found, strict=True):
            assert now[: len(earlier)] == earlier
        self.finished = found


@pytest.fixture(scope="module", params=[FEW, pytest.param(MANY, marks=pytest.mark.slow)], ids=["few", "many"])
def survivor(request, tmp_path_factory):
    """Return a folder and its killer, after all kills and a last resume that completed the run."""
    place = write_suite(tmp_path_factory.mktemp("killed"))
    lives, sizes = request.param
    killer = Killer(place, sizes, seed=20)
    for _ in range(lives):
        killer.live()
    rooflens(place, *killer.plan, "--resume")
    killer.hold()
    assert not {row["reason"] for row in read(place) if row["verdict"] not in ("passed", "crashed")}
    return place, killer


def test_kills_lose_nothing_that_was_finished_and_repeat_nothing(survivor):
    place, killer = survivor
    crashed = {row["cell_id"] for row in read(place) if row["verdict"] == "crashed"}
    cells = {row["cell_id"] for row in read(place)}
    assert len(cells) == 4 * killer.sizes
    for cell in cells - crashed:
        assert sorted(row["round"] for row in read(place) if row["cell_id"] == cell) == ["0", "1"]
    for cell in crashed:  # a crash ends its cell; a round that it passed before is kept
        assert [row["verdict"] for row in read(place) if row["cell_id"] == cell] in (["crashed"], ["passed", "crashed"])
    passed = {(row["cell_id"], row["round"]) for row in read(place) if row["verdict"] == "passed"}
    samples = [(row["cell_id"], row["round"]) for row in read(place, "samples.csv")]
    assert set(samples) == passed
    assert len(samples) == sum(int(row["samples"]) for row in read(place) if row["samples"])


def test_a_killed_worker_costs_the_unit_in_flight_and_a_killed_parent_costs_none_its_verdict(survivor):
    place, killer = survivor
    blamed = {}
    for row in read(place):
        if row["verdict"] == "crashed":
            blamed.setdefault(row["process"], []).append(row)
    assert len(blamed) <= killer.lives
    assert blamed or killer.lives < MANY[0]  # of two kills, both may fall between two units
    for rows in blamed.values():
        phase, _, how = rows[0]["reason"].partition(": ")
        assert how == "worker killed by SIGKILL"
        # All cells of one problem are in flight while their operands or their reference are made.
        assert len(rows) == 1 or (phase in SHARED and len({(row["layer"], row["M"]) for row in rows}) == 1)


def test_every_worker_has_a_number_of_its_own(survivor):
    """A worker was started in every life, and another one after its kill if the life was long enough."""
    place, killer = survivor
    numbers = [int(row["process"]) for row in read(place)]
    assert numbers == sorted(numbers)
    assert killer.lives < len(set(numbers)) <= 2 * killer.lives + 1


def test_the_folder_of_a_killed_run_reads_as_any_other(survivor):
    place, _ = survivor
    rooflens(place, "validate", "out", "--strict")


SLOW_DISK = """
import os, time
sync = os.fsync
def fsync(handle):
    time.sleep(0.25)
    sync(handle)
os.fsync = fsync
"""


def begun(place):
    """Units that the provider `journal` began, by their activations, in order."""
    path = place / "journal.txt"
    return path.read_text().splitlines() if path.exists() else []


BEFORE_THE_FIRST = 1
"""Activations that are no unit: a worker checks its first one on those of a round that was never measured."""


@pytest.mark.slow
def test_a_slow_disk_does_not_let_the_worker_run_ahead_of_what_is_stored(place):
    (place / "sitecustomize.py").write_text(SLOW_DISK)
    arguments = (*run_args("journal"), "-a", "M=1", "--rounds", "12", "--filter", "layer == 'q'")
    process = start(place, *arguments, env=os.environ | {"PYTHONPATH": str(place)})
    wait_for_rows(place, 3, process)
    process.kill()
    process.communicate()
    lost = len(begun(place)) - BEFORE_THE_FIRST - whole_rows(place)
    assert 0 <= lost <= 1
    rooflens(place, *arguments, "--resume")
    check_whole(place, cells=1, rounds=12)
    assert len(begun(place)) == len(set(begun(place))) + lost


def resident_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


BIG = "model,layer,N,K\ntiny,q,48,128\nbig,w,8192,4096\n"
"""The second weight is 128 MiB in fp32; quantizing it takes a good part of a second."""


@pytest.mark.slow
def test_a_worker_killed_while_it_makes_operands_costs_one_unit_at_most(place):
    (place / "tiny.csv").write_text(BIG)
    process = start(place, *run_args("dequant_blas", "blas", file=None), "-a", "M=1")
    wait_for_rows(place, 4, process)
    (worker,) = workers(process.pid)
    before = resident_bytes(worker)
    wait_until(lambda: resident_bytes(worker) > before + (64 << 20), process, "the draw of the big weight")
    os.kill(worker, signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert sum(row["verdict"] == "crashed" for row in read(place)) <= 1
