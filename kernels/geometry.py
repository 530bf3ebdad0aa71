"""How a launch divides its work: what limits of waves, tiles and decoding are computed from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Grid = tuple[int, int, int]
"""Workgroups of a launch along each axis."""


@dataclass(frozen=True, slots=True)
class Binary:
    """The compiled main kernel, as Triton returns it, and the weights that a workgroup decodes per iteration of its
    main loop (None: it decodes none, or has several such loops).

    loop_rank  which of several loops the median workgroup runs, as in `isa.loops.main_loop`
    """

    compiled: Any
    decoded: int | None = None
    loop_rank: int = 0


@dataclass(frozen=True, slots=True)
class Geometry:
    """Of the main kernel of a launch, the one that multiplies or the only one; None is unknown.

    tile_M, tile_N     rows and columns of the output that a workgroup computes at a time
    workgroups         that have something to do, parts of a divided K included; fewer than tiles in a persistent kernel
    resident           workgroups that one SM, CU or WGP (as the device counts its compute units) holds at once
    issued_flops       FLOPs handed to the matrix units in one launch, M, N and K padded to whole tiles
    decode_per_weight  vector instructions of all lanes per decoded weight
    decoded_weights    weights decoded in one launch, padding and every row of tiles included
    decode_integer_per_weight  those of decode_per_weight that issue at the rate of shifts and logic
    iterations         of its main loop in one workgroup, the mean over them
    binary             what `resident` and the instructions per weight are read from where they are not given
    others             other kernels of the launch, one after another; of several that multiply, these too
    clocks             of a kernel whose code is not read: those that all units together take at least
    """

    tile_M: int | None = None
    tile_N: int | None = None
    workgroups: int | None = None
    resident: int | None = None
    issued_flops: int | None = None
    decode_per_weight: float | None = None
    decoded_weights: int | None = None
    decode_integer_per_weight: float | None = None
    iterations: float | None = None
    binary: Binary | None = None
    others: tuple["Geometry", ...] = ()
    clocks: int | None = None


@dataclass(frozen=True, slots=True)
class Tiling:
    """What a kernel does with its grid; stated where the grid is made.

    tile_M, tile_N  rows and columns of the output that a workgroup computes at a time
    contracted      elements along the contracted dimension, padded to whole steps, of all tiles together
    matrix          products are made by tl.dot, `repeated` times as many as the tile has (zeros that are multiplied)
    step            elements along the contracted dimension that one iteration of the main loop takes; None: it has
                    several such loops
    decodes         weights are decoded, those of a step for all columns of the tile in each iteration
    workgroups      those of the grid that have something to do; None: all
    loop_rank       as in `Binary`
    """

    tile_M: int
    tile_N: int
    contracted: int
    step: int | None = None
    matrix: bool = True
    repeated: int = 1
    decodes: bool = False
    workgroups: int | None = None
    loop_rank: int = 0

    @property
    def decoded_per_step(self) -> int | None:
        """Weights that a workgroup decodes per iteration of its main loop; None: it decodes none, or has several."""
        return self.tile_N * self.step if self.decodes and self.step else None

    @property
    def decoded_weights(self) -> int | None:
        """Weights decoded in one launch; None: none."""
        return self.tile_N * self.contracted if self.decodes else None


def geometry_of(grid: Grid, compiled: Any, tiling: Tiling | None = None) -> Geometry:
    """Describe a launch by its grid, its binary (None: interpreted) and what it does; None: nothing is multiplied."""
    if tiling is None:
        return Geometry(workgroups=math.prod(grid), binary=Binary(compiled) if compiled else None)
    tile = tiling.tile_M * tiling.tile_N
    workgroups = tiling.workgroups or math.prod(grid)
    return Geometry(
        tile_M=tiling.tile_M,
        tile_N=tiling.tile_N,
        workgroups=workgroups,
        iterations=tiling.contracted / tiling.step / workgroups if tiling.step else None,
        issued_flops=2 * tile * tiling.contracted * tiling.repeated if tiling.matrix else None,
        decoded_weights=tiling.decoded_weights,
        binary=Binary(compiled, tiling.decoded_per_step, tiling.loop_rank) if compiled else None,
    )


_LINE_BYTES = 128
"""Of an L1 cache of NVIDIA, which looks up one line per clock (docs/measured-facts.md)."""


def transposing_copy(matrices: "torch.Tensor", arch: str) -> Geometry:
    """Describe torch's copy of transposed `matrices`, [..., R, C], on an architecture; known for sm90.

    Its threads follow the output, so neighbours load elements that are a row apart: each takes a line of its own where
    rows are as long as lines, and shares it with others where they are shorter.
    """
    if arch != "sm90":
        return Geometry()
    row_bytes = min(matrices.shape[-1] * matrices.element_size(), _LINE_BYTES)
    return Geometry(clocks=matrices.numel() * row_bytes // _LINE_BYTES)


def combined(parts: Sequence[Geometry], beside: Sequence[Geometry] = ()) -> Geometry | None:
    """Describe a launch of several main kernels, one after the other: sums, and tiles where they are alike.

    `beside` are the kernels of the launch that do something else.
    """
    if not parts:
        return Geometry(others=tuple(beside)) if beside else None
    first = parts[0]
    if len(parts) == 1:
        return replace(first, others=tuple(beside)) if beside else first
    return Geometry(
        tile_M=first.tile_M if all(one.tile_M == first.tile_M for one in parts) else None,
        tile_N=first.tile_N if all(one.tile_N == first.tile_N for one in parts) else None,
        issued_flops=_sum([one.issued_flops for one in parts]),
        decoded_weights=_sum([one.decoded_weights for one in parts]),
        others=(*parts, *beside),
    )


def padded(size: int, step: int) -> int:
    """Return `size`, rounded up to whole steps."""
    return -(-size // step) * step


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
