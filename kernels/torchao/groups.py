"""How the rows of a grouped product are divided among the experts."""

import random

import torch

from ...shapes.problem import Problem
from ...shapes.schemes.torchao import AoGrouped, Torchao


def group_ends(problem: Problem, scheme: Torchao, seed: int) -> tuple[int, ...]:
    """Return the inclusive end row of each of E groups, the same for equal arguments on every machine.

    Of a dense problem that is one group. Random cuts between units of rows leave no group empty while there is a unit
    for each (so that the number of experts with rows does not depend on the seed); otherwise some get one unit, others
    nothing.
    """
    if not isinstance(scheme, AoGrouped):
        return (problem.M,)
    if scheme.balanced:
        return tuple(problem.M * (expert + 1) // problem.E for expert in range(problem.E))
    draw = random.Random(f"groups {seed} {problem.M} {problem.E}")
    units, hit = problem.M // scheme.unit, scheme.experts_with_rows(problem)
    bounds = iter([*sorted(draw.sample(range(1, units), hit - 1)), units])
    with_rows = set(draw.sample(range(problem.E), hit))
    ends, end = [], 0
    for expert in range(problem.E):
        end = next(bounds) if expert in with_rows else end
        ends.append(end * scheme.unit)
    return tuple(ends)


def group_rows(ends: tuple[int, ...]) -> list[tuple[int, int]]:
    """First and last (exclusive) row of every group."""
    return list(zip((0, *ends), ends, strict=False))


def offsets(ends: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """Return the same ends as int32 [E] on the device."""
    return torch.tensor(ends, dtype=torch.int32, device=device)
