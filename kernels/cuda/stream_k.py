"""Products whose tiles are divided evenly among blocks (stream-K): what all of them share."""

import math
import struct
from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ..geometry import Geometry
from ..needs import WRITTEN_FOR_SM90
from ..provider import Config, InputsT, SchemeT, Support
from .provider import CudaGemm, LaunchPlan

MOST_ROWS = 64
"""Of X: more would take a second launch, which reads W again."""

_MOST_BLOCKS = 1024
"""More than any device of sm90 holds: `Work` counts in 32 bits."""


class StreamKGemm(CudaGemm[SchemeT, InputsT]):
    """Y[M,N] = X[M,K] W[N,K]^T for up to 64 rows of X.

    Configurations have ROWS (of W in a tile), STAGES and BLOCKS. A subclass defines `plan`, `columns`, `operand_bytes`
    and `candidates`. `prepare` puts the scales of W in the order of reading; W stays as it is. Launches
    of what it returns share scratch memory: one at a time.
    """

    step: ClassVar[int]
    """Columns of W in a stage."""
    least_rows: ClassVar[int]
    """Of W in a tile."""
    decodes: ClassVar[bool]
    """Whether elements of W are decoded by vector instructions."""

    def supports(self, problem: Problem, scheme: SchemeT, device: Device) -> Support:
        """On sm90, up to 64 rows of X, unbatched."""
        if device.arch != "sm90":
            return Support.no(WRITTEN_FOR_SM90)
        if problem.B != 1 or problem.M > MOST_ROWS:
            return Support.no(f"takes up to {MOST_ROWS} rows of X, unbatched")
        if not _countable(*tiles_and_steps(problem, self.least_rows, self.step)):
            return Support.no(f"N={problem.N}, K={problem.K} have more steps than 32 bits count")
        return Support.yes()

    @abstractmethod
    def columns(self, problem: Problem) -> int:
        """Columns of Y in a tile, at least M."""

    def part_columns(self, problem: Problem, scheme: SchemeT) -> int:
        """Columns of the sums, at least M, that a block leaves of a tile whose end it does not have: all."""
        return self.columns(problem)

    @abstractmethod
    def operand_bytes(self, problem: Problem, scheme: SchemeT) -> int:
        """Bytes of operands and output, with scales as they are read."""

    def geometry(self, inputs: InputsT, config: Config, plan: LaunchPlan) -> Geometry:
        """Tiles with the columns and rows that they are padded with."""
        rows, columns = config["ROWS"], self.columns(inputs.problem)
        padded = math.prod(tiles_and_steps(inputs.problem, rows, self.step)) * rows * self.step
        return Geometry(
            tile_M=columns,
            tile_N=rows,
            workgroups=plan.grid,
            resident=plan.resident,
            issued_flops=2 * columns * padded,
            decoded_weights=padded if self.decodes else None,
        )

    def moved_bytes(self, problem: Problem, scheme: SchemeT, config: Config) -> int:
        """Operands and output once; parts of shared tiles written and read."""
        return self.operand_bytes(problem, scheme) + 2 * self._part_bytes(problem, scheme, config)

    def working_set_bytes(self, problem: Problem, scheme: SchemeT, config: Config) -> int:
        """Operands, output, and the parts of tiles that blocks share."""
        return self.operand_bytes(problem, scheme) + self._part_bytes(problem, scheme, config)

    def _part_bytes(self, problem: Problem, scheme: SchemeT, config: Config) -> int:
        """Bytes of the sums, fp32, of whole tiles, that blocks leave for the one that has the end of the tile."""
        tiles, steps = tiles_and_steps(problem, config["ROWS"], self.step)
        blocks = min(int(config["BLOCKS"]), tiles * steps)
        left = sum(block * tiles * steps // blocks % steps != 0 for block in range(blocks))
        return 4 * self.part_columns(problem, scheme) * int(config["ROWS"]) * left


def tiles_and_steps(problem: Problem, rows: int, step: int) -> tuple[int, int]:
    """Tiles of `rows` of W, and stages of `step` columns of each."""
    return math.ceil(problem.N / rows), math.ceil(problem.K / step)


def _countable(tiles: int, steps: int) -> bool:
    """Whether the kernels' quotients are exact: products of steps, and of steps and blocks, take 31 bits at most."""
    return tiles * steps * max(steps, _MOST_BLOCKS) <= 1 << 31


def worth_trying(estimated: Iterable[tuple[float, Config]]) -> list[Config]:
    """Configurations by estimated time, in us, the least first: six at most, and none of 1.3 times as much."""
    ranked = sorted(estimated, key=lambda one: one[0])
    return [config for us, config in ranked[:6] if us <= 1.3 * ranked[0][0]]


def grids(tiles: int, steps: int, units: int) -> set[int]:
    """Blocks that fill the device, and the most of which each has whole tiles, or each tile equally many of them."""
    if tiles <= units:
        even = tiles * min(steps, units // tiles)
    else:
        even = max(blocks for blocks in range(1, units + 1) if tiles % blocks == 0)
    return {min(units, tiles * steps), even}


def divided(tiles: int, steps: int, blocks: int) -> bytes:
    """Return `Work` of stream_k.cuh."""
    assert blocks <= _MOST_BLOCKS
    assert _countable(tiles, steps)
    each, more = divmod(tiles * steps, blocks)
    return struct.pack("3i2I", steps, each, more, *(-(-(1 << 31) // divisor) for divisor in (steps, blocks)))


def scratch(grid: int, rows: int, columns: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Parts of shared tiles, fp32, one per block, whose words are of turn 1, and turns of blocks: they begin with 0."""
    parts = torch.ones(grid * columns * rows, dtype=torch.int32, device=device).view(torch.float32)
    return parts, torch.zeros(grid, dtype=torch.int32, device=device)


def in_steps(values: torch.Tensor, rows: int, each: int) -> torch.Tensor:
    """Values [N, n] in the order of stages: bytes [tiles of `rows`, steps, rows * each], padded with 0."""
    tiles, steps = math.ceil(values.shape[0] / rows), math.ceil(values.shape[1] / each)
    size = values.element_size()
    padded = torch.zeros(tiles * rows, steps * each * size, dtype=torch.uint8, device=values.device)
    padded[: values.shape[0], : values.shape[1] * size] = values.contiguous().view(torch.uint8)
    return padded.view(tiles, rows, steps, each * size).transpose(1, 2).reshape(tiles, steps, -1)
