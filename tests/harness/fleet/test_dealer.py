"""Who gets which job: everything once, weights stay together, lost jobs go elsewhere."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.harness.fleet.job_scheduler import MOST_LOSSES, Dealer

from .fabricated import quick_jobs

JOBS = quick_jobs(shapes=4, sizes=(1, 2, 4, 8, 16))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_happens_every_job_is_done_once_or_given_up(data):
    dealer = Dealer(JOBS)
    held, done, losses = {}, [], Counter()
    devices = [f"gpu{index}" for index in range(data.draw(st.integers(1, 5)))]
    for _ in range(400):
        device = data.draw(st.sampled_from(devices))
        if device not in held:
            if job := dealer.next(device, devices):
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
            dealer.back(job)
        else:
            losses[job.key] += 1
            assert dealer.lost(job, device) == (losses[job.key] < MOST_LOSSES)
    left = [job.key for job in (*held.values(), *dealer.rest(), *dealer.given_up)]
    assert sorted([*done, *left]) == sorted(job.key for job in JOBS)
    assert len(dealer) == len(dealer.rest())


def test_a_device_goes_on_with_its_weight_and_helps_another_when_none_is_untouched():
    dealer = Dealer(JOBS)
    assert [dealer.next("a").weight for _ in range(3)] == [JOBS[0].weight] * 3
    assert dealer.next("b").weight == JOBS[5].weight
    order = {"a": [], "b": []}
    while job := dealer.next(device := "a" if len(order["a"]) <= len(order["b"]) else "b"):
        order[device].append(job.weight)
    changes = sum(first != second for weights in order.values() for first, second in pairwise(weights))
    assert changes <= 4  # of 16 jobs


def test_a_lost_job_goes_to_another_device_unless_there_is_none():
    (job,) = quick_jobs(shapes=1, sizes=(1,))
    dealer = Dealer([job])
    assert dealer.next("a") is job
    dealer.lost(job, "a")
    assert dealer.next("a", ["a", "b"]) is None
    assert dealer.next("a", ["a"], others_may_come=True) is None
    assert dealer.next("b", ["a", "b"]) is job
    dealer.lost(job, "b")
    assert dealer.next("b", ["b"]) is job


def test_what_a_device_has_begun_waits_for_it_until_it_is_clear_that_it_does_not_come():
    first, second = quick_jobs(shapes=1, sizes=(1, 8))
    dealer = Dealer([first, second], {first.key: "a"})
    assert dealer.next("b", ["b"], others_may_come=True) is second
    assert dealer.next("b", ["b"], others_may_come=True) is None
    assert dealer.next("b", ["a", "b"]) is None
    assert dealer.next("a", ["a", "b"]) is first
    dealer = Dealer([first], {first.key: "a"})
    assert dealer.next("b", ["b"]) is first


def test_jobs_that_are_added_later_are_dealt():
    dealer = Dealer()
    assert dealer.next("a") is None
    dealer.add(JOBS[:2])
    assert [dealer.next("a"), dealer.next("a"), dealer.next("a")] == [*JOBS[:2], None]


@pytest.mark.parametrize("devices", [1, 3, 50])
def test_no_device_is_idle_while_there_are_jobs(devices):
    dealer = Dealer(JOBS)
    taken = 0
    while len(dealer):
        for device in range(devices):
            assert (dealer.next(device) is not None) == (taken < len(JOBS))
            taken = min(taken + 1, len(JOBS))
    assert taken == len(JOBS)
