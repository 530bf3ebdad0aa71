"""Jobs: what one device measures in one piece. Pure.

A job of a sweep is one problem with all its providers. A job of a comparison is a chunk: whole problems, each measured
in all versions and rounds by the same device.
"""

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

from ....harness.compare.replay import COORDINATES, Row
from ....harness.plan.plan import MODEL_FIELDS, Cell, Task, tasks
from ....harness.sweep.events import Finished, Observer
from ....shapes.run_folder.manifest import Manifest, StoredWorker
from ....shapes.verdict import Verdict

Coordinates = tuple[str, ...]
"""A cell as stored rows name it: the texts of `plan.MODEL_FIELDS`."""

CHUNKS_PER_DEVICE = 2
"""More would shorten the wait for the last device, but every round of every chunk starts a process."""

_PROBLEM = [at for at, name in enumerate(MODEL_FIELDS) if name not in ("provider", "cache")]
"""Which of the `Coordinates` identify the problem."""

_ROW_PROBLEM = [at for at, name in enumerate(COORDINATES) if name not in ("provider", "cache")]
_ROW_SIZES = [COORDINATES.index(name) for name in ("M", "N", "K")]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What is stored of a job: run.json and, by cell, the verdicts of its rounds and the reason of the last failure."""

    manifest: Manifest
    verdicts: Mapping[Coordinates, Mapping[int, Verdict]]
    reasons: Mapping[Coordinates, str]

    @property
    def worker(self) -> StoredWorker:
        """The device worker that measured it."""
        return self.manifest.of_station


@dataclass(frozen=True)
class SweepJob:
    """One task of the plan. All its cells are measured on one device, so that their ratios are of that device."""

    task: Task
    rounds: int

    @cached_property
    def key(self) -> str:
        """Name of the shard: follows from suite and problem alone, so that a later call finds it again."""
        cell = self.task.cells[0]
        content = {name: value for name, value in cell.fields.items() if name not in ("provider", "cache")}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
        problem = cell.problem
        return f"M{problem.M}-N{problem.N}-K{problem.K}-{cell.scheme.dtype.value}-{digest}"

    def __str__(self) -> str:
        return str(self.task.problem)

    @property
    def weight(self) -> Hashable:
        """Jobs with equal weights share operands, which a device keeps from one to the next."""
        cell = self.task.cells[0]
        return cell.shape, cell.scheme

    @cached_property
    def cells(self) -> Mapping[Coordinates, Cell]:
        """Its cells by their coordinates."""
        return {coordinates(cell): cell for cell in self.task.cells}

    @property
    def units(self) -> int:
        """Units that progress counts: (cell, round)."""
        return len(self.task.cells) * self.rounds

    def planned(self, manifest: Manifest | None) -> int:
        """Number of its (cell, round) in the tables."""
        return self.units

    @cached_property
    def _problem(self) -> Coordinates:
        return _columns(coordinates(self.task.cells[0]), _PROBLEM)

    def holds(self, place: Coordinates) -> bool:
        """Tell whether a stored row can belong to it."""
        return _columns(place, _PROBLEM) == self._problem

    def missing(self, stored: JobResult) -> int:
        """Number of units still to be measured: a failure ends its cell."""
        return sum(self._missing_rounds(stored.verdicts.get(place, {})) for place in self.cells)

    def report(self, stored: JobResult, observer: Observer) -> None:
        """Report each cell by its worst verdict. One that is stored in part, after a stop, is still to be measured."""
        for place, cell in self.cells.items():
            rounds = stored.verdicts.get(place, {})
            worst = next((verdict for verdict in rounds.values() if verdict is not Verdict.PASSED), Verdict.PASSED)
            if rounds:
                units = self.rounds if worst.is_final else len(rounds)
                observer(Finished(units, cell, worst, stored.reasons.get(place, "")))

    def _missing_rounds(self, verdicts: Mapping[int, Verdict]) -> int:
        if any(verdict.is_final for verdict in verdicts.values()):
            return 0
        return sum(number not in verdicts for number in range(self.rounds))


@dataclass(frozen=True)
class Chunk:
    """A part of a comparison: `rows` as `replay.keep_only` reads them. Progress counts rounds of arms."""

    rows: tuple[Row, ...]
    suite: str
    rounds: int
    arms: int

    @cached_property
    def key(self) -> str:
        """Name of the shard: the first problem, and a hash of all cells."""
        digest = hashlib.sha256(json.dumps([self.suite, self.rows]).encode()).hexdigest()[:12]
        return f"chunk-{'-'.join(f'{name}{size}' for name, size in self._first)}-{digest}"

    def __str__(self) -> str:
        more = len(self._problems) - 1
        return " ".join(f"{name}={size}" for name, size in self._first) + (f" and {more} more" if more else "")

    @property
    def weight(self) -> Hashable:
        """Its own: every round starts a process, which keeps no operands of another chunk."""
        return self.key

    @property
    def units(self) -> int:
        """Units that progress counts: (arm, round)."""
        return self.rounds * self.arms

    def planned(self, manifest: Manifest | None) -> int:
        """Number of (cell, round) in the tables; one provider is assumed until a shard's run.json names them all."""
        if manifest is None:
            return len(self.rows) * self.rounds
        return (manifest.planned_units or 0) // (manifest.rounds or 1) * self.rounds

    def holds(self, place: Coordinates) -> bool:
        """Tell whether a stored row can belong to it."""
        return _columns(place, _PROBLEM) in self._problems

    def missing(self, stored: JobResult) -> int:
        """Number of units counted from the first round that some arm has not finished: the same for all arms."""
        return max(0, self.rounds - (stored.worker.rounds or 0)) * self.arms

    def report(self, stored: JobResult, observer: Observer) -> None:
        """Report the rounds of arms that are stored."""
        observer(Finished(stored.worker.steps or 0))

    @property
    def _first(self) -> list[tuple[str, object]]:
        return [(COORDINATES[at], self.rows[0][at]) for at in _ROW_SIZES]

    @cached_property
    def _problems(self) -> frozenset[Coordinates]:
        """The texts of stored rows."""
        texts = [dict(zip(COORDINATES, row, strict=True)) | {"suite": self.suite} for row in self.rows]
        names = [MODEL_FIELDS[at] for at in _PROBLEM]
        return frozenset(tuple("" if row[name] is None else str(row[name]) for name in names) for row in texts)


