"""From a suite to ordered cells. Pure: no clock, no device, no files, and no torch."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, product
from typing import Annotated, Any

from ...shapes.conditions import rows_where
from ...shapes.device import Device
from ...shapes.errors import UsageError, quote
from ...shapes.files.record import Check
from ...shapes.problem import Pass, Problem
from ...shapes.scheme import DType, Scheme
from ...shapes.schemes import parse_scheme
from ...shapes.shapeset import Shape
from ...shapes.suite import Cache, Suite
from ...shapes.tuned import Key

MODEL_FIELDS = (
    *("suite", "model", "layer", "op", "pass", "B", "E", "top_k", "M", "N", "K"),
    *("dtype", "scheme", "provider", "cache"),
)
"""What --filter can speak about, and what a stored row says about its cell."""

StoredScheme = Annotated[
    Scheme,
    Check(
        "the name and dtype of a scheme",
        lambda value: isinstance(value, list) and len(value) == 2,
        lambda value: parse_scheme(value[0], DType(value[1])),
    ),
]


@dataclass(frozen=True, slots=True)
class Cell:
    """One (problem, scheme, provider, cache state): the unit of work, of identity and of resume."""

    suite: str
    shape: Shape
    problem: Problem
    scheme: StoredScheme
    provider: str
    cache: Cache

    @property
    def fields(self) -> dict[str, Any]:
        """Identity as plain values, keyed by `MODEL_FIELDS`."""
        problem, scheme = self.problem, self.scheme
        values = (
            *(self.suite, self.shape.model, self.shape.layer, problem.op.value, problem.pass_.value),
            *(problem.B, problem.E, problem.top_k, problem.M, problem.N, problem.K),
            *(scheme.dtype.value, scheme.name, self.provider, self.cache.value),
        )
        return dict(zip(MODEL_FIELDS, values, strict=True))

    @property
    def id(self) -> str:
        """Address: a hash of what is measured, the same on every device, of every version and in every suite."""
        place = {name: value for name, value in self.fields.items() if name != "suite"}
        return hashlib.sha256(json.dumps(place, sort_keys=True).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.provider} {self.shape.label} {self.problem} {self.scheme.dtype} {self.cache}"


@dataclass(frozen=True, slots=True)
class Task:
    """All cells of one problem: they share operands and reference, and are measured interleaved, round by round."""

    cells: tuple[Cell, ...]

    @property
    def problem(self) -> Problem:
        """Return the problem that all cells have."""
        return self.cells[0].problem

    @property
    def scheme(self) -> Scheme:
        """Return the scheme that all cells have."""
        return self.cells[0].scheme


def plan(suite: Suite, filter_expression: str = "") -> tuple[Cell, ...]:
    """List the cells of a suite: problems of one weight are neighbours (by rising M), and so are cells of one problem.

    Passes that a scheme does not have are excluded, see `left_out`, and shapes that it cannot store, see `refused`.
    `filter_expression` is a pandas query over `MODEL_FIELDS`, such as "M <= 64 and model.str.startswith('llama')".
    Raises UsageError for what no scheme of the suite can store, and where no cell is left.
    """
    cells = tuple(
        Cell(suite.name, shape, problem, scheme, name, cache)
        for shape, scheme, problems in _asked(suite)
        if not isinstance(problems, UsageError)
        for problem in problems
        for name, cache in product(suite.providers, suite.caches)
    )
    return _filtered(cells, filter_expression) if filter_expression else cells


def refused(suite: Suite) -> tuple[str, ...]:
    """Return why some schemes of the suite do not have some of its shapes, which others have: a line for each."""
    return tuple(dict.fromkeys(str(found) for *_, found in _asked(suite) if isinstance(found, UsageError)))


def _asked(suite: Suite) -> list[tuple[Shape, Scheme, tuple[Problem, ...] | UsageError]]:
    """Problems of each shape, scheme and pass, or why that scheme cannot store the shape.

    Raises UsageError for a shape that no scheme can store.
    """
    missing = left_out(suite)
    every = list(product(suite.shapes, suite.parsed_schemes(), suite.passes))
    found: list[tuple[Shape, Scheme, tuple[Problem, ...] | UsageError]] = []
    # Where nothing is left, the schemes say themselves what they do not have.
    for shape, scheme, pass_ in [one for one in every if (one[1].name, one[2]) not in missing] or every:
        try:
            found.append((shape, scheme, tuple(_problems(suite, shape, scheme, pass_))))
        except UsageError as error:
            found.append((shape, scheme, error))
    stored = {shape for shape, _, problems in found if not isinstance(problems, UsageError)}
    for shape, _, problems in found:
        if isinstance(problems, UsageError) and shape not in stored:
            raise problems
    return found


def left_out(suite: Suite) -> tuple[tuple[str, Pass], ...]:
    """Return each (name of a scheme, pass of the suite) of which the scheme has no such pass."""
    schemes = dict.fromkeys((scheme.name, scheme.passes) for scheme in suite.parsed_schemes())
    return tuple((name, pass_) for (name, passes), pass_ in product(schemes, suite.passes) if pass_ not in passes)


def _problems(suite: Suite, shape: Shape, scheme: Scheme, pass_: Pass) -> Iterator[Problem]:
    """Yield the problems of one shape by rising M. Raises UsageError for what the scheme cannot store."""
    for m in suite.sizes(shape):
        try:
            problem = Problem(m, shape.N, shape.K, shape.B, suite.op, pass_, shape.E, shape.top_k)
            scheme.check(problem)
        except UsageError as error:
            raise UsageError(f"shape {shape.label}: {error}") from None
        yield problem


def spread(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Order problems so that the first ones stand for all: one of each shape, with sizes in turn, then another of each.

    Shapes and their sizes start with the smallest and the largest; the cells of a problem stay together.
    """
    shapes = sorted(dict.fromkeys(cell.shape for cell in cells), key=lambda shape: (shape.N * shape.K, shape.label))
    every = tasks(cells)
    turns: dict[Task, tuple[int, int]] = {}
    for number, place in enumerate(_ends_first(len(shapes))):
        own = [task for task in every if task.cells[0].shape == shapes[place]]
        turns |= {own[index]: ((turn + number) % len(own), number) for turn, index in enumerate(_ends_first(len(own)))}
    return tuple(cell for task in sorted(every, key=turns.__getitem__) for cell in task.cells)


