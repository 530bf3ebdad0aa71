"""Wrong names of providers: what the command line proposes instead."""

import pytest
from rooflens.api.selection import suite_of
from rooflens.shapes.errors import UsageError
from rooflens.shapes.request import Request


def refused(suite: str, provider: str) -> str:
    with pytest.raises(UsageError) as caught:
        suite_of(Request(suite=suite, providers=[provider]))
    return str(caught.value)


@pytest.mark.parametrize(
    ("suite", "typed", "meant"),
    [
        ("llm4bit-quick", "gemv", "gemv_4bit"),
        ("mxfp8-decode-quick", "gemv", "gemv_mx"),
        ("mxfp8-moe-quick", "gemv", "gemv_moe"),
        ("llm4bit-quick", "gemv_mox", "gemv_mx or gemv_moe"),
        ("llm4bit-quick", "torch_scaled_mm", "torch_scaled_mm_mx or torch_scaled_mm_fp8"),
    ],
)
def test_the_nearest_of_the_suites_family_are_proposed_if_there_are_any(suite, typed, meant):
    assert refused(suite, typed) == f"unknown provider {typed!r}: did you mean {meant}?"


def test_without_a_near_one_the_suites_family_is_named_and_not_all_of_them():
    told = refused("fp8-train-quick", "zebra")
    assert "shared_fp8, specialised_fp8, " in told
    assert told.endswith("for all see rooflens list providers")
    assert "simt_4bit" not in told
    assert len(told) < 300
