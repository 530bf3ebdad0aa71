"""Numbers of places: the cores of a host are divided once, whatever nodes offer them and whenever they come."""

from hypothesis import given
from hypothesis import strategies as st
from rooflens.plugins.fleet.engine.cluster import NodeOffer, numbered
from rooflens.plugins.fleet.engine.protocol import Slot


def cpus(node, host="one", amount=1, arch="x86_64-avx2"):
    return NodeOffer(node, host, arch, amount)


def told(slots):
    return [(slot.node, slot.index, slot.count) for slot in slots]


def test_two_nodes_of_one_host_that_are_found_together_share_it():
    assert told(numbered([cpus("a"), cpus("b")], [])) == [("a", 0, 2), ("b", 1, 2)]


def test_hosts_and_architectures_are_numbered_apart():
    offers = [cpus("a", amount=2), cpus("b", host="other"), cpus("a", arch="sm90", amount=2)]
    assert told(numbered(offers, [])) == [("a", 0, 2), ("a", 1, 2), ("b", 0, 1), ("a", 0, 2), ("a", 1, 2)]


def test_a_node_that_joins_takes_the_numbers_that_are_free():
    known = [Slot("b", "one", "x86_64-avx2", 1, 2)]
    assert told(numbered([cpus("c")], known)) == [("c", 0, 2)]


def test_what_is_known_keeps_its_count_and_the_new_one_says_how_many_there_are():
    known = numbered([cpus("a")], [])
    assert told(numbered([cpus("b")], known)) == [("b", 1, 2)]
    assert told(known) == [("a", 0, 1)]


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
