"""Kernels that break the device, take all its memory or do not end: each costs its cell, and no other."""

from pathlib import Path

import pytest

from .tiny_runs import check_whole, events, fresh, read, run_args, verdicts, write_suite

FAULTY = Path(__file__).parents[1] / "harness" / "faulty_device_providers.py"

ON_GPU = ("--device", "cuda")

TIMEOUT_S = 10.0
"""More than the first GEMM of a fresh process takes."""

pytestmark = [pytest.mark.gpu, pytest.mark.exclusive]


def run_on_device(place, *providers, options=()):
    """Three problems: M = 1, 2 (where providers fail) and 3."""
    arguments = run_args("right_on_device", *providers, file=FAULTY, device=ON_GPU)
    fresh(place, *arguments, "--filter", "layer == 'q'", *options)
    return place


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Return the folder of one run of every provider that breaks something."""
    place = write_suite(tmp_path_factory.mktemp("broken"))
    return run_on_device(place, *FAULTS)


FAULTS = {
    "illegal_access": ({"runtime_error", "crashed"}, "measur"),
    "device_assert": ({"runtime_error", "crashed"}, "measur"),
    "device_oom": ({"oom"}, "out of memory"),
}


def test_a_device_fault_is_the_verdict_of_its_cell_and_costs_no_other(broken):
    found = verdicts(broken)
    for provider, (known, words) in FAULTS.items():
        assert found.pop((provider, 2)) <= known
        (row,) = [row for row in read(broken) if (row["provider"], row["M"]) == (provider, "2")]
        assert words in row["reason"]
        assert row["samples"] == ""
    assert list(found.values()) == [{"passed"}] * (3 * 4 - 3)
    check_whole(broken, cells=3 * 4 - 3)


def test_a_broken_device_context_is_left_with_its_process(broken):
    """Lack of memory breaks nothing; the other two do, and each is followed by a new worker."""
    assert len([text for _, text in events(broken) if text.startswith("restart the worker")]) == 2


def test_a_kernel_that_does_not_end_is_ended_within_two_seconds_of_the_time_limit(tmp_path):
    place = run_on_device(write_suite(tmp_path), "device_hang", options=("--set", f"timeout_s={TIMEOUT_S:g}s"))
    found = verdicts(place)
    assert found.pop(("device_hang", 2)) == {"timeout"}
    assert found.pop(("device_hang", 3)) == {"timeout"}, "what has hung is not tried again"
    assert list(found.values()) == [{"passed"}] * len(found)
    check_whole(place, cells=4)
    hung_at = float((place / "device_hang.stamp").read_text())
    restarts = [at for at, text in events(place) if text.startswith("restart the worker")]
    assert len(restarts) == 1
    assert TIMEOUT_S - 1 < restarts[0] - hung_at < TIMEOUT_S + 2
