"""Numbers of places: the cores of a host are divided once, whatever nodes offer them and whenever they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.plugins.fleet.engine.cluster import NodeOffer, numbered
from rooflens.plugins.fleet.engine.protocol import Slot


def cpus(node, host="one", amount=1, arch="x86_64-avx2"):
    return NodeOffer(node, host, arch, amount)


@pytest.mark.parametrize(
    ("offers", "known", "found"),
    [
        ([cpus("a"), cpus("b")], [], [("a", 0, 2), ("b", 1, 2)]),
        ([cpus("a", amount=2), cpus("b", host="other")], [], [("a", 0, 2), ("a", 1, 2), ("b", 0, 1)]),
        ([cpus("a", amount=2), cpus("a", arch="sm90")], [], [("a", 0, 2), ("a", 1, 2), ("a", 0, 1)]),
        ([cpus("c")], [Slot("b", "one", "x86_64-avx2", 1, 2)], [("c", 0, 2)]),
        ([cpus("b")], [Slot("a", "one", "x86_64-avx2", 0, 1)], [("b", 1, 2)]),
    ],
)
def test_hosts_and_architectures_are_numbered_apart_and_free_numbers_are_taken(offers, known, found):
    assert [(slot.node, slot.index, slot.count) for slot in numbered(offers, known)] == found


steps = st.lists(st.lists(st.tuples(st.sampled_from("xy"), st.integers(1, 3)), max_size=3), max_size=4)


@given(steps)
def test_no_two_places_of_a_host_have_one_number(waves):
    known = []
    for wave, offers in enumerate(waves):
        nodes = [cpus(f"{wave}-{at}", host, amount) for at, (host, amount) in enumerate(offers)]
        fresh = numbered(nodes, known)
        assert len(fresh) == sum(amount for _, amount in offers)
        known += fresh
    numbers = [(slot.host, slot.index) for slot in known]
    assert len(numbers) == len(set(numbers))
    assert all(slot.index < slot.count for slot in known)
