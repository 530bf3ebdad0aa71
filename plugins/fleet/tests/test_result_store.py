"""Parcels become shards and one run: nothing lost, doubled or mixed, whatever came before."""

import dataclasses
import json
import zipfile

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.harness.plan.plan import Task
from rooflens.harness.storage.merge import merge
from rooflens.harness.storage.shards import opened
from rooflens.plugins.fleet.engine.protocol import ResultArchive
from rooflens.plugins.fleet.engine.result_store import ResultStore
from rooflens.shapes.errors import RooflensError, UsageError

from tests.harness.sharded import read_rows

from .fabricated import archive, quick_jobs, record, run_manifest, slot

JOBS = quick_jobs()
"""4 jobs of 2 cells in 2 rounds."""


@pytest.fixture
def store(tmp_path):
    """Return `landing(jobs)`: begin a run, or go on with it."""
    opened = []

    def call(jobs=JOBS):
        opened.append(ResultStore(tmp_path / "run", run_manifest(), jobs))
        return opened[-1]

    yield call
    for one in opened:
        try:
            one.release()
        except OSError:
            continue


def rows(folder, table="cells.csv"):
    return read_rows(folder / table)


def units(folder):
    return sorted((row["provider"], row["M"], row["N"], row["K"], row["round"]) for row in rows(folder))


def planned(jobs=JOBS):
    return sorted(
        (cell.provider, str(cell.problem.M), str(cell.problem.N), str(cell.problem.K), str(number))
        for job in jobs
        for cell in job.task.cells
        for number in range(job.rounds)
    )


def test_the_run_can_be_read_after_every_parcel(store):
    run = store()
    run.add_result(record("open", slot(0)))
    for count, job in enumerate(JOBS, start=1):
        run.add_result(archive(job, slot(0)))
        run.write_manifest()
        loaded = load_run(run.folder)
        assert len(loaded.cells) == 4 * count
        assert loaded.missing_units == 4 * (len(JOBS) - count)
    run.close()
    assert units(run.folder) == planned()
    assert len(rows(run.folder, "samples.csv")) == 3 * len(planned())


def test_it_equals_what_rooflens_merge_makes_of_the_shards(store, tmp_path):
    run = store()
    for index, job in enumerate(JOBS):
        run.add_result(archive(job, slot(index % 2), name=f"station{index % 2}"))
    run.close()
    folders = []
    for path in sorted((run.folder / "shards").iterdir()):
        folders.append(tmp_path / path.stem)
        with zipfile.ZipFile(path) as packed:
            packed.extractall(folders[-1])
    with opened(folders) as shards:
        merge(shards, tmp_path / "merged", ["rooflens", "merge"])

    def content(folder, table):
        return sorted(tuple(v for k, v in row.items() if k != "process") for row in rows(folder, table))

    for table in ("cells.csv", "samples.csv", "ceilings.csv"):
        assert content(run.folder, table) == content(tmp_path / "merged", table)


