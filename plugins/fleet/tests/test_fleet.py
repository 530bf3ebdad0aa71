"""The fleet over a scripted cluster: whatever stations do, every unit comes home once, or is said to be left out."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rooflens.plugins.fleet.engine.fleet import MOST_FAULTS, Fleet
from rooflens.plugins.fleet.engine.job_queue import JobQueue
from rooflens.plugins.fleet.engine.jobs import jobs_of
from rooflens.plugins.fleet.engine.result_store import ResultStore
from rooflens.shapes.errors import Interrupted, RooflensError

from tests.harness.scripted_workers import Silent

from .fabricated import PROTOCOL, archive, quick_jobs, record, run_manifest, slot, spec
from .scripted_cluster import Failed, Lost, ScriptedCluster, answering
from .test_result_store import planned, units

JOBS = quick_jobs(shapes=3, sizes=(1, 2, 4, 8))
"""12 jobs of 2 cells in 2 rounds."""


def run_fleet(queue, cluster, observer, stop, deadline):
    """Run a fleet and close its store; return whether it is complete, and what it says of the rest."""
    fleet = Fleet(queue, cluster, observer, stop, deadline, patience_s=30.0, clock=cluster.clock)
    try:
        return fleet.run(), fleet.unmeasured()
    finally:
        queue.store.close()


class Trial:
    """Fleets in one folder, one after the other."""

    def __init__(self, folder):
        self.folder = folder
        self.observer = Silent()

    def run(self, cluster, jobs=JOBS, stop=lambda: False, deadline=None, more=None, limit=None):
        more_jobs = more and (lambda: jobs_of(more(), PROTOCOL.rounds))
        queue = JobQueue("sm90", ResultStore(self.folder, run_manifest(), jobs), spec(), limit, more_jobs)
        self.observer = Silent()
        complete, self.unmeasured = run_fleet(queue, cluster, self.observer, stop, deadline)
        return complete

    def units(self):
        return units(self.folder)


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path)


def test_every_job_is_measured_once_by_whoever_is_free(trial):
    cluster = ScriptedCluster([slot(0), slot(1), slot(0, "two")])
    assert trial.run(cluster)
    assert trial.units() == planned(JOBS)
    assert Counter(key for _, key in cluster.measured()) == Counter(job.key for job in JOBS)
    assert len({place for place, _ in cluster.measured()}) == 3
    assert trial.observer.units == trial.observer.total == len(planned(JOBS))
    assert not cluster.alive
    assert [step for step, _, _ in cluster.log].count("close") == 3


def test_no_more_stations_than_jobs_or_than_asked_for(trial):
    many = [slot(index, count=50) for index in range(50)]
    cluster = ScriptedCluster(many)
    assert trial.run(cluster)
    assert len(cluster.names) == len(JOBS)
    cluster = ScriptedCluster(many)
    assert Trial(trial.folder / "limited").run(cluster, limit=2)
    assert len(cluster.names) == 2


def test_a_station_that_gives_no_sign_is_given_up(trial):
    cluster = ScriptedCluster([slot(0), slot(1)], answering("hang", place=slot(0)))
    assert trial.run(cluster)
    assert trial.units() == planned(JOBS)
    assert any("did not respond for 150 s" in text for text in trial.observer.remarks)


def test_a_place_that_loses_one_station_after_the_other_is_left_alone(trial):
    cluster = ScriptedCluster([slot(0), slot(1)], answering((Lost, "its process died"), place=slot(0)))
    assert trial.run(cluster)
    assert trial.units() == planned(JOBS)
    assert sum(place == slot(0) for place, _ in cluster.measured()) == MOST_FAULTS
    assert any("is excluded: 2 workers in a row were lost there" in text for text in trial.observer.remarks)


def test_a_job_that_ends_every_station_is_left_out_and_all_others_are_measured(trial):
    bad = JOBS[4]
    cluster = ScriptedCluster([slot(index) for index in range(4)], answering((Lost, "its process died"), job=bad))
    assert not trial.run(cluster)
    assert trial.units() == planned([job for job in JOBS if job is not bad])
    assert "1 problems crashed every sm90" in trial.unmeasured
    assert str(bad.task.problem) in trial.unmeasured
    assert trial.run(ScriptedCluster([slot(0)]))
    assert trial.units() == planned(JOBS)


def test_a_full_disk_or_a_missing_provider_takes_only_that_place_out(trial):
    def script(step, place, assignment):
        if place == slot(0) and step == "measure":
            return Failed, "cannot write to /tmp/x: No space left on device"
        return (Failed, "no provider blas") if place == slot(1) and step == "open" else None

    cluster = ScriptedCluster([slot(0), slot(1), slot(2)], script)
    assert trial.run(cluster)
    assert trial.units() == planned(JOBS)
    assert {place for place, _ in cluster.measured()} == {slot(0), slot(2)}
    assert sum(place == slot(0) for place, _ in cluster.measured()) == 1
    assert [text for text in trial.observer.remarks if "No space left" in text]


def test_where_no_place_can_measure_the_reason_is_the_error(trial):
    cluster = ScriptedCluster([slot(0), slot(1)], lambda step, place, assignment: (Failed, "no provider blas"))
    with pytest.raises(RooflensError, match="no sm90 of this cluster can measure: no provider blas"):
        trial.run(cluster)


def test_when_all_devices_are_gone_what_is_left_is_said_and_a_later_call_measures_it(trial):
    seen = []

    def script(step, place, assignment):
        if step == "measure":
            seen.append(assignment.job.key)
        return (Lost, "its node does not answer") if len(seen) > 5 else None

    cluster = ScriptedCluster([slot(0), slot(1)], script)
    assert not trial.run(cluster)
    assert "no sm90 is left for" in trial.unmeasured
    done = trial.units()
    assert 0 < len(done) < len(planned(JOBS))
    later = ScriptedCluster([slot(0, "three")])
    assert trial.run(later)
    assert trial.units() == planned(JOBS)
    assert len(later.measured()) == len(JOBS) - len(done) // 4


@pytest.mark.parametrize("count", [2, 3])
def test_of_several_stations_on_one_device_one_measures(trial, count):
    twins = answering(lambda place: record("open", place, f"twin{place.index}", uuid="GPU-1"), step="open")
    cluster = ScriptedCluster([slot(index) for index in range(count)], twins)
    assert trial.run(cluster)
    assert len({place for place, _ in cluster.measured()}) == 1
    assert any("same device (GPU-1)" in text for text in trial.observer.remarks)


def test_a_device_of_other_software_takes_no_part(trial):
    told = {"environment": {"torch": "2.11.0"}}
    other = answering(lambda place: record("open", place, "b", **told), "open", slot(0, "two"))
    cluster = ScriptedCluster([slot(0), slot(0, "two")], other)
    assert trial.run(cluster)
    assert {place.host for place, _ in cluster.measured()} == {"one"}
    assert any("torch is 2.13.0" in text for text in trial.observer.remarks)


def test_parts_come_home_at_an_interruption_and_their_device_completes_them(trial):
    cluster = ScriptedCluster([slot(0), slot(1)], seconds=3.0)
    cluster.script = lambda step, place, assignment: (
        archive(assignment.job, place, cluster.names[place], keep=lambda cell, number: number == 0)
        if step == "measure" and cluster.now > 5
        else None
    )
    with pytest.raises(Interrupted):
        trial.run(cluster, stop=lambda: cluster.now > 8)
    assert cluster.stopping
    done = trial.units()
    assert len(done) % 4 == 0
    part = [unit for unit in done if Counter(one[:4] for one in done)[unit[:4]] == 1]
    assert len(part) == 4  # two jobs, two cells, one round
    second = ScriptedCluster([slot(0), slot(1)])
    earlier = []

    def look(step, place, assignment):
        if step == "measure" and assignment.earlier:
            earlier.append(place)

    second.script = look
    assert trial.run(second)
    assert sorted(place.index for place in earlier) == [0, 1]
    assert trial.units() == planned(JOBS)


def test_more_cells_are_measured_when_everything_else_is_home(trial):
    asked = []

    def more():
        asked.append(len(trial.units()))
        return tuple(cell for job in extra for cell in job.task.cells) if len(asked) == 1 else ()

    extra = quick_jobs(shapes=1, sizes=(3, 5))
    assert trial.run(ScriptedCluster([slot(0), slot(1)]), more=more)
    assert asked[0] == len(planned(JOBS))
    assert trial.units() == planned((*JOBS, *extra))
    assert trial.observer.totals == [len(planned((*JOBS, *extra)))]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_under_any_faults_units_are_there_once_and_the_rest_is_told(tmp_path_factory, data):
    trial = Trial(tmp_path_factory.mktemp("any"))
    fates = st.sampled_from([None] * 12 + ["hang", (Lost, "its process died"), (Lost, "node"), (Failed, "disk")])
    places = [slot(index) for index in range(data.draw(st.integers(1, 6)))]
    cluster = ScriptedCluster(places, lambda step, place, assignment: data.draw(fates))
    try:
        complete = trial.run(cluster)
    except RooflensError:
        complete = False
    found = trial.units()
    assert len(found) == len(set(found))
    assert set(found) <= set(planned(JOBS))
    assert complete == (found == planned(JOBS))
    assert not cluster.alive
    assert trial.run(ScriptedCluster([slot(9, "fresh")]))
    assert trial.units() == planned(JOBS)


def test_slots_of_another_architecture_are_left_alone(trial):
    cluster = ScriptedCluster([slot(0), slot(0, "amd", "gfx950")])
    assert trial.run(cluster)
    assert {place.arch for place, _ in cluster.measured()} == {"sm90"}
    assert list(cluster.names) == [slot(0)]


def test_no_job_is_handed_out_when_no_time_is_left_for_it(trial):
    cluster = ScriptedCluster([slot(0)], seconds=1.0)
    seconds = []
    cluster.script = lambda step, place, assignment: seconds.append(assignment.seconds) if assignment else None
    assert not trial.run(cluster, deadline=8.5)
    assert min(seconds) > 2
    assert 0 < len(trial.units()) < len(planned(JOBS))
    assert trial.unmeasured == ""
