"""Comparisons by a fleet over a scripted cluster: both arms of a problem are of one device, whatever is lost."""

import dataclasses
import json
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rooflens.analysis.frames.load import load_run
from rooflens.harness.compare.spec import CompareSpec, read_state
from rooflens.harness.worker.messages import Setup
from rooflens.plugins.fleet.engine.compare_store import CompareStore
from rooflens.plugins.fleet.engine.compare_worker import CompareWorkerSpec
from rooflens.plugins.fleet.engine.job_queue import JobQueue
from rooflens.plugins.fleet.engine.jobs import chunks_of, coordinates, jobs_of, rows_of
from rooflens.plugins.fleet.engine.protocol import ResultArchive
from rooflens.plugins.fleet.engine.result_archive import entries, pack
from rooflens.shapes.errors import Interrupted, RooflensError, UsageError
from rooflens.shapes.run_folder.retries import retries

from tests.harness.scripted_workers import Silent
from tests.harness.sharded import read_rows

from .fabricated import PROTOCOL, manifest, packed, quick_jobs, run_manifest, slot, tables, units
from .scripted_cluster import Failed, Lost, ScriptedCluster, answering
from .test_fleet import run_fleet
from .test_result_store import planned
from .test_result_store import units as stored_units

ROUNDS = PROTOCOL.rounds
PLAN = tuple(cell for job in quick_jobs(shapes=3, sizes=(1, 2, 4, 8)) for cell in job.task.cells)
ROWS = rows_of(PLAN)
"""12 problems of one cache state; providers are those of the arms."""

WHAT = CompareSpec(
    repository="/somewhere", commits={"base": "a" * 40, "head": "b" * 40}, suite="llm4bit-quick", files=("k.py",),
    rounds=ROUNDS, setup="", suite_hash="0", chunks=5,
)  # fmt: skip
ARMS = tuple(WHAT.commits)


def chunks(rounds=ROUNDS, arms=ARMS):
    return chunks_of(ROWS, WHAT.chunks, "llm4bit-quick", rounds, len(arms))


CHUNKS = chunks()


def chunk_parcel(chunk, place, name="a", finished=None, arms=ARMS, sources=None, elapsed_s=1.0, hung="", **changes):
    """What a station sends of a chunk: its cells in as many rounds of each arm as `finished` says, or all.

    The provider `hung` has timed out in head.
    """
    finished = finished or dict.fromkeys(arms, chunk.rounds)
    said = {
        **manifest(place, name, elapsed_s=elapsed_s)["station"],
        "session": f"{name} {chunk.key}",
        "rounds": min(finished.values()),
        "steps": sum(finished.values()),
    }
    files = {"station.json": json.dumps(said).encode(), "compare.log": f"printed by {name}\n".encode()}
    cells = [cell for cell in PLAN if chunk.holds(coordinates(cell))]
    for arm, count in finished.items():
        if count:
            source = (sources or {}).get(arm, arm)
            providers = {
                one: {"role": "candidate", "source": source, "file": f"/{place.host}/{arm}/k.py"}
                for one in {cell.provider for cell in cells}
            }
            told = manifest(place, name, **changes) | {
                "providers": providers, "station": said | {"finished": count}, "rounds": count,
                "planned_units": len(cells) * count, "challengers": ["mine"],
            }  # fmt: skip
            shard = packed(told, _tables(cells, count, source, hung if arm == "head" else ""))
            files |= {f"{arm}/{name}": text for name, text in entries(shard, arm).items()}
    return ResultArchive(chunk.key, pack(files))


def _tables(cells, rounds, source, hung):
    found = []
    for cell in cells:
        verdict = "timeout" if cell.provider == hung else "passed"
        for number in range(rounds if verdict == "passed" else 1):
            cell_id = f"{source}{PLAN.index(cell):06}"
            found.append(units(cell, cell_id, number, verdict, source=source, samples=1, process=number))
    return tables(found)


def record_parcel(kind, place, name="a", **changes):
    told = manifest(place, name, **changes) | {"providers": {}}
    return ResultArchive(f"{name}-{kind}", pack({"run.json": json.dumps(told).encode(), "compare.log": b"set up\n"}))


class Stations(ScriptedCluster):
    """Stations of a comparison."""

    def _usual(self, step, place, assignment):
        if step == "measure":
            return chunk_parcel(assignment.job, place, self.names[place], elapsed_s=self.seconds)
        return record_parcel(step, place, self.names[place])


