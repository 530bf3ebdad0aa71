"""Jobs: one problem with all its providers, for one device."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...shapes.verdict import Verdict
from ..plan import Cell, Task, tasks

Coordinates = tuple[str, ...]
"""A cell as stored rows name it: the texts of `plan.MODEL_FIELDS`."""


@dataclass(frozen=True)
class Job:
    """One task of the plan. All its cells are measured on one device, so that their ratios are of that device.

    `key` names its shard; it follows from suite and problem alone, so that a later call finds what an earlier stored.
    """

    task: Task
    rounds: int

    @cached_property
    def key(self) -> str:
        """Name of the shard: what can be read of the problem, and a hash of all of it."""
        cell = self.task.cells[0]
        said = {name: value for name, value in cell.fields.items() if name not in ("provider", "cache")}
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]
        problem = cell.problem
        return f"M{problem.M}-N{problem.N}-K{problem.K}-{cell.scheme.dtype.value}-{digest}"

    @property
    def weight(self) -> tuple[object, ...]:
        """Jobs that agree in this share a weight, which a device keeps from one to the next."""
        cell = self.task.cells[0]
        return cell.shape, cell.scheme

    @cached_property
    def cells(self) -> Mapping[Coordinates, Cell]:
        """Its cells by their coordinates."""
        return {coordinates(cell): cell for cell in self.task.cells}

    @property
    def units(self) -> int:
        """Number of (cell, round)."""
        return len(self.task.cells) * self.rounds

    def missing(self, stored: Mapping[Coordinates, Mapping[int, Verdict]]) -> int:
        """Count the units that are still to be measured, given the verdicts of each cell by round."""
        return sum(self._missing_rounds(stored.get(place, {})) for place in self.cells)

    def _missing_rounds(self, verdicts: Mapping[int, Verdict]) -> int:
        if any(verdict.is_final for verdict in verdicts.values()):
            return 0
        return sum(number not in verdicts for number in range(self.rounds))


def jobs_of(cells: Sequence[Cell], rounds: int) -> tuple[Job, ...]:
    """Divide a plan into jobs, in its order. Cells of one problem that do not stand together become one job."""
    found: dict[str, Job] = {}
    for task in tasks(tuple(cells)):
        job = Job(task, rounds)
        if earlier := found.get(job.key):
            job = Job(Task(tuple(dict.fromkeys((*earlier.task.cells, *task.cells)))), rounds)
        found[job.key] = job
    return tuple(found.values())


def coordinates(cell: Cell) -> Coordinates:
    """Return the texts that a stored row of this cell has in the columns of `MODEL_FIELDS`."""
    return tuple("" if value is None else str(value) for value in cell.fields.values())


def units_of(jobs: Iterable[Job]) -> int:
    """Number of (cell, round) of all."""
    return sum(job.units for job in jobs)
