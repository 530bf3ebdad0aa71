"""Going on with a sweep, and what goes wrong in it: cases in which two things happen at once."""

import dataclasses
import io
import json
import os
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from rooflens.plugins.fleet.engine import result_store
from rooflens.plugins.fleet.engine.cluster import Answered
from rooflens.plugins.fleet.engine.inventory import take_cores
from rooflens.plugins.fleet.engine.protocol import Assignment
from rooflens.plugins.fleet.engine.result_archive import unpack
from rooflens.plugins.fleet.engine.result_store import ResultStore
from rooflens.shapes.errors import RooflensError, UsageError

from tests.harness.scripted_workers import Workers

from .fabricated import PROTOCOL, archive, quick_jobs, record, run_json, run_manifest, slot, spec
from .scripted_cluster import Failed, Lost, ScriptedCluster, answering
from .test_device_worker import interrupted, manifest, opened, rows, worker
from .test_fleet import JOBS, trial
from .test_result_store import planned
from .test_result_store import rows as stored_rows

__all__ = ["trial", "worker"]


@pytest.fixture
def store(tmp_path):
    """A run of JOBS without results."""
    run = ResultStore(tmp_path / "run", run_manifest(), JOBS)
    yield run
    run.close()


def test_a_part_that_is_completed_twice_has_three_processes(worker, tmp_path):
    """Each station keeps its own in the run, and the one that completes the part has it in another job as well."""
    job, other = [dataclasses.replace(job, rounds=3) for job in quick_jobs(shapes=1, sizes=(1, 8))]
    about = dataclasses.replace(spec().setup, protocol=dataclasses.replace(PROTOCOL, rounds=3))
    about = dataclasses.replace(spec(), setup=about)
    first = opened(worker, interrupted("source"), "s1").measure(Assignment(job, b"", 100.0))
    second = opened(worker, Workers(), "s2", about=spec()).measure(Assignment(job, first.content, None))
    last = opened(worker, Workers(), "s3", about=about)
    third, next_one = (last.measure(Assignment(*what, None)) for what in ((job, second.content), (other, b"")))
    assert {(row["round"], row["process"]) for row in rows(third)} == {("0", "0"), ("1", "1"), ("2", "2")}
    assert {row["process"] for row in rows(next_one)} == {"0"}
    assert manifest(third)["station"]["earlier"] == [{"name": "s1", "until": 1}, {"name": "s2", "until": 2}]
    assert manifest(third)["planned_units"] == 6
    run = ResultStore(tmp_path / "run", run_manifest(), [job, other])
    for one in (third, next_one):
        run.add_result(one)
    run.close()
    number = {(row["M"], row["round"]): row["process"] for row in stored_rows(run.folder)}
    assert len({number["1", str(round_)] for round_ in range(3)}) == 3
    assert number["1", "2"] == number["8", "0"] == number["8", "1"]
    said = json.loads((run.folder / "run.json").read_text())
    assert (said["processes"], [sorted(device["processes"]) for device in said["devices"]]) == (3, [[0, 1, 2]])


def test_a_completed_part_says_how_much_is_measured_by_now(worker):
    (job,) = quick_jobs(shapes=1, sizes=(1,))
    part = opened(worker, interrupted("source"), "s1").measure(Assignment(job, b"", 100.0))
    about = dataclasses.replace(
        spec(), manifest=run_manifest(rounds=4, protocol={**run_json()["protocol"], "rounds": 4})
    )
    whole = manifest(opened(worker, Workers(), "s2", about=about).measure(Assignment(job, part.content, None)))
    assert (whole["rounds"], whole["protocol"]["rounds"]) == (4, 4)


@pytest.mark.parametrize("changes", [{"timeout_s": 90.0}, {"budget_s": 9.0}, {"caches": ["cold"]}, {"timer": "event"}])
def test_how_much_is_measured_may_change(store, changes):
    store.add_result(archive(JOBS[0], slot(0)))
    store.add_result(archive(JOBS[1], slot(1), name="b", protocol={**run_json()["protocol"], **changes}))
    assert len(store.done) == 2


