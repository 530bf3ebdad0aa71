"""Jobs: what one device does in one piece. In a sweep that is one problem with all its providers."""

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ...shapes.run_folder.manifest import Manifest
from ...shapes.verdict import Verdict
from ..plan.plan import MODEL_FIELDS, Cell, Task, tasks

Coordinates = tuple[str, ...]
"""A cell as stored rows name it: the texts of `plan.MODEL_FIELDS`."""

Verdicts = Mapping[Coordinates, Mapping[int, Verdict]]
"""What is stored of cells: the verdicts of their rounds."""

PROBLEM = tuple(at for at, name in enumerate(MODEL_FIELDS) if name not in ("provider", "cache"))
"""Which of the `Coordinates` say what problem it is."""


class Listener(Protocol):
    """Whoever is told what came home."""

    def finished(self, cell: Cell, verdict: Verdict, reason: str, units: int) -> None:
        """Tell that units of a cell came home."""

    def home(self, units: int) -> None:
        """Tell that units came home of which there is no more to say."""


class Told(Protocol):
    """What a shard says of its job."""

    @property
    def manifest(self) -> Manifest:
        """Its run.json."""

    @property
    def verdicts(self) -> Verdicts:
        """Verdicts by cell and round."""

    @property
    def reasons(self) -> Mapping[Coordinates, str]:
        """Reasons of the last failures by cell."""


class AnyJob(Protocol):
    """What a fleet hands out, stores and counts; its text names it to the reader."""

    @property
    def key(self) -> str:
        """Name of its shard; it does not depend on who measures, or when."""

    @property
    def weight(self) -> Hashable:
        """Jobs that agree in this share operands, which a device keeps from one to the next."""

    @property
    def kind(self) -> Hashable:
        """Jobs that agree in this take times of one order."""

    @property
    def units(self) -> int:
        """Units that progress counts."""

    def planned(self, manifest: Manifest | None) -> int:
        """Count its (cell, round) in the tables; `manifest` is that of its shard where one holds it as a whole."""

    def holds(self, place: Coordinates) -> bool:
        """Tell whether a stored row can be of it."""

    def missing(self, stored: Told) -> int:
        """Count what is still to be measured, given what a shard has of it."""

    def tell(self, stored: Told, listener: Listener) -> None:
        """Tell what a shard has of it."""


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

    def __str__(self) -> str:
        return str(self.task.problem)

    @property
    def weight(self) -> Hashable:
        """See `AnyJob`: what its problem and others have in common."""
        cell = self.task.cells[0]
        return cell.shape, cell.scheme

    @property
    def kind(self) -> Hashable:
        """See `AnyJob`."""
        cell = self.task.cells[0]
        return cell.shape, cell.scheme, cell.problem.pass_, len(self.task.cells)

    @cached_property
    def cells(self) -> Mapping[Coordinates, Cell]:
        """Its cells by their coordinates."""
        return {coordinates(cell): cell for cell in self.task.cells}

    @property
    def units(self) -> int:
        """Number of (cell, round)."""
        return len(self.task.cells) * self.rounds

    def planned(self, manifest: Manifest | None) -> int:
        """See `AnyJob`: its plan is known from the start."""
        return self.units

    @cached_property
    def _problem(self) -> Coordinates:
        place = coordinates(self.task.cells[0])
        return tuple(place[at] for at in PROBLEM)

    def holds(self, place: Coordinates) -> bool:
        """See `AnyJob`."""
        return tuple(place[at] for at in PROBLEM) == self._problem

    def missing(self, stored: Told) -> int:
        """Count the units that are still to be measured: a failure ends its cell."""
        return sum(self._missing_rounds(stored.verdicts.get(place, {})) for place in self.cells)

    def tell(self, stored: Told, listener: Listener) -> None:
        """See `AnyJob`: each cell by its worst verdict. One that came home in part, at a stop, is to be done still."""
        for place, cell in self.cells.items():
            rounds = stored.verdicts.get(place, {})
            worst = next((verdict for verdict in rounds.values() if verdict is not Verdict.PASSED), Verdict.PASSED)
            if rounds:
                units = self.rounds if worst.is_final else len(rounds)
                listener.finished(cell, worst, stored.reasons.get(place, ""), units)

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


def units_of(jobs: Iterable[AnyJob]) -> int:
    """Number of units of all."""
    return sum(job.units for job in jobs)
