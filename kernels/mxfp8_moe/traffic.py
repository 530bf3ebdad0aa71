"""Bytes that the MoE kernels really move, by the expected number of hit experts (`schemes.mxfp8_moe.expected_hits`)."""

from functools import cache
from math import exp, lgamma, log, log1p

from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8 import BLOCK
from ...shapes.schemes.mxfp8_moe import ID_BYTES, MxFp8Moe, expected_hits
from ..provider import Config


def mean_rows(problem: Problem) -> float:
    """Rows per expert that is hit, expected."""
    return problem.rows / expected_hits(problem)


def expected_blocks(problem: Problem, block_m: int) -> float:
    """Blocks of `block_m` rows in use, expected: the rows of an expert are binomial, M tokens with chance top_k/E."""
    return _expected_blocks(problem.M, problem.E, problem.top_k, block_m)


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
    split = config.get("SPLIT_K", 1)
    parts = 2 * 4 * split * problem.rows * problem.N if split > 1 else 0
    return int(weights + other_bytes(problem, scheme) + ID_BYTES * max(0, padding) + parts)


def other_bytes(problem: Problem, scheme: MxFp8Moe) -> int:
    """Bytes of activations with their scales, output and routing: all but the weights."""
    activations = problem.M * problem.K
    return activations + activations // BLOCK + scheme.output_bytes(problem) + scheme.routing_bytes(problem)


def hit_elements(problem: Problem) -> int:
    """Elements of the weights of the experts that are expected to be hit."""
    return round(expected_hits(problem) * problem.N * problem.K)
