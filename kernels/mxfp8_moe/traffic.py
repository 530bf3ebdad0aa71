"""Bytes that the MoE kernels really move.

How many experts are hit is known (`schemes.mxfp8_moe.hit_experts`); how their rows fall into blocks depends on the
draw, and is counted as expected.
"""

from functools import cache
from math import exp, lgamma, log, log1p

from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8 import BLOCK
from ...shapes.schemes.mxfp8_moe import ID_BYTES, MxFp8Moe, expected_hits, hit_experts
from ..provider import Config


def mean_rows(problem: Problem) -> float:
    """Rows per expert that is hit."""
    return problem.rows / _hits(problem)


def expected_blocks(problem: Problem, block_m: int) -> float:
    """Blocks of `block_m` rows in use: one for each expert that is hit, and as many more as its rows need on average.

    The rows of an expert are taken as binomial: M tokens with chance top_k/E.
    """
    beyond = _expected_blocks(problem.M, problem.E, problem.top_k, block_m) - _expected_hits(problem)
    return _hits(problem) + max(0.0, beyond)


@cache
def _expected_blocks(tokens: int, experts: int, top_k: int, block_m: int) -> float:
    chance = top_k / experts
    if chance == 1.0:
        return float(experts * -(-tokens // block_m))
    total = 0.0
    for rows in range(1, tokens + 1):
        ways = lgamma(tokens + 1) - lgamma(rows + 1) - lgamma(tokens - rows + 1)
        probability = exp(ways + rows * log(chance) + (tokens - rows) * log1p(-chance))
        total += probability * -(-rows // block_m)
    return experts * total


def fused_bytes(problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
    """Bytes of a kernel over blocks of rows: weights and their scales once per block, everything else once.

    The sentinels that fill a block up are read with the slots, and parts of a divided K written and read in fp32.
    """
    blocks = expected_blocks(problem, config["BLOCK_M"])
    weights = round(blocks * problem.N * problem.K * (BLOCK + 1) / BLOCK)
    padding = round(blocks * config["BLOCK_M"]) - problem.rows
    parts = 2 * part_bytes(problem, config)
    return int(weights + other_bytes(problem, scheme) + ID_BYTES * max(0, padding) + parts)


def part_bytes(problem: Problem, config: Config) -> int:
    """Bytes of the fp32 copies of Y, one per part of a divided K."""
    split = int(config.get("SPLIT_K", 1))
    return 4 * split * problem.rows * problem.N if split > 1 else 0


def other_bytes(problem: Problem, scheme: MxFp8Moe) -> int:
    """Bytes of activations with their scales, output and routing: all but the weights."""
    activations = problem.M * problem.K
    return activations + activations // BLOCK + scheme.output_bytes(problem) + scheme.routing_bytes(problem)


def hit_elements(problem: Problem) -> int:
    """Elements of the weights of the experts that are hit."""
    return _hits(problem) * problem.N * problem.K


def _expected_hits(problem: Problem) -> float:
    return expected_hits(problem.M, problem.E, problem.top_k)


def _hits(problem: Problem) -> int:
    return hit_experts(problem.M, problem.E, problem.top_k)
