"""Who gets which part: everything once, weights stay together, what was lost goes elsewhere."""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.harness.sweep.part_queue import MOST_LOSSES, PartQueue


@dataclass(frozen=True)
class Item:
    weight: int
    number: int

    @property
    def key(self):
        return self.weight, self.number


def items(weights, numbers):
    return [Item(*one) for one in product(range(weights), range(numbers))]


PARTS = items(4, 5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_happens_every_part_is_done_once_or_given_up(data):
    queue = PartQueue(PARTS)
    held, done, losses = {}, [], Counter()
    devices = [f"gpu{index}" for index in range(data.draw(st.integers(1, 5)))]
    for _ in range(400):
        device = data.draw(st.sampled_from(devices))
        if device not in held:
            if part := queue.next(device, devices):
                held[device] = part
                continue
            if not held:
                break
            device = next(iter(held))
        part = held.pop(device)
        fate = data.draw(st.sampled_from(("done", "done", "done", "lost", "back")))
        if fate == "done":
            done.append(part.key)
        elif fate == "back":
            queue.back(part)
        else:
            losses[part.key] += 1
            assert queue.lost(part, device) == (losses[part.key] < MOST_LOSSES)
    count, rest = len(queue), []
    while part := queue.next("another"):
        rest.append(part)
    assert len(rest) == count
    left = [part.key for part in (*held.values(), *rest, *queue.given_up)]
    assert sorted([*done, *left]) == sorted(part.key for part in PARTS)


def test_a_device_goes_on_with_its_weight_and_helps_another_when_none_is_untouched():
    queue = PartQueue(PARTS)
    assert [queue.next("a").weight for _ in range(3)] == [PARTS[0].weight] * 3
    assert queue.next("b").weight == PARTS[5].weight
    assignment = {"a": [], "b": []}
    while part := queue.next(device := "a" if len(assignment["a"]) <= len(assignment["b"]) else "b"):
        assignment[device].append(part.weight)
    changes = sum(first != second for weights in assignment.values() for first, second in pairwise(weights))
    assert changes <= 4  # of 16 parts


def test_a_lost_part_goes_to_another_device_unless_there_is_none():
    (part,) = items(1, 1)
    queue = PartQueue([part])
    assert queue.next("a") is part
    queue.lost(part, "a")
    assert queue.next("a", ["a", "b"]) is None
    assert queue.next("a", ["a"], others_expected=True) is None
    assert queue.next("b", ["a", "b"]) is part
    queue.lost(part, "b")
    assert queue.next("b", ["b"]) is part


def test_what_a_device_has_begun_waits_for_it_until_it_is_clear_that_it_does_not_come():
    first, second = items(1, 2)
    queue = PartQueue([first, second], {first.key: "a"})
    assert queue.next("b", ["b"], others_expected=True) is second
    assert queue.next("b", ["b"], others_expected=True) is None
    assert queue.next("b", ["a", "b"]) is None
    assert queue.next("a", ["a", "b"]) is first
    queue = PartQueue([first], {first.key: "a"})
    assert queue.next("b", ["b"]) is first


@pytest.mark.parametrize("devices", [1, 3, 50])
def test_no_device_is_idle_while_there_are_parts(devices):
    queue = PartQueue(PARTS)
    taken = 0
    while len(queue):
        for device in range(devices):
            assert (queue.next(device) is not None) == (taken < len(PARTS))
            taken = min(taken + 1, len(PARTS))
    assert taken == len(PARTS)
