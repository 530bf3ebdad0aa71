"""Sizes and FLOPs against closed forms, and refusal of what does not exist."""

import pytest
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op, Pass, Problem


def test_flops_are_useful_flops():
    assert Problem(M=8192, N=12288, K=4096).flops == 2 * 8192 * 12288 * 4096
    assert Problem(M=3, N=5, K=7, B=11).flops == 2 * 3 * 5 * 7 * 11


@pytest.mark.parametrize("sizes", [{"M": 0}, {"N": -4}, {"K": 2.5}, {"B": True}])
def test_sizes_that_are_none(sizes):
    with pytest.raises(UsageError, match=f"{next(iter(sizes))}=.* is not a size"):
        Problem(**({"M": 1, "N": 1, "K": 1} | sizes))


@pytest.mark.parametrize(("pass_", "products"), [("fwd", 1), ("dgrad", 1), ("wgrad", 1), ("bwd", 2), ("step", 3)])
def test_a_pass_counts_its_products(pass_, products):
    """6MNK for a step: the convention of training benchmarks."""
    assert Problem(8, 16, 32, pass_=Pass(pass_)).flops == products * 2 * 8 * 16 * 32


def test_experts_share_the_rows_and_routing_multiplies_them():
    """The FLOPs of a grouped GEMM count its rows once, whatever the number of groups."""
    grouped = Problem(M=16640, N=8192, K=5120, op=Op.GROUPED_GEMM, E=8)
    assert grouped.flops == 2 * 16640 * 8192 * 5120
    assert (grouped.rows, grouped.weights) == (16640, 8)
    routed = Problem(M=4, N=1536, K=6144, op=Op.MOE_GEMM, E=128, top_k=4)
    assert (routed.rows, routed.flops) == (16, 2 * 16 * 1536 * 6144)
    assert str(routed) == "E=128 top_k=4 M=4 N=1536 K=6144"


def test_a_quantization_has_no_flops():
    problem = Problem(M=128, N=1, K=4096, op=Op.QUANTIZE)
    assert problem.flops == 0
    assert str(problem) == "M=128 K=4096"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"E": 8}, "a gemm has no experts"),
        ({"E": 8, "top_k": 2, "op": Op.GROUPED_GEMM}, "only a moe_gemm routes tokens"),
        ({"E": 4, "top_k": 5, "op": Op.MOE_GEMM}, "top_k=5 of E=4 experts"),
        ({"M": 1 << 40, "N": 1 << 20}, "too large"),
    ],
)
def test_sizes_that_do_not_go_with_the_operation(sizes, message):
    with pytest.raises(UsageError, match=message):
        Problem(**({"M": 1, "N": 1, "K": 1} | sizes))
