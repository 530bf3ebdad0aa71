"""Workers in threads: what they answer, what stops them, and whose answers are heard."""

import os
import tempfile
import time
from dataclasses import dataclass
from threading import Barrier, Event
from unittest.mock import Mock

import pytest
from rooflens.harness.sweep.events import Doing, Finished
from rooflens.harness.worker.messages import Setup
from rooflens.plugins.fleet.engine import local_cluster
from rooflens.plugins.fleet.engine.cluster import Answered, Failed, Heartbeat
from rooflens.plugins.fleet.engine.local_cluster import LocalCluster
from rooflens.plugins.fleet.engine.protocol import Assignment, DeviceWorker, ResultArchive, WorkerSpec
from rooflens.shapes.errors import UsageError
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.run_folder.manifest import Manifest

STOPPED = Event()


class Scripted(DeviceWorker):
    """Does what its job says: a function of the worker."""

    def open(self):
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        return ResultArchive(self.name, f"{self.spec.setup.device} {cores}".encode())

    def measure(self, assignment):
        return ResultArchive(self.name, assignment.job(self))

    def close(self):
        return ResultArchive(self.name, b"")

    def end(self):
        STOPPED.set()


@dataclass(frozen=True)
class Spec(WorkerSpec):
    @property
    def worker(self):
        return Scripted


SPEC = Spec(Setup(device="auto", protocol=Protocol(), providers=(), files=()), Manifest())


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Two GPUs, by name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    STOPPED.clear()
    with LocalCluster({"sm90": ["cuda:0", "cuda:1"]}) as found:
        yield found
    assert not list(tmp_path.glob("*/*")), "its temporary files"


def opened(cluster, name="first", at=0):
    slot = cluster.slots()[at]
    cluster.start(slot, SPEC, name)
    (event,) = answers(cluster)
    assert event.archive.key == name
    assert event.archive.content.split()[0].decode() == f"cuda:{at}"
    return slot


def answers(cluster):
    until = time.monotonic() + 30
    while not (found := cluster.wait(0.1)):
        assert time.monotonic() < until
    return found


def job(cluster, slot, act):
    cluster.assign(slot, Assignment(act, b"", None))


def test_a_worker_is_told_its_device_and_counts_what_it_observes(cluster):
    first, second = opened(cluster), opened(cluster, "second", 1)
    assert cluster.offered() == {"sm90": 2}

    def act(worker):
        worker.observer(Doing("measure"))
        worker.observer(Finished(3))
        return b"done"

    job(cluster, second, act)
    assert answers(cluster) == [Answered(second, ResultArchive("second", b"done"))]
    assert cluster.heartbeats() == {first: Heartbeat("", 0, 1), second: Heartbeat("measure", 3, 4)}


def test_parts_of_a_cpu_have_cores_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.sched_getaffinity(0)
    parts = LocalCluster({"x86_64-avx2": ["cpu"] * 2})
    taken = []
    for slot in parts.slots():
        parts.start(slot, SPEC, "part")
        (event,) = answers(parts)
        taken.append(event.archive.content.decode().split()[1].split(","))
        parts.kill(slot)
    assert {len(cores) for cores in taken} == {len(before) // 2}
    assert not set(taken[0]) & set(taken[1])
    assert os.sched_getaffinity(0) == before


def test_errors_are_answers_with_a_reason(cluster):
    slot = opened(cluster)
    job(cluster, slot, Mock(side_effect=UsageError("another device")))
    assert answers(cluster) == [Failed(slot, "another device")]


def wait_for_stop(worker):
    while not worker.should_stop():
        time.sleep(0.01)
    return b"a part"


def test_the_last_words_of_a_killed_worker_are_not_those_of_the_next(cluster):
    slot = opened(cluster)
    job(cluster, slot, wait_for_stop)
    cluster.kill(slot)
    assert STOPPED.is_set(), "it has ended when the next may begin"
    assert opened(cluster, "second") == slot
    assert cluster.wait(0.05) == []


def test_all_workers_are_stopped_before_one_is_waited_for(cluster):
    both = Barrier(2, timeout=10)

    def stopped(worker):
        wait_for_stop(worker)
        both.wait()  # for the other one: neither ends alone
        return b""

    for at in range(2):
        job(cluster, opened(cluster, at=at), stopped)
    cluster.__exit__()
    assert not both.broken


def test_a_worker_that_cannot_begin_says_why(cluster, monkeypatch):
    slot = cluster.slots()[0]
    with monkeypatch.context() as broken:
        broken.setattr(local_cluster, "new_scratch", lambda name: 1 / 0)
        cluster.start(slot, SPEC, "first")
        assert answers(cluster) == [Failed(slot, "ZeroDivisionError: division by zero")]


def test_a_slot_whose_worker_does_not_end_is_not_used_again(cluster, monkeypatch):
    monkeypatch.setattr(local_cluster, "END_S", 0.05)
    slot, released = opened(cluster), Event()
    job(cluster, slot, lambda worker: released.wait())
    cluster.kill(slot)
    assert slot not in cluster.slots()
    released.set()
    cluster._ended[slot].join(30)
    assert slot in cluster.slots()
