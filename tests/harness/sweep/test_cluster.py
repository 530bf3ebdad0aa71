"""Which devices a request means, and the cores of those that are parts of a CPU."""

import os

import pytest
from rooflens.harness.sweep.child_process import Child
from rooflens.harness.sweep.cluster import LocalCluster, Place, chosen, restricted
from rooflens.harness.sweep.deadline import Deadline
from rooflens.shapes.errors import RooflensError, UsageError


@pytest.mark.parametrize(
    ("asked", "count", "offered", "stored", "found"),
    [
        ("", None, {"sm90": 1, "x86_64-avx2": 3}, "", "sm90"),
        ("", None, {"x86_64-avx2": 3}, "", "x86_64-avx2"),
        ("sm90", 4, {"gfx950": 2, "sm90": 4}, "", "sm90"),
        ("", None, {"gfx950": 2, "sm90": 4}, "sm90", "sm90"),
        ("sm90", 4, {"gfx950": 2, "sm90": 4}, "sm90", "sm90"),
    ],
)
def test_the_architecture_is_requested_or_stored_or_the_only_one(asked, count, offered, stored, found):
    assert chosen(asked, count, offered, stored) == found


@pytest.mark.parametrize(
    ("asked", "offered", "stored", "words"),
    [
        (("gfx950", None), {"sm90": 2}, "", "1 x gfx950 is requested, and this cluster offers 2 x sm90"),
        (("sm90", 3), {"sm90": 2}, "", "3 x sm90 is requested"),
        (("", None), {}, "", "no node of this Ray cluster offers an architecture"),
        (("", None), {"gfx950": 1, "sm90": 2}, "", "one with --on gfx950 and one with --on sm90, each with its own -o"),
        (("sm90", None), {"sm90": 2}, "gfx950", "the run is of gfx950, and this call measures sm90"),
        (("", None), {"sm90": 2}, "gfx950", "the run is of gfx950, and this call measures 2 x sm90"),
    ],
)
def test_what_is_not_there_is_said(asked, offered, stored, words):
    with pytest.raises(UsageError, match=words):
        chosen(*asked, offered, stored)


def test_a_part_of_this_machine():
    eight, mixed = {"sm90": [f"cuda:{index}" for index in range(8)]}, {"sm80": ["cuda:0"], "sm90": ["cuda:1"]}
    assert restricted(eight, 2) == {"sm90": ["cuda:0", "cuda:1"]}
    assert restricted(eight, None) == eight
    assert restricted(mixed, 2) == mixed
    with pytest.raises(UsageError, match="local:9: this machine has 8 x sm90; request at most 8"):
        restricted(eight, 9)
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES"):
        restricted(mixed, 1)


def test_parts_of_a_cpu_share_no_core_and_a_gpu_takes_none(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(10, 19)))
    taken = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: taken.append(list(cores)))
    here = LocalCluster({"x86_64-avx2": ["cpu"] * 4, "sm90": ["cuda:0"]})
    assert here.offered() == {"x86_64-avx2": 4, "sm90": 1}
    for place in here.now():
        with here.entered(place, Deadline()) as machine:
            assert machine.start is Child
    assert taken == [[10, 11], [12, 13], [14, 15], [16, 17]]
    with pytest.raises(RooflensError, match=r"9 cores for 1048576 slots: use at most 9$"):
        Place("one", "x86_64-avx2", 0, 1 << 20, "cpu").take_cores()
