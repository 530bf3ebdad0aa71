"""A station over scripted workers: what it sends home, in whole and in part, and what it leaves behind."""

import csv
import dataclasses
import io
import json

import pytest
from rooflens.harness.storage.worker_log import MOST_BYTES
from rooflens.harness.sweep import session as sessions
from rooflens.harness.worker.messages import Begin
from rooflens.plugins.fleet.engine.device_worker import SweepWorker
from rooflens.plugins.fleet.engine.protocol import Assignment, Slot
from rooflens.plugins.fleet.engine.result_archive import unpack
from rooflens.plugins.fleet.engine.result_store import ResultStore
from rooflens.shapes.errors import RooflensError, UsageError

from tests.harness.scripted_workers import DEVICE, DIED, Silent, Worker, Workers, passed

from .fabricated import quick_jobs, run_manifest, spec

JOBS = quick_jobs(shapes=1, sizes=(1, 8))
HERE = Slot("node", "vm", DEVICE.arch, 0, 1)


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """Return `station(workers, **)`: a station in `tmp_path`/scratch."""

    def call(workers=None, should_stop=lambda: False, slot=HERE, about=None, remarks=()):
        monkeypatch.setattr(sessions, "SupervisedWorker", workers or Workers())
        return SweepWorker(about or spec(), slot, "s1", tmp_path / "scratch", Silent(), should_stop, list(remarks))

    return call


def opened(call, workers=None, name="s1", **more):
    """Return an open station."""
    one = call(workers, **more)
    one.name = name
    one.open()
    return one


def rows(archive, table="cells.csv"):
    return list(csv.DictReader(io.StringIO(unpack(archive.content, archive.key)[table].decode())))


def manifest(archive):
    return json.loads(unpack(archive.content, archive.key)["run.json"])


def units(archive):
    return sorted((row["provider"], int(row["round"])) for row in rows(archive))


ALL = [("blas", 0), ("blas", 1), ("dequant_blas", 0), ("dequant_blas", 1)]


def test_each_job_comes_home_as_a_run_of_its_own(worker, tmp_path):
    one = worker(about=dataclasses.replace(spec(), cells=JOBS[0].task.cells), remarks=("Ray is nice",))
    opened = one.open()
    assert opened.key == "s1-open"
    assert rows(opened) == []
    assert manifest(opened)["station"]["remarks"][0] == "Ray is nice"
    archives = [one.measure(Assignment(job, b"", None)) for job in JOBS]
    closed = one.close()
    assert [archive.key for archive in archives] == [job.key for job in JOBS]
    assert [units(archive) for archive in archives] == [ALL, ALL]
    assert {row["M"] for row in rows(archives[1])} == {"8"}
    assert manifest(archives[0])["planned_units"] == 4
    assert manifest(archives[0])["station"] | {"elapsed_s": 0} == {
        "name": "s1",
        "host": "vm",
        "slot": 0,
        "elapsed_s": 0,
        "remarks": [],
    }
    assert len(rows(closed, "canary.csv")) == 1
    assert not (tmp_path / "scratch").exists()
    store = ResultStore(tmp_path / "run", run_manifest(), JOBS)
    for archive in (opened, *archives, closed):
        store.add_result(archive)
    store.close()
    assert not store.open_jobs()


def test_a_worker_that_dies_costs_its_unit_and_its_successor_has_the_next_number(worker):
    first = [Begin("measure", ((0, 0),)), passed(0, 0), Begin("measure", ((1, 0),)), DIED]
    one = opened(worker, Workers(first))
    archive = one.measure(Assignment(JOBS[0], b"", None))
    told = {(row["provider"], row["round"]): (row["verdict"], row["process"]) for row in rows(archive)}
    assert told == {
        ("blas", "0"): ("passed", "0"),
        ("blas", "1"): ("passed", "1"),
        ("dequant_blas", "0"): ("crashed", "0"),
    }
    assert any("worker restarted" in text for text in manifest(archive)["station"]["remarks"])
    assert {row["process"] for row in rows(one.measure(Assignment(JOBS[1], b"", None)))} == {"1"}


@pytest.mark.parametrize(("retry", "found"), [((), ALL[:3]), (("timeout",), ALL[:3]), (("crashed",), ALL)])
def test_a_failure_is_measured_again_where_that_is_asked_for(worker, retry, found):
    one = opened(worker, Workers([Begin("measure", ((0, 0),)), passed(0, 0), Begin("measure", ((1, 0),)), DIED]))
    earlier = one.measure(Assignment(JOBS[0], b"", None))
    again = opened(worker, about=dataclasses.replace(spec(), retry=retry))
    assert units(again.measure(Assignment(JOBS[0], earlier.content, None))) == found


def begun(index, number):
    return Begin("measure", ((index, number),)), passed(index, number)


class Slow(Worker):
    """Stops after the first round, as one that is asked to."""

    def receive(self, deadline):
        if not self.answers:
            raise sessions.OutOfTimeError
        return super().receive(deadline)


def interrupted(source):
    """Workers that end after the first round."""
    return lambda setup, *given: Slow(setup, [*begun(0, 0), *begun(1, 0)], source)


def test_a_part_comes_home_and_is_completed_where_it_was_begun(worker):
    one = opened(worker, interrupted("source"))
    part = one.measure(Assignment(JOBS[0], b"", 100.0))
    assert units(part) == [("blas", 0), ("dequant_blas", 0)]
    again = opened(worker)
    whole = again.measure(Assignment(JOBS[0], part.content, None))
    assert units(whole) == ALL
    assert manifest(whole)["station"]["elapsed_s"] >= manifest(part)["station"]["elapsed_s"]


def test_a_part_that_other_code_measured_is_not_mixed_with(worker):
    one = opened(worker, interrupted("old"))
    part = one.measure(Assignment(JOBS[0], b"", None))
    again = opened(worker, Workers(sources=["new"]))
    with pytest.raises(UsageError, match="source of provider blas was old and is new"):
        again.measure(Assignment(JOBS[0], part.content, None))


def test_a_device_of_another_architecture_is_refused(worker):
    with pytest.raises(RooflensError, match="its device is x86-64, not sm90"):
        worker(slot=dataclasses.replace(HERE, arch="sm90")).open()


def test_a_disk_that_is_full_is_said_with_its_folder(worker, tmp_path):
    (tmp_path / "scratch").write_text("in the way")
    with pytest.raises(RooflensError, match=r"cannot write to .*scratch"):
        worker().open()


def test_what_the_worker_prints_comes_home_once(worker, tmp_path):
    one = opened(worker)
    (tmp_path / "scratch" / "worker.log").write_text("first\n")
    first = one.measure(Assignment(JOBS[0], b"", None))
    with (tmp_path / "scratch" / "worker.log").open("a") as file:
        file.write("second\n")
    second = one.measure(Assignment(JOBS[1], b"", None))
    assert [unpack(archive.content, "x")["worker.log"] for archive in (first, second)] == [b"first\n", b"second\n"]


def test_a_flood_of_output_comes_home_with_the_results(worker, tmp_path):
    """Of one line, which shrinks more than a parcel may."""
    one = opened(worker)
    (tmp_path / "scratch" / "worker.log").write_bytes(b"flood\n" * 10_000_000)
    files = unpack(one.measure(Assignment(JOBS[0], b"", None)).content, "x")
    assert len(files["worker.log"]) < MOST_BYTES
    assert files["cells.csv"].count(b"passed") == 4
