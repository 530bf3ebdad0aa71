"""Numbers of places: the cores of a host are divided once, whatever nodes offer them and whenever they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.harness.sweep.cluster import Place
from rooflens.plugins.fleet.numbering import NodeOffer, architectures, numbered
from rooflens.plugins.fleet.ray_environment import addresses


def known_at(node, index, count):
    return Place("one", "x86_64-avx2", index, count, "cpu", node)


def cpus(node, host="one", amount=1, arch="x86_64-avx2"):
    return NodeOffer(node, host, arch, amount)


@pytest.mark.parametrize(
    ("offers", "known", "found"),
    [
        ([cpus("a"), cpus("b")], [], [("a", 0, 2), ("b", 1, 2)]),
        ([cpus("a", amount=2), cpus("b", host="other")], [], [("a", 0, 2), ("a", 1, 2), ("b", 0, 1)]),
        ([cpus("a", amount=2), cpus("a", arch="sm90")], [], [("a", 0, 2), ("a", 1, 2), ("a", 0, 1)]),
        ([cpus("c")], [known_at("b", 1, 2)], [("c", 0, 2)]),
        ([cpus("b")], [known_at("a", 0, 1)], [("b", 1, 2)]),
    ],
)
def test_hosts_and_architectures_are_numbered_apart_and_free_numbers_are_taken(offers, known, found):
    assert [(place.node, place.index, place.count) for place in numbered(offers, known)] == found


steps = st.lists(st.lists(st.tuples(st.sampled_from("xy"), st.integers(1, 3)), max_size=3), max_size=4)


@given(steps)
def test_no_two_places_of_a_host_have_one_number(waves):
    known = []
    for wave, offers in enumerate(waves):
        nodes = [cpus(f"{wave}-{at}", host, amount) for at, (host, amount) in enumerate(offers)]
        fresh = numbered(nodes, known)
        assert len(fresh) == sum(amount for _, amount in offers)
        known += fresh
    numbers = [(place.host, place.index) for place in known]
    assert len(numbers) == len(set(numbers))
    assert all(place.index < place.count for place in known)


def test_architectures_are_found_among_the_resources_of_ray():
    resources = {"CPU": 8.0, "GPU": 4.0, "node:10.0.0.7": 1.0, "accelerator_type:H200": 1.0, "sm90": 4.0, "memory": 1e9}
    assert architectures(resources | {"gfx950": 0.0, "x86_64-avx512": 2.0}) == {"sm90": 4, "x86_64-avx512": 2}


def process(root, pid, arguments):
    folder = root / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(b"\0".join(arguments) + b"\0")


def test_clusters_are_found_by_their_raylets(tmp_path):
    raylet = b"/site-packages/ray/core/src/ray/raylet/raylet"
    process(tmp_path, 10, [raylet, b"--x=1", b"--gcs-address=10.0.0.7:6379"])
    process(tmp_path, 11, [raylet, b"--gcs-address=10.0.0.7:6379"])
    process(tmp_path, 13, [b"python3", b"--gcs-address=10.0.0.8:1"])
    (tmp_path / "14").mkdir()  # it has just ended
    (tmp_path / "self").mkdir()
    assert addresses(tmp_path) == ["10.0.0.7:6379"]
