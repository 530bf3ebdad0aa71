"""Sizes, FLOPs and bytes against closed forms, and refusal of what does not exist."""

import pytest
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType, Scheme


def test_flops_are_useful_flops():
    assert Problem(M=8192, N=12288, K=4096).flops == 2 * 8192 * 12288 * 4096
    assert Problem(M=3, N=5, K=7, B=11).flops == 2 * 3 * 5 * 7 * 11


@pytest.mark.parametrize("sizes", [{"M": 0}, {"N": -4}, {"K": 2.5}, {"B": True}])
def test_sizes_that_are_none(sizes):
    with pytest.raises(UsageError, match=f"{next(iter(sizes))}=.* is not a size"):
        Problem(**({"M": 1, "N": 1, "K": 1} | sizes))


@pytest.mark.parametrize("name", ["nf4-g64", "fp4-g4096", "nf4-g32-nested", "fp4-g128-nested-bias", "nf4-g64-bias"])
def test_scheme_names_round_trip(name):
    assert Scheme.parse(name, DType.FP16).name == name


@pytest.mark.parametrize("name", ["nf4", "nf5-g64", "nf4-g48", "nf4-g64-bias-nested", ""])
def test_schemes_that_do_not_exist(name):
    with pytest.raises(UsageError):
        Scheme.parse(name, DType.BF16)


def test_bytes_per_element_of_nf4_g64():
    """0.5625 bytes per element with fp32 absmax per 64 (0.5 + 4/64), 0.5 + 1/64 + 4/(64*256) nested."""
    problem = Problem(M=1, N=4096, K=4096)
    plain, nested = (Scheme.parse(name, DType.BF16) for name in ("nf4-g64", "nf4-g64-nested"))
    elements = 4096 * 4096
    assert plain.weight_bytes(problem) + plain.scale_bytes(problem) == 0.5625 * elements
    table = 4 * 256 + 4
    assert (
        nested.weight_bytes(problem) + nested.scale_bytes(problem) == elements * (0.5 + 1 / 64 + 4 / 64 / 256) + table
    )


def test_compulsory_bytes_of_a_biased_problem():
    problem, scheme = Problem(M=4, N=10, K=33), Scheme.parse("fp4-g32-bias", DType.FP32)
    assert scheme.compulsory_bytes(problem) == 165 + 4 * 11 + 4 * 4 * 33 + 4 * 10 + 4 * 4 * 10