def spec():
    return CompareWorkerSpec(Setup("cuda", PROTOCOL, (), ()), run_manifest(), WHAT, "place")


class Trial:
    """Fleets on one folder, one after the other."""

    def __init__(self, folder):
        self.folder = folder

    def arms(self, what=WHAT, chunks=CHUNKS):
        return CompareStore(self.folder, what, run_manifest(challengers=[], rounds=what.rounds), chunks)

    def run(self, cluster, stop=lambda: False, deadline=None, what=WHAT, chunks=CHUNKS, retry=()):
        arms = self.arms(what, chunks)
        arms.retry(retry)
        self.observer = Silent()
        queue = JobQueue("sm90", arms, spec(), job_noun="parts of the suite")
        complete, self.unmeasured = run_fleet(queue, cluster, self.observer, stop, deadline)
        return complete

    def rows(self, arm):
        return read_rows(self.folder / arm / "cells.csv")

    def units(self, arm):
        return stored_units(self.folder / arm)

    def device_by_problem(self, arm):
        """Which device measured each problem, by what run.json says of its worker processes."""
        devices = json.loads((self.folder / arm / "run.json").read_text())["devices"]
        whose = {number: device["uuid"] for device in devices for number in device["processes"]}
        found = {}
        for row in self.rows(arm):
            found.setdefault((row["M"], row["N"], row["K"]), set()).add(whose[int(row["process"])])
        return found

    def check_whole(self, rounds=ROUNDS):
        """All units of both arms are there once, and each problem is of one device, the same in both."""
        assert self.units("base") == self.units("head") == planned(jobs_of(PLAN, rounds))
        base, head = map(self.device_by_problem, ARMS)
        assert base == head
        assert all(len(devices) == 1 for devices in base.values())


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path / "both")


def test_every_chunk_is_measured_once_and_lands_in_both_arms(trial):
    cluster = Stations([slot(0), slot(1), slot(0, "two")])
    assert trial.run(cluster)
    trial.check_whole()
    assert Counter(key for _, key in cluster.measured()) == Counter(chunk.key for chunk in CHUNKS)
    assert len({device for found in trial.device_by_problem("base").values() for device in found}) == 3
    assert trial.observer.units == trial.observer.total == len(CHUNKS) * ROUNDS * 2
    state = read_state(trial.folder)
    assert sorted(map(tuple, state.done)) == [(number, arm) for number in range(ROUNDS) for arm in ARMS]
    assert state.chunks == WHAT.chunks
    for arm in ARMS:
        run = load_run(trial.folder / arm)
        assert run.missing_units == 0
        assert run.manifest.challengers == ["mine"]
        assert run.manifest.processes == len(CHUNKS) * ROUNDS, "every chunk has processes of its own"
        assert {info.source for info in run.manifest.providers.values()} == {arm}
    assert len(list((trial.folder / "shards").glob("chunk-*.zip"))) == len(CHUNKS)
    assert (trial.folder / "compare.log").read_text().count("-open\nset up\n") == 3


def test_a_part_is_handed_to_its_device_with_both_arms_and_measured_anew_by_another(trial):
    arms = trial.arms()
    for chunk, place in zip(CHUNKS, (slot(0), slot(1)), strict=False):
        arms.add_result(chunk_parcel(chunk, place, finished={"base": 1, "head": 1}))
    arms.close()
    assert {row["round"] for arm in ARMS for row in trial.rows(arm)} == {"0"}
    assert read_state(trial.folder).done == []
    assert load_run(trial.folder / "base").missing_units > 0
    earlier = {}

    def look(step, place, assignment):
        if step == "measure" and assignment.job in CHUNKS[:2]:
            earlier[assignment.job.key] = place, {*entries(assignment.earlier, "")} if assignment.earlier else set()

    assert trial.run(Stations([slot(0), slot(1, "new")], look))
    place, files = earlier[CHUNKS[0].key]
    assert (place, files >= {"base/cells.csv", "head/cells.csv"}) == (slot(0), True)
    assert earlier[CHUNKS[1].key][1] == set()
    trial.check_whole()


def test_at_a_stop_who_is_free_cleans_up(trial):
    """One chunk is stopped at while the other station waits for work that only the first one may have."""
    cluster = Stations([slot(0), slot(1)], answering("hang", place=slot(0)))
    with pytest.raises(Interrupted):
        trial.run(cluster, stop=lambda: len(cluster.measured()) == len(CHUNKS) and cluster.now > 20)
    closed = [place for step, place, _ in cluster.log if step == "close"]
    assert closed == [slot(1)]
    assert not cluster.alive