def test_patience_begins_anew_with_each_device_that_comes(trial):
    """None is there for 20 s, twice; the fleet waits for 30 s."""
    cluster = ScriptedCluster([], answering((Lost, "its node does not answer")), seconds=10.0)
    arrivals = {20: slot(0), 60: slot(0, "two")}

    def places():
        for at in [at for at in arrivals if at < cluster.now]:
            cluster.places.append(arrivals.pop(at))
            cluster.script = cluster.script if arrivals else lambda step, place, assignment: None
        return list(cluster.places)

    cluster.slots = places
    assert trial.run(cluster)
    assert trial.units() == planned(JOBS)


def test_nothing_more_is_asked_of_a_sweep_that_is_not_at_home(trial):
    """A station whose time is over sends a part home a little before the fleet's own time is over."""
    asked = []

    part = answering(lambda place: archive(JOBS[-1], place, "a", keep=lambda cell, number: number == 0), job=JOBS[-1])
    assert not trial.run(ScriptedCluster([slot(0)], part), more=lambda: asked.append(1) or ())
    assert asked == []
    assert trial.run(ScriptedCluster([slot(0)]), more=lambda: asked.append(1) or ())
    assert asked == [1]


@pytest.mark.parametrize("name", ["samples.csv", "other.csv"])
@pytest.mark.parametrize("lies", [False, True])
def test_a_parcel_that_unpacks_to_too_much_is_refused_before_it_is_read(name, lies):
    """512 MiB of zeros in 2 MB; the directory may say that it is 10 bytes. Of other files nothing is read at all."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(name, "w") as file,
    ):
        for _ in range(32):
            file.write(bytes(16 << 20))
    bomb = bytearray(buffer.getvalue())
    if lies:
        size = bomb.rindex(b"PK\1\2") + 24
        bomb[size : size + 4] = (10).to_bytes(4, "little")
    tracemalloc.start()
    try:
        if name == "samples.csv":
            with pytest.raises(UsageError, match=r"x\.zip (unpacks to more than|is damaged)"):
                unpack(bytes(bomb), "x.zip")
        else:
            assert unpack(bytes(bomb), "x.zip") == {}
        assert tracemalloc.get_traced_memory()[1] < (512 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_parcel_in_another_way_of_packing_is_not_unpacked(method):
    """Python unpacks these in one piece: a gigabyte from a kilobyte, whatever number of bytes is asked for."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("samples.csv", bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=r"x\.zip is damaged \(samples\.csv is neither stored nor deflated\)"):
            unpack(buffer.getvalue(), "x.zip")
        assert tracemalloc.get_traced_memory()[1] < (1 << 20)
    finally:
        tracemalloc.stop()


def test_more_slots_than_cores_is_said_with_the_way_out():
    with pytest.raises(RooflensError, match=r"cores for 1048576 slots: use at most \d+$"):
        take_cores(slot(0, count=1 << 20))


def test_a_shard_is_safe_before_it_has_its_name_and_its_samples_stand_before_its_rows(store, monkeypatch):
    log, append, fsync, replace = [], result_store._append, os.fsync, os.replace

    def synced(handle):
        log.append(("sync", Path(os.readlink(f"/proc/self/fd/{handle}")).name))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda old, new: (log.append(("name", Path(new).name)), replace(old, new)))
    monkeypatch.setattr(
        result_store, "_append", lambda path, text: (log.append(("rows", path.name)), append(path, text))
    )
    store.add_result(archive(JOBS[0], slot(0)))
    name = f"{JOBS[0].key}.zip"
    assert log[:5] == [
        ("sync", f".{name}.partial"),
        ("name", name),
        ("sync", "shards"),
        ("rows", "samples.csv"),
        ("rows", "cells.csv"),
    ]


def test_the_ceilings_are_the_best_of_all_devices(store):
    for index, best in ((1, 1), (3, 3), (2, 3)):
        store.add_result(record("open", slot(index), name=f"s{index}"))
        assert [float(row["value"]) for row in stored_rows(store.folder, "ceilings.csv")] == [1e12 + best]


def later(cluster, seconds, place, answer):
    """Let a station answer after so long, and not as the others do."""
    cluster._due.append((cluster.now + seconds, place, Answered(place, answer)))
    return "hang"


