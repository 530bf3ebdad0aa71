"""Random operands that distinguish correct kernels from nearly correct ones.

Values are normal, and whole scaling groups are multiplied by powers of two. That changes no bit of the payload that a
group is quantized to, only its scale: times do not depend on it, but a scale that belongs to another group is wrong by
a factor, while the largest values of equally distributed groups differ by a few percent. Quantizers, whose output is
compared bit for bit, also get groups of zeros and groups so small or large that a clamp decides.
"""

import math
from collections.abc import Callable, Iterator

import torch

from .inputs import normal

LINES = (-2, 2)
"""Exponents of the factors of groups inside one row or column, from (inclusive) and to (exclusive)."""

BLOCKS = (-1, 1)
"""The same for blocks of rows and columns.

Both are as wide as the accuracy check allows, which bounds the error of an element by the rms of the whole output, but
for the rounding of the output, while rounding of operands is relative to their groups. Groups of lines are many: 3
times that rms is the most that an output has whose groups are all the largest. A block at an edge may be small and
alone: two operands in blocks make it 4 times.
"""

Exponents = tuple[int, int]

Factors = Callable[[tuple[int, ...], torch.Generator, torch.device], torch.Tensor]
"""From the shape of a grid of groups to the factor of each, fp32 powers of two or 0."""

_CHUNK_ELEMENTS = 1 << 26
"""Elements drawn in fp32 at once (256 MiB)."""

_CYCLE = 17
"""Groups from one of zeros to the next in `with_extremes`: prime, so that they rarely stand below each other."""

_BLOCK_ROWS = 128
"""Rows drawn at once are a multiple of this, so that no group is cut."""


def rms(exponents: Exponents) -> float:
    """Root mean square of factors with these exponents."""
    return math.sqrt(sum(4.0**exponent for exponent in range(*exponents)) / (exponents[1] - exponents[0]))


def powers_of_two(exponents: torch.Tensor) -> torch.Tensor:
    """2^exponent in fp32, exactly; `exponents` of any integer type, in -126 .. 127."""
    return ((exponents.to(torch.int32) + 127) << 23).view(torch.float32)


def spread(exponents: Exponents) -> Factors:
    """Powers of two for every group, their exponents uniform in `exponents`."""

    def factors(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> torch.Tensor:
        return powers_of_two(torch.randint(*exponents, shape, generator=generator, device=device, dtype=torch.int32))

    return factors


def with_extremes(small: Exponents, large: Exponents, usual: Exponents = LINES) -> Factors:
    """Factors of groups for a quantizer: of 17 groups one is zero, one 2^`small` and one 2^`large`, others 2^`usual`.

    17 groups in their order in memory hold one of each; where fewer exist, the draw decides.
    """

    def factors(shape: tuple[int, ...], generator: torch.Generator, device: torch.device) -> torch.Tensor:
        found, tiny, huge = (spread(exponents)(shape, generator, device) for exponents in (usual, small, large))
        first = torch.randint(_CYCLE, (1,), generator=generator, device=device)
        place = (torch.arange(found.numel(), device=device).view(shape) + first) % _CYCLE
        found = torch.where(place == 1, tiny, found)
        found = torch.where(place == 2, huge, found)
        return found.masked_fill_(place == 0, 0.0)

    return factors


def draw(
    out: torch.Tensor, generator: torch.Generator, rows: int, columns: int, factors: Factors | None = None
) -> torch.Tensor:
    """Overwrite `out` [R,C] with normal values, those of each group of rows x columns times its factor. Returns it.

    `rows` divides 128; `factors` are those of `LINES` or `BLOCKS` when none are given. Values are drawn some rows at a
    time; nothing else of the size of `out` is allocated.
    """
    height, width = out.shape
    grid = (-(-height // rows), -(-width // columns))
    factors = factors or spread(LINES if 1 in (rows, columns) else BLOCKS)
    scale = factors(grid, generator, out.device)
    step = max(1, _CHUNK_ELEMENTS // (_BLOCK_ROWS * width)) * _BLOCK_ROWS
    for first in range(0, height, step):
        values = normal(out[first : first + step].shape, generator, out.device)
        multiply_groups_(values, rows, columns, scale[first // rows : -(-(first + values.shape[0]) // rows)])
        out[first : first + step] = values
    return out


def multiply_groups_(values: torch.Tensor, rows: int, columns: int, factors: torch.Tensor) -> None:
    """Multiply values[..., R,C] in place by factors[..., cd(R,rows), cd(C,columns)] of its group, without a copy."""
    for r, rows_each, group_rows in _whole_and_edge(values.shape[-2], rows):
        for c, columns_each, group_columns in _whole_and_edge(values.shape[-1], columns):
            part = values[..., r, c].unflatten(-1, (-1, columns_each)).unflatten(-3, (-1, rows_each))
            part.mul_(factors[..., group_rows, group_columns][..., :, None, :, None])


def _whole_and_edge(size: int, unit: int) -> Iterator[tuple[slice, int, slice]]:
    """Elements of the whole groups, then of the group at the edge: (elements, elements per group, groups)."""
    groups, edge = divmod(size, unit)
    if groups:
        yield slice(0, groups * unit), unit, slice(0, groups)
    if edge:
        yield slice(groups * unit, size), edge, slice(groups, groups + 1)