def test_a_part_with_one_arm_only_is_no_shard(trial):
    arms = trial.arms()
    content = arms.add_result(chunk_parcel(CHUNKS[0], slot(0), finished={"base": 1, "head": 0}))
    assert content.manifest.station.steps == 1
    assert arms.begun == {}
    assert arms.done == {}
    arms.close()
    assert not list(trial.folder.glob("shards/*"))


def test_more_rounds_are_added_by_the_devices_that_measured_the_first(trial):
    assert trial.run(Stations([slot(0), slot(1)]))
    more = dataclasses.replace(WHAT, rounds=ROUNDS + 1)
    cluster = Stations([slot(0), slot(1)])
    assert trial.run(cluster, what=more, chunks=chunks(rounds=ROUNDS + 1))
    assert len(cluster.measured()) == len(CHUNKS)
    trial.check_whole(ROUNDS + 1)


def test_a_retry_measures_the_chunk_again_in_both_arms(trial):
    hung = answering(lambda place: chunk_parcel(CHUNKS[1], place, cluster.names[place], hung="blas"), job=CHUNKS[1])
    cluster = Stations([slot(0)], hung)
    assert trial.run(cluster)
    arms = trial.arms()
    assert arms.retry(["oom"]) == 0
    arms.close()
    cluster = Stations([slot(0), slot(1)])
    assert trial.run(cluster, retry=["timeout"])
    assert cluster.measured() == [(slot(0), CHUNKS[1].key)]
    trial.check_whole()
    again = {arm: {(one.provider, one.verdict) for one in retries(trial.folder / arm)} for arm in ("base", "head")}
    assert again == {"base": set(), "head": {("blas", "timeout")}}  # it hung in head alone


def test_a_chunk_that_one_arm_refuses_is_stored_in_none(trial):
    arms = trial.arms()
    arms.add_result(chunk_parcel(CHUNKS[0], slot(0)))
    before = {arm: trial.units(arm) for arm in ARMS}
    with pytest.raises(UsageError, match=r"provider .* is other code"):
        arms.add_result(chunk_parcel(CHUNKS[1], slot(1), "b", sources={"head": "edited"}))
    assert {arm: trial.units(arm) for arm in ARMS} == before
    assert len(list(trial.folder.glob("shards/*"))) == 1
    arms.add_result(chunk_parcel(CHUNKS[1], slot(1), "c"))
    arms.close()


def test_a_station_of_other_software_takes_no_part_from_the_start(trial):
    told = {"environment": {"torch": "2.11.0"}}
    other = answering(lambda place: record_parcel("open", place, "b", **told), "open", slot(0, "two"))
    cluster = Stations([slot(0), slot(0, "two")], other)
    assert trial.run(cluster)
    assert {place.host for place, _ in cluster.measured()} == {"one"}
    assert any("torch is 2.13.0" in text for text in trial.observer.remarks)


def test_shards_of_another_division_go(trial):
    """A replay is of other cases when more rounds choose them."""
    assert trial.run(Stations([slot(0)]))
    other = chunks_of(ROWS, 3, "llm4bit-quick", ROUNDS, 2)
    assert trial.run(Stations([slot(0)]), chunks=other)
    trial.check_whole()


def test_only_one_writes_a_comparison(trial):
    arms = trial.arms()
    with pytest.raises(UsageError, match="being written by another"):
        trial.arms()
    arms.close()
    trial.arms().close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_under_any_faults_both_arms_of_a_problem_are_of_one_device(tmp_path_factory, data):
    trial = Trial(tmp_path_factory.mktemp("any") / "both")
    fates = st.sampled_from([None] * 8 + ["hang", (Lost, "its process died"), (Lost, "node"), (Failed, "disk")])
    places = [slot(index) for index in range(data.draw(st.integers(1, 4)))]
    with suppress(RooflensError):
        trial.run(Stations(places, lambda step, place, assignment: data.draw(fates)))
    base, head = map(trial.units, ARMS)
    assert base == head
    assert len(base) == len(set(base))
    if base:
        assert trial.device_by_problem("base") == trial.device_by_problem("head")
    assert trial.run(Stations([slot(9, "fresh")]))
    trial.check_whole()
