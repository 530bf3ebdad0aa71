"""Which provider or candidate a fault of a worker is attributed to."""

from dataclasses import dataclass, field

from ...shapes.errors import RooflensError
from ...shapes.protocol import Protocol
from ...shapes.verdict import Verdict
from ..isolation.build_locks import left_locks
from ..plan.plan import Task
from ..worker.messages import IMPORT_PHASE, MEASURE_PHASE, PREPARE_PHASE, TRY_PHASE, Begin, Failure, Interpreter

MOST_FRUITLESS = 3
"""Workers in a row that may end without having begun anything before a sweep gives up."""

LEAST_S = 5.0
"""Seconds that every wait has."""


@dataclass(slots=True)
class FaultAttribution:
    """The faults of one task so far.

    `failed_candidates` are candidates of searches that ended a worker, by cell and candidate; `in_flight` is what the
    worker does, by its last message.
    """

    in_flight: Begin = Begin("start the task")  # noqa: RUF009
    fruitless: int = 0
    futile: int = 0
    forgiven: set[str] = field(default_factory=set)
    failed_candidates: dict[int, dict[int, Failure]] = field(default_factory=dict)

    def begun(self, message: Begin) -> None:
        """Note what the worker does now. A phase that belongs to no cell is no progress."""
        self.in_flight = message
        if message.units:
            self.fruitless = 0

    def units(self, task: Task, failure: Failure) -> tuple[tuple[int, int], ...]:
        """Units that a fault costs; none where it costs a candidate, or is forgiven once.

        A phase that several providers share (their operands, their reference) is tried once more before it is blamed on
        them. Raises RooflensError when workers end one after another without having begun anything.
        """
        if self.fruitless == MOST_FRUITLESS:
            raise RooflensError(f"{MOST_FRUITLESS + 1} workers in a row ended before they began: {failure[1]}")
        self.fruitless += 1
        if self.in_flight.candidate is not None:
            self.fail_candidate(failure)
            return ()
        shared = len({task.cells[index].provider for index, _ in self.in_flight.units}) > 1
        if shared and self.in_flight.phase not in self.forgiven:
            self.forgiven.add(self.in_flight.phase)
            return ()
        return self.in_flight.units

    def changed_nothing(self, failure: Failure, is_so: bool) -> None:
        """Count the faults in a row that cost no unit: all that was in flight is stored. RooflensError for too many."""
        self.futile = self.futile + 1 if is_so else 0
        if self.futile > MOST_FRUITLESS:
            raise RooflensError(f"{self.futile} workers in a row ended at what is stored already: {failure[1]}")

    def fail_candidate(self, failure: Failure) -> None:
        """Record the verdict of the candidate in flight, if there is one."""
        if self.in_flight.candidate is not None:
            ((index, _),) = self.in_flight.units
            self.failed_candidates.setdefault(index, {})[self.in_flight.candidate] = failure


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a parent waits for a message of its worker, and for `what`.

    `seconds`, which end at `latest` at the latest (a monotonic time), though not within `LEAST_S`. While compilers are
    at work they are prolonged, to `most_s` at most: those that a launch has started, or whatever `builds`.
    """

    what: str
    seconds: float
    latest: float | None = None
    most_s: float = 0.0
    builds: bool = True

    def within_s(self, now: float) -> float:
        """Seconds from `now` on."""
        return self.seconds if self.latest is None else min(self.seconds, max(LEAST_S, self.latest - now))


def limit_of(protocol: Protocol, doing: Begin, what: str, latest: float | None = None) -> Limit:
    """Return the limit of the wait for the next message of a worker."""
    builds = _builds(doing)
    if not builds and not doing.phase.startswith((MEASURE_PHASE, TRY_PHASE)):  # it is ours, and does not hang
        latest = None
    seconds = protocol.build_timeout_s if builds else protocol.timeout_s
    return Limit(what, seconds, latest, max(seconds, protocol.build_timeout_s), builds)


def timed_out(protocol: Protocol, doing: Begin, interpreter: Interpreter | None = None) -> Failure:
    """Return verdict and reason of what exceeded its limit; `interpreter` as of `Setup`."""
    option = "build_timeout_s" if _builds(doing) else "timeout_s"
    reason = f"no end within {limit_of(protocol, doing, '').seconds:g} s; {option} sets the limit"
    return Verdict.TIMEOUT, "; ".join((reason, *locks_of(interpreter)))


def locks_of(interpreter: Interpreter | None) -> list[str]:
    """Say what to do about locks that builds by an interpreter have left."""
    return left_locks(interpreter.variables) if interpreter else left_locks()


def _builds(doing: Begin) -> bool:
    return doing.phase in (IMPORT_PHASE, PREPARE_PHASE)


def what(task: Task, message: Begin) -> str:
    """Describe what a worker does, for progress and for reasons."""
    if len(message.units) == 1:
        candidate = "" if message.candidate is None else f"candidate {message.candidate} of "
        return f"{message.phase} {candidate}{task.cells[message.units[0][0]]}"
    providers = {task.cells[index].provider for index, _ in message.units}
    if not providers:
        return message.phase
    who = next(iter(providers)) if len(providers) == 1 else f"{len(message.units)} cells of"
    return f"{message.phase} {who} {task.cells[0].shape.label} {task.problem}"