def _ends_first(count: int) -> list[int]:
    """Order 0 to `count` - 1: the ends, the middle, then the middles of what is left between those."""
    order, gaps = [0, count - 1], [(0, count - 1)]
    for low, high in gaps:  # grows while it is walked through
        middle = (low + high) // 2
        order.append(middle)
        gaps += [(low, middle), (middle, high)] if low < middle else []
    return list(dict.fromkeys(order))


def tasks(cells: tuple[Cell, ...]) -> tuple[Task, ...]:
    """Group neighbouring cells of one problem."""
    groups = groupby(cells, key=lambda cell: (cell.shape, cell.problem, cell.scheme))
    return tuple(Task(tuple(members)) for _, members in groups)


def distinct(cells: Iterable[Cell], device: Device) -> tuple[Cell, ...]:
    """Return the cells without those that differ from an earlier one in nothing but the name of the model."""
    found: dict[Key, Cell] = {}
    for cell in cells:
        found.setdefault(Key.of(device, cell.problem, cell.scheme, cell.provider, cell.cache), cell)
    return tuple(found.values())


def contests(cells: tuple[Cell, ...]) -> tuple[tuple[Problem, Scheme, tuple[str, ...]], ...]:
    """Return each problem and its storage, with the providers that are to be compared on it."""
    return tuple(
        (task.problem, task.scheme, tuple(dict.fromkeys(cell.provider for cell in task.cells))) for task in tasks(cells)
    )


def static_columns(cell: Cell) -> Mapping[str, Any]:
    """Columns of a stored row that follow from the cell alone."""
    problem, scheme = cell.problem, cell.scheme
    return cell.fields | {
        "M_total": problem.rows,
        "M_per_expert": problem.rows / problem.E if problem.E > 1 else None,
        "flops": problem.flops,
        "compulsory_bytes": scheme.compulsory_bytes(problem),
        "output_bytes": scheme.output_bytes(problem),
    }


def _filtered(cells: tuple[Cell, ...], expression: str) -> tuple[Cell, ...]:
    import pandas as pd

    frame = pd.DataFrame([cell.fields for cell in cells])
    holds = rows_where(frame, expression, "--filter", MODEL_FIELDS, "M <= 64 and provider != 'blas'")
    if not holds.any():
        raise UsageError(f"--filter {quote(expression)} leaves no cell of {len(cells)}")
    return tuple(cell for cell, keep in zip(cells, holds, strict=True) if keep)
