"""Going on with a sweep, and what goes wrong in it: cases in which two things happen at once."""

import dataclasses
import json
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.harness.fleet.landing import Landing
from rooflens.harness.fleet.orders import Order
from rooflens.harness.fleet.parcel import unpack
from rooflens.shapes.errors import RooflensError, UsageError

from ..test_sweep import Workers
from .fabricated import PROTOCOL, brief, parcel, quick_jobs, run_json, slot
from .scripted_cluster import Gone, Refused, ScriptedCluster
from .test_fleet import JOBS, trial
from .test_landing import planned
from .test_landing import rows as stored_rows
from .test_station import interrupted, manifest, rows, station

__all__ = ["station", "trial"]


def named(call, name, workers, **more):
    """Return an open station of another name."""
    one = call(workers, **more)
    one.name = name
    one.open()
    return one


def test_a_part_keeps_the_processes_of_the_station_that_began_it(station, tmp_path):
    job, other = quick_jobs(shapes=1, sizes=(1, 8))
    part = named(station, "s1", interrupted("source")).measure(Order(job, b"", 100.0))
    second = named(station, "s2", Workers())
    whole, next_one = second.measure(Order(job, part.content, None)), second.measure(Order(other, b"", None))
    assert {(row["round"], row["process"]) for row in rows(whole)} == {("0", "0"), ("1", "1")}
    assert {row["process"] for row in rows(next_one)} == {"0"}
    run = Landing(tmp_path / "run", run_json(), [job, other])
    for one in (whole, next_one):
        run.land(one)
    run.close()
    number = {(row["M"], row["round"]): row["process"] for row in stored_rows(run.folder)}
    assert number["1", "0"] != number["1", "1"]
    assert number["1", "1"] == number["8", "0"] == number["8", "1"]
    said = json.loads((run.folder / "run.json").read_text())
    assert said["processes"] == 2
    assert [sorted(device["processes"]) for device in said["devices"]] == [[0, 1]]


def test_a_part_that_is_completed_twice_has_three_processes(station):
    more = [dataclasses.replace(job, rounds=3) for job in quick_jobs(shapes=1, sizes=(1,))]
    about = dataclasses.replace(brief().setup, protocol=dataclasses.replace(PROTOCOL, rounds=3))
    about = dataclasses.replace(brief(), setup=about)
    first = named(station, "s1", interrupted("source")).measure(Order(more[0], b"", 100.0))
    second = named(station, "s2", Workers(), about=brief()).measure(Order(more[0], first.content, None))
    third = named(station, "s3", Workers(), about=about).measure(Order(more[0], second.content, None))
    assert {(row["round"], row["process"]) for row in rows(third)} == {("0", "0"), ("1", "1"), ("2", "2")}
    assert manifest(third)["station"]["earlier"] == [{"name": "s1", "until": 1}, {"name": "s2", "until": 2}]
    assert manifest(third)["planned_units"] == 6


def test_a_completed_part_says_how_much_is_measured_by_now(station):
    (job,) = quick_jobs(shapes=1, sizes=(1,))
    part = named(station, "s1", interrupted("source")).measure(Order(job, b"", 100.0))
    about = dataclasses.replace(brief(), manifest=run_json(rounds=4, protocol={**run_json()["protocol"], "rounds": 4}))
    whole = manifest(named(station, "s2", Workers(), about=about).measure(Order(job, part.content, None)))
    assert (whole["rounds"], whole["protocol"]["rounds"]) == (4, 4)


@pytest.mark.parametrize("changes", [{"timeout_s": 90.0}, {"budget_s": 9.0}, {"caches": ["cold"]}, {"timer": "event"}])
def test_how_much_is_measured_may_change(tmp_path, changes):
    run = Landing(tmp_path / "run", run_json(), JOBS)
    run.land(parcel(JOBS[0], slot(0)))
    run.land(parcel(JOBS[1], slot(1), name="b", protocol={**run_json()["protocol"], **changes}))
    assert len(run.done) == 2
    run.close()


@pytest.mark.parametrize("changes", [{"cold_by": "rotation"}, {"timer": "graph"}])
def test_how_it_is_measured_may_not(tmp_path, changes):
    run = Landing(tmp_path / "run", run_json(), JOBS)
    run.land(parcel(JOBS[0], slot(0)))
    with pytest.raises(UsageError, match=next(iter(changes))):
        run.land(parcel(JOBS[1], slot(1), name="b", **changes))
    run.close()


def test_a_cluster_that_cannot_go_on_says_why_at_once(trial):
    assert not trial.run(ScriptedCluster([slot(0)]), deadline=10.0)
    assert trial.units()
    other = ScriptedCluster([slot(0)], lambda step, place, order: (Refused, "provider blas is other code"))
    with pytest.raises(RooflensError, match="no sm90 of this cluster can measure: provider blas is other code"):
        trial.run(other)
    assert other.now < 10


def test_each_architecture_is_waited_for_in_full(trial):
    """One is alone from the start, the other 20 s later: each has its own patience of 30 s."""

    def script(step, place, order):
        return (Gone, "its node does not answer") if step == "measure" else None

    cluster = ScriptedCluster([slot(0)], script, seconds=10.0)
    back = []

    def places():
        if cluster.now > 45 and not back:  # within its 30 s, not within those of the first
            back.append(slot(0, "two"))
            cluster.script = lambda step, place, order: None
            cluster.places += back
        return list(cluster.places)

    cluster.slots = places
    assert not trial.run(cluster, archs=("gfx950", "sm90"))
    assert trial.left_out == [f"no gfx950 is left for {len(JOBS)} problems"]
    assert trial.units("sm90") == planned(JOBS)


def test_nothing_more_is_asked_of_a_sweep_that_is_not_at_home(trial):
    """A station whose time is over sends a part home a little before the fleet's own time is over."""
    asked = []

    def script(step, place, order):
        part = order and parcel(order.job, place, cluster.names[place], keep=lambda cell, number: number == 0)
        return part if order and order.job.key == JOBS[-1].key else None

    cluster = ScriptedCluster([slot(0)], script)
    assert not trial.run(cluster, more=lambda: asked.append(1) or ())
    assert asked == []
    assert trial.run(ScriptedCluster([slot(0)]), more=lambda: asked.append(1) or ())
    assert asked == [1]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_is_damaged_in_a_shard_it_is_named(data):
    whole = parcel(JOBS[0], slot(0)).content
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    said = "x.zip is damaged"  # where it is harmless: a date, say
    try:
        unpack(damaged, "x.zip")
    except UsageError as error:
        said = str(error)
    assert said.startswith("x.zip is damaged")


def test_a_stream_that_cannot_be_unpacked_is_named():
    whole = bytearray(parcel(JOBS[0], slot(0)).content)
    at = 30 + len("run.json")
    whole[at : at + 40] = b"\xff" * 40
    with pytest.raises(zlib.error):
        zlib.decompressobj(-15).decompress(bytes(whole[at : at + 200]))
    with pytest.raises(UsageError, match=r"x\.zip is damaged"):
        unpack(bytes(whole), "x.zip")


def test_more_slots_than_cores_is_said_with_the_way_out():
    pytest.importorskip("ray")
    from rooflens.harness.fleet.ray_station import RayStation

    many = dataclasses.replace(slot(0, arch="x86_64"), count=1 << 20)
    about = dataclasses.replace(brief(), setup=dataclasses.replace(brief().setup, device="cpu"))
    one = RayStation(about, many, "s1", board=None)
    with pytest.raises(RooflensError, match=r"cores for 1048576 slots: ask for at most \d+$"):
        one.open()