def test_who_is_free_may_be_silent_and_who_works_is_heard(trial):
    """One device takes 400 s over its job, longer than silence is suffered; the other has nothing to do meanwhile."""

    def script(step, place, assignment):
        busy = step == "measure" and place == slot(0)
        return later(cluster, 400.0, place, archive(assignment.job, place, cluster.names[place])) if busy else None

    def heartbeats():
        if slot(0) in cluster.alive:
            cluster.alive[slot(0)] = dataclasses.replace(cluster.alive[slot(0)], count=int(cluster.now * 100))
        return dict(cluster.alive)

    cluster = ScriptedCluster([slot(0), slot(1)], script)
    cluster.heartbeats = heartbeats
    assert trial.run(cluster, jobs=JOBS[:2])
    assert len(cluster.measured()) == 2
    assert not [text for text in trial.observer.remarks if "lost" in text]


def test_a_place_that_brings_something_home_between_two_losses_is_kept(trial):
    tries = []

    def script(step, place, assignment):
        if step == "measure":
            tries.append(assignment.job.key)
        return (Lost, "its process died") if step == "measure" and len(tries) in (1, 3) else None

    assert trial.run(ScriptedCluster([slot(0)], script), jobs=JOBS[:4])
    assert trial.units() == planned(JOBS[:4])


def test_a_job_that_devices_refuse_is_not_given_up(trial):
    refused = answering(lambda place: (Failed, "no space") if place.index < 4 else None)
    assert trial.run(ScriptedCluster([slot(index) for index in range(5)], refused), jobs=JOBS[:1])
    assert trial.unmeasured == ""


@pytest.fixture
def begun(trial):
    """Store a part of the first job, by slot 1; return the trial."""
    half = archive(JOBS[0], slot(1), keep=lambda cell, number: number == 0)
    run = ResultStore(trial.folder, run_manifest(), JOBS[:2])
    run.add_result(half)
    run.close()
    return trial


def test_a_part_waits_for_its_device_while_that_opens(begun):
    cluster = ScriptedCluster([slot(0), slot(1)])
    cluster.script = answering(lambda place: later(cluster, 20.0, place, record("open", place)), "open", slot(1))
    assert begun.run(cluster, jobs=JOBS[:2])
    assert cluster.measured() == [(slot(0), JOBS[1].key), (slot(1), JOBS[0].key)]


@pytest.mark.parametrize(("place", "is_handed"), [(slot(1), True), (slot(0), False), (slot(1, "two"), False)])
def test_a_part_is_handed_to_its_device_alone(begun, place, is_handed):
    earlier = []
    cluster = ScriptedCluster(
        [place], lambda step, where, assignment: earlier.append(assignment.earlier) if assignment else None
    )
    assert begun.run(cluster, jobs=JOBS[:1])
    assert [bool(part) for part in earlier] == [is_handed]


def test_a_device_is_waited_for_as_long_as_was_said_and_no_longer(trial):
    cluster = ScriptedCluster([])
    assert not trial.run(cluster)
    assert 30 <= cluster.now < 34


def test_what_two_stations_say_is_told_once(trial):
    nice = answering(lambda place: record("open", place, f"s{place.index}", remarks=("Ray is nice",)), step="open")
    assert trial.run(ScriptedCluster([slot(0), slot(1)], nice))
    assert [text.partition(": ")[2] for text in trial.observer.remarks] == ["Ray is nice"]


def test_slots_of_a_cpu_share_no_core(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(10, 19)))
    taken = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: taken.append(list(cores)))
    for index in range(4):
        take_cores(slot(index, count=4))
    assert taken == [[10, 11], [12, 13], [14, 15], [16, 17]]


def test_a_station_leaves_nothing_of_a_job_that_is_home(worker, tmp_path):
    (job,) = quick_jobs(shapes=1, sizes=(1,))
    one = opened(worker, Workers(), "s1")
    one.measure(Assignment(job, b"", None))
    assert not [path for path in (tmp_path / "scratch").iterdir() if path.is_dir()]


def test_the_name_of_a_shard_is_the_id_of_its_run(worker):
    """Without one it is no run, and rooflens merge takes none."""
    (job,) = quick_jobs(shapes=1, sizes=(1,))
    about = dataclasses.replace(spec(), manifest=run_manifest(id=None))
    one = worker(Workers(), about=about)
    opened = one.open()
    assert (opened.key, manifest(opened)["id"]) == ("s1-open", "s1-open")
    received = one.measure(Assignment(job, b"", None))
    assert manifest(received)["id"] == received.key == job.key