Job = SweepJob | Chunk
"""What a fleet hands out and stores; its text names it to the reader, its key names its shard."""


def jobs_of(cells: Sequence[Cell], rounds: int) -> tuple[SweepJob, ...]:
    """Divide a plan into jobs, in its order. Cells of one problem form one job even if they are not neighbours."""
    found: dict[str, SweepJob] = {}
    for task in tasks(tuple(cells)):
        job = SweepJob(task, rounds)
        if earlier := found.get(job.key):
            job = SweepJob(Task(tuple(dict.fromkeys((*earlier.task.cells, *task.cells)))), rounds)
        found[job.key] = job
    return tuple(found.values())


def coordinates(cell: Cell) -> Coordinates:
    """Return the texts that a stored row of this cell has in the columns of `MODEL_FIELDS`."""
    return tuple("" if value is None else str(value) for value in cell.fields.values())


def rows_of(cells: Iterable[Cell]) -> tuple[Row, ...]:
    """Return the distinct coordinates of `cells` for any provider: an arm may have others than this plan."""
    places = ({**cell.fields, "provider": None} for cell in cells)
    return tuple(dict.fromkeys(tuple(place[name] for name in COORDINATES) for place in places))


def problems(rows: Iterable[Row]) -> int:
    """Number of problems in rows."""
    return len({_columns(row, _ROW_PROBLEM) for row in rows})


def chunks_of(rows: Sequence[Row], count: int, suite: str, rounds: int, arms: int) -> tuple[Chunk, ...]:
    """Divide rows into at most `count` chunks of whole problems, neighbours together; none is empty."""
    members: dict[Row, list[Row]] = {}
    for row in rows:
        members.setdefault(_columns(row, _ROW_PROBLEM), []).append(row)
    groups = list(members.values())
    count = min(count, len(groups))
    cuts = pairwise(len(groups) * number // count for number in range(count + 1))
    return tuple(Chunk(tuple(chain.from_iterable(groups[begin:end])), suite, rounds, arms) for begin, end in cuts)


def _columns(row: Row, at: Iterable[int]) -> Row:
    return tuple(row[one] for one in at)
