"""Who gets which job: everything once, weights stay together, lost jobs go elsewhere."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.plugins.fleet.engine.job_scheduler import MOST_LOSSES, JobScheduler

from .fabricated import quick_jobs

JOBS = quick_jobs(shapes=4, sizes=(1, 2, 4, 8, 16))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_happens_every_job_is_done_once_or_given_up(data):
    scheduler = JobScheduler(JOBS)
    held, done, losses = {}, [], Counter()
    devices = [f"gpu{index}" for index in range(data.draw(st.integers(1, 5)))]
    for _ in range(400):
        device = data.draw(st.sampled_from(devices))
        if device not in held:
            if job := scheduler.next(device, devices):
                held[device] = job
                continue
            if not held:
                break
            device = next(iter(held))
        job = held.pop(device)
        fate = data.draw(st.sampled_from(("done", "done", "done", "lost", "back")))
        if fate == "done":
            done.append(job.key)
        elif fate == "back":
            scheduler.back(job)
        else:
            losses[job.key] += 1
            assert scheduler.lost(job, device) == (losses[job.key] < MOST_LOSSES)
    count, rest = len(scheduler), []
    while job := scheduler.next("another"):
        rest.append(job)
    assert len(rest) == count
    left = [job.key for job in (*held.values(), *rest, *scheduler.given_up)]
    assert sorted([*done, *left]) == sorted(job.key for job in JOBS)


def test_a_device_goes_on_with_its_weight_and_helps_another_when_none_is_untouched():
    scheduler = JobScheduler(JOBS)
    assert [scheduler.next("a").weight for _ in range(3)] == [JOBS[0].weight] * 3
    assert scheduler.next("b").weight == JOBS[5].weight
    assignment = {"a": [], "b": []}
    while job := scheduler.next(device := "a" if len(assignment["a"]) <= len(assignment["b"]) else "b"):
        assignment[device].append(job.weight)
    changes = sum(first != second for weights in assignment.values() for first, second in pairwise(weights))
    assert changes <= 4  # of 16 jobs


def test_a_lost_job_goes_to_another_device_unless_there_is_none():
    (job,) = quick_jobs(shapes=1, sizes=(1,))
    scheduler = JobScheduler([job])
    assert scheduler.next("a") is job
    scheduler.lost(job, "a")
    assert scheduler.next("a", ["a", "b"]) is None
    assert scheduler.next("a", ["a"], others_expected=True) is None
    assert scheduler.next("b", ["a", "b"]) is job
    scheduler.lost(job, "b")
    assert scheduler.next("b", ["b"]) is job


def test_what_a_device_has_begun_waits_for_it_until_it_is_clear_that_it_does_not_come():
    first, second = quick_jobs(shapes=1, sizes=(1, 8))
    scheduler = JobScheduler([first, second], {first.key: "a"})
    assert scheduler.next("b", ["b"], others_expected=True) is second
    assert scheduler.next("b", ["b"], others_expected=True) is None
    assert scheduler.next("b", ["a", "b"]) is None
    assert scheduler.next("a", ["a", "b"]) is first
    scheduler = JobScheduler([first], {first.key: "a"})
    assert scheduler.next("b", ["b"]) is first


@pytest.mark.parametrize("devices", [1, 3, 50])
def test_no_device_is_idle_while_there_are_jobs(devices):
    scheduler = JobScheduler(JOBS)
    taken = 0
    while len(scheduler):
        for device in range(devices):
            assert (scheduler.next(device) is not None) == (taken < len(JOBS))
            taken = min(taken + 1, len(JOBS))
    assert taken == len(JOBS)