def test_torn_tables_are_made_anew_from_the_shards(store):
    run = store()
    for job in JOBS[:3]:
        run.add_result(archive(job, slot(0)))
    run.release()  # killed: nothing is closed
    before = {name: sorted((run.folder / name).read_text().splitlines()) for name in ("cells.csv", "samples.csv")}
    for name in ("cells.csv", "samples.csv"):
        content = (run.folder / name).read_bytes()
        (run.folder / name).write_bytes(content[: len(content) // 2])
    (run.folder / "shards" / ".M1.zip.partial").write_bytes(b"torn")
    again = store()
    assert [job.key for job in again.open_jobs()] == [JOBS[3].key]
    assert {name: sorted((run.folder / name).read_text().splitlines()) for name in before} == before


def test_a_part_waits_for_its_device_and_is_read_when_the_sweep_ends(store):
    run = store()
    part = archive(JOBS[0], slot(1), keep=lambda cell, number: number == 0)
    run.add_result(part)
    assert run.begun == {JOBS[0].key: "one-1"}
    assert run.earlier(JOBS[0]) == part.content
    assert units(run.folder) == []
    run.close()
    assert len(units(run.folder)) == 2
    again = store()
    assert again.begun == {JOBS[0].key: "one-1"}
    assert JOBS[0] in again.open_jobs()
    again.add_result(archive(JOBS[0], slot(0), name="other"))
    again.close()
    assert units(run.folder) == planned(JOBS[:1])


def test_a_retry_replaces_a_shard_only_by_a_complete_one(store):
    def failed(verdict):
        return archive(JOBS[0], slot(0), verdict_of=lambda cell: cell.provider == "blas" and (verdict, "hung"))

    run = store()
    run.add_result(failed("timeout"))
    run.add_result(archive(JOBS[1], slot(0), verdict_of=lambda cell: ("oom", "")))
    for end in (ResultStore.release, ResultStore.close):
        end(run)
        run = store()
        assert run.done.keys() == {JOBS[0].key, JOBS[1].key}
        assert run.failed(["crashed"]) == {}
        run.retry(["timeout", "crashed"])
        assert run.begun == {JOBS[0].key: "one-0"}
        run.add_result(archive(JOBS[0], slot(1), keep=lambda cell, number: number == 0))
        assert run.begun == {JOBS[0].key: "one-0"}, "a part has less than what is stored"
    run.add_result(failed("crashed"))
    assert run.done.keys() == {JOBS[0].key, JOBS[1].key}, "a second failure is final again"
    run.close()
    assert len(units(run.folder)) == 3 + 2
    events = [line.split(" ", 1)[1] for line in (run.folder / "events.log").read_text().splitlines()]
    assert len(events) == 2
    assert events[0].startswith("retry round 0 of ")
    assert events[0].endswith(" blas cold: timeout: hung")


def test_a_retry_leaves_alone_what_is_not_planned(store):
    run = store()
    run.add_result(archive(JOBS[0], slot(0), verdict_of=lambda cell: ("timeout", "hung")))
    run.close()
    fewer = [dataclasses.replace(job, task=Task(job.task.cells[:1])) for job in JOBS]
    again = store(fewer)
    assert again.done.keys() == {JOBS[0].key}
    assert again.failed(["timeout"]) == {}


def test_more_rounds_open_finished_jobs_again(store):
    run = store()
    run.add_result(archive(JOBS[0], slot(0)))
    run.close()
    more = store(quick_jobs(rounds=3))
    assert JOBS[0].key in more.begun
    assert units(run.folder) == []


def test_processes_of_all_stations_are_told_apart(store):
    run = store()
    run.add_result(record("open", slot(0), name="a"))
    run.add_result(record("open", slot(1), name="b"))
    run.add_result(archive(JOBS[0], slot(0), name="a"))
    run.add_result(archive(JOBS[1], slot(0), name="a", process=1))
    run.add_result(archive(JOBS[2], slot(1), name="b"))
    run.add_result(archive(JOBS[3], slot(0), name="later"))  # another station on the first device
    run.close()
    manifest = json.loads((run.folder / "run.json").read_text())
    processes = {device["uuid"]: device["processes"] for device in manifest["devices"]}
    assert [device["stations"] for device in manifest["devices"]] == [2, 1]
    assert {uuid: len(numbers) for uuid, numbers in processes.items()} == {"one-0": 3, "one-1": 1}
    assert sorted(number for numbers in processes.values() for number in numbers) == [0, 1, 2, 3]
    third = str(JOBS[2].task.problem.N)
    at = {int(row["process"]) for row in rows(run.folder) if (row["M"], row["N"]) == ("1", third)}
    assert at == set(processes["one-1"])
    assert manifest["processes"] == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environment": {"torch": "2.11.0"}}, "torch is 2.13.0"),
        ({"cold_by": "rotation"}, "cold_by"),
        ({"timer": "graph"}, "timer"),
        ({"providers": {"blas": {"role": "candidate", "source": "other", "file": "x"}}}, "provider blas is other code"),
    ],
)
def test_what_is_not_of_this_run_is_refused_and_leaves_no_trace(store, changes, words):
    run = store()
    run.add_result(archive(JOBS[0], slot(0)))
    with pytest.raises(UsageError, match=words):
        run.add_result(archive(JOBS[1], slot(0, host="two"), name="b", **changes))
    assert len(list((run.folder / "shards").iterdir())) == 1
    assert len(units(run.folder)) == 4


def test_cells_of_another_problem_are_refused(store):
    run = store()
    with pytest.raises(UsageError, match="another problem"):
        run.add_result(ResultArchive(JOBS[0].key, archive(JOBS[1], slot(0)).content))


def test_a_damaged_shard_is_named(store):
    run = store()
    run.add_result(archive(JOBS[0], slot(0)))
    run.close()
    path = run.folder / "shards" / f"{JOBS[0].key}.zip"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UsageError, match=r"M1-.*\.zip is damaged .*: delete it"):
        store()
    path.unlink()
    assert JOBS[0] in store().open_jobs()


@pytest.mark.parametrize("name", ["cells.csv", "telemetry.csv"])
def test_files_of_somebody_else_are_refused_and_stay(store, tmp_path, name):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text("precious\n")
    with pytest.raises(UsageError, match=f"{name} would be overwritten: move it away"):
        store()
    (tmp_path / "run" / name).rename(tmp_path / "run" / "events.log")
    store().event("begun")
    assert (tmp_path / "run" / "events.log").read_text().startswith("precious\n")


def test_only_one_sweep_writes_a_folder(store):
    store()
    with pytest.raises(UsageError, match="being written by another"):
        store()


def test_a_full_disk_keeps_what_came_before(store, monkeypatch):
    run = store()
    run.add_result(archive(JOBS[0], slot(0)))
    from rooflens.plugins.fleet.engine import result_store as module

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "replace", full)
    with pytest.raises(RooflensError, match="No space left on device"):
        run.add_result(archive(JOBS[1], slot(0)))
    monkeypatch.undo()
    run.release()
    again = store()
    assert again.done.keys() == {JOBS[0].key}


def test_a_smaller_part_does_not_replace_a_larger_one_and_nothing_is_no_part(store):
    run = store()
    run.add_result(archive(JOBS[0], slot(0), keep=lambda cell, number: False))
    assert run.begun == {}
    larger = archive(JOBS[0], slot(0), keep=lambda cell, number: cell.provider == "blas" or number == 0)
    run.add_result(larger)
    run.add_result(archive(JOBS[0], slot(1), keep=lambda cell, number: number == 0))
    assert run.begun == {JOBS[0].key: "one-0"}
    assert run.earlier(JOBS[0]) == larger.content
    run.close()
    assert len(units(run.folder)) == 3
