"""The messages between the parent and its worker process: plain values, which `wire` sends through a pipe."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.protocol import Protocol
from ...shapes.run_folder.manifest import StoredProvider
from ...shapes.scheme import Scheme
from ...shapes.tuned import TunedTable
from ...shapes.verdict import Verdict
from ..plan.plan import Cell, Task
from ..timing.samples import Samples
from .code_origin import Origin

CANARY_PHASE = "time the canary"
"""Phase of `Begin` that belongs to no cell."""

IMPORT_PHASE = "import the providers"
"""Phase of `Begin` before a worker is ready."""

PREPARE_PHASE = "prepare"
"""Phase in which a provider may compile."""

MEASURE_PHASE = "measure"
"""Phase in which a provider is launched."""

TRY_PHASE = "try"
"""Phase in which a candidate of a search is launched."""

REFERENCE_PHASE = "compute the reference of"
"""Phase of `Begin` with which every round of a task starts."""

Failure = tuple[Verdict, str]
"""Verdict and reason."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python of a version: its program, environment variables, the folder in which it runs, and where it prints."""

    program: Path
    variables: Mapping[str, str]
    folder: Path
    log: Path


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything a worker needs before its first task.

    `tuned` are the pinned configurations, `contests` which providers are compared on which problem (`plan.contests`),
    `origin` where the code of an arm may come from, and `interpreter` what runs it (None: that of this process).
    `Ready` has the default configurations of the cells in `asked`.
    """

    device: str
    protocol: Protocol
    providers: tuple[str, ...]
    files: tuple[Path, ...]
    tuned: TunedTable | None = None
    contests: tuple[tuple[Problem, Scheme, tuple[str, ...]], ...] = ()
    origin: Origin | None = None
    asked: tuple[Cell, ...] = ()
    interpreter: Interpreter | None = None


@dataclass(frozen=True, slots=True)
class ChildCall:
    """What a child process calls in place of being a worker (`in_child`): `act`, with a function that sends `Begin`.

    `within_s` is the time that all of it should take once the import is over.
    """

    act: Callable[[Callable[[str], object]], Any]
    protocol: Protocol
    within_s: float | None = None
    interpreter: Interpreter | None = None


@dataclass(frozen=True, slots=True)
class Plain:
    """What is asked of such a child, or what it answers."""

    value: Any


@dataclass(frozen=True, slots=True)
class ChosenConfig:
    """A configuration (None: the provider's own default) and where it comes from: default, pinned or cold.

    Of a search (cold), the number of candidates and its wall seconds. `remark` is for the reader of the cell.
    """

    config: Mapping[str, Any] | None
    tuning: str
    candidates: int | None = None
    seconds: float | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Calibrate:
    """Ask for the ceilings of the device, with the GEMM peaks of these types, in `within_s` seconds at most."""

    types: tuple[str, ...]
    within_s: float | None = None


@dataclass(frozen=True, slots=True)
class TakeCanary:
    """Ask for a reading of the canary; the worker also takes one by itself when the last is a minute old."""


@dataclass(frozen=True, slots=True)
class Work:
    """Measure the missing rounds of one task: `rounds[i]` are those of `task.cells[i]`.

    `chosen` has, by cell, the configuration that an earlier search of this run found, `failed_candidates` those that
    ended an earlier worker, with verdict and reason. `canary`: time it when the last reading is a minute old.
    `budget_s` None is that of the protocol. `searches_only`: each round is a search, and nothing else is measured.
    `alone` is the only provider that this process measures from now on, as it `left` settings changed.
    """

    task: Task
    rounds: tuple[tuple[int, ...], ...]
    chosen: Mapping[int, ChosenConfig] = field(default_factory=dict)
    failed_candidates: Mapping[int, Mapping[int, Failure]] = field(default_factory=dict)
    canary: bool = True
    budget_s: float | None = None
    searches_only: bool = False
    alone: str = ""
    left: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """The last report of the worker is stored: it may continue, or must leave the task unfinished (`enough`)."""

    enough: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker is set up: the device it found, its environment, the providers it loaded.

    `remark` is what the user should know of them before anything is measured. `defaults` are those of the cells that
    `Setup` asks for, None where there is nothing to choose.
    """

    device: Device
    environment: dict[str, str]
    providers: dict[str, StoredProvider]
    timer: str
    cold_by: str
    tuning: str
    telemetry: str
    threads: int
    remark: str = ""
    defaults: tuple[Mapping[str, Any] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Rows of ceilings.csv, and remarks by a key that a later calibration repeats, whatever its figures."""

    rows: list[dict[str, Any]]
    remarks: dict[str, str]


@dataclass(frozen=True, slots=True)
class CanaryTaken:
    """Rows of canary.csv without their process, or why there are none."""

    rows: list[dict[str, Any]]
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Begin:
    """What the worker does from now on, and the units (cell index, round) that are lost if it dies doing so.

    Of a search, they are lost by its `candidate`, which alone is to blame.
    """

    phase: str
    units: tuple[tuple[int, int], ...] = ()
    candidate: int | None = None


@dataclass(frozen=True, slots=True)
class UnitResult:
    """One finished unit: columns of its row beside the static ones, and its samples."""

    index: int
    round: int
    columns: dict[str, Any]
    samples: Samples = field(default_factory=Samples)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One finished search: its rows of tuning.csv, without the columns that the parent knows."""

    index: int
    rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Done:
    """The task is finished. `restart`: process, device or operands were lost to a fault: this worker ends itself.

    `left` says of a provider what it has left changed, so that it is to be measured after the others. `failure` is that
    of the last candidate begun, where it cost the device or the operands.
    """

    restart: bool = False
    failure: Failure | None = None
    left: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """The setup failed, or an arm imported code that is not its own; the user can act on the message."""

    message: str
    exit_code: int
