"""What a fleet is requested, against what is there."""

import pytest
from rooflens.plugins.fleet.engine.ray_environment import addresses
from rooflens.plugins.fleet.engine.resource_request import architectures, chosen, restricted
from rooflens.shapes.errors import UsageError


def test_architectures_are_found_among_the_resources_of_ray():
    resources = {"CPU": 8.0, "GPU": 4.0, "node:10.0.0.7": 1.0, "accelerator_type:H200": 1.0, "sm90": 4.0, "memory": 1e9}
    assert architectures(resources | {"gfx950": 0.0, "x86_64-avx512": 2.0}) == {"sm90": 4, "x86_64-avx512": 2}


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
        (("sm90", None), {"sm90": 2}, "gfx950", "the run is of gfx950, and this fleet measures sm90"),
        (("", None), {"sm90": 2}, "gfx950", "the run is of gfx950, and this fleet measures 2 x sm90"),
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
