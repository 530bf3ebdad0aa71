"""Whose fault a fault was: what a task has been through with its workers so far."""

from dataclasses import dataclass, field

from ...shapes.errors import RooflensError
from ...shapes.protocol import Protocol
from ...shapes.verdict import Verdict
from ..isolation.build_locks import left_locks
from ..plan.plan import Task
from ..worker.messages import IMPORT_PHASE, PREPARE_PHASE, Begin, Failure, Trying

MOST_FRUITLESS = 3
"""Workers that may end one after another without having begun anything, before a sweep gives up."""


@dataclass(slots=True)
class FaultAttribution:
    """Bookkeeping of the faults of one task.

    `spoilt` are candidates of searches that ended a worker, by cell and candidate; `in_flight` is what the worker said
    last that it does.
    """

    in_flight: Begin | Trying = Begin("start the task", ())  # noqa: RUF009
    fruitless: int = 0
    forgiven: set[str] = field(default_factory=set)
    spoilt: dict[int, dict[int, Failure]] = field(default_factory=dict)

    def begun(self, message: Begin | Trying) -> None:
        """Take note of what the worker does now. A phase that belongs to no cell is no progress."""
        self.in_flight = message
        if isinstance(message, Trying) or message.units:
            self.fruitless = 0

    def units(self, task: Task, failure: Failure) -> tuple[tuple[int, int], ...]:
        """Units that a fault costs; none where it costs a candidate, or is forgiven once.

        A phase that several providers share (their operands, their reference) is nobody's fault yet: it is tried once
        more. Raises RooflensError when workers end one after another without having begun anything.
        """
        if self.fruitless == MOST_FRUITLESS:
            raise RooflensError(f"{MOST_FRUITLESS + 1} workers in a row ended before they began: {failure[1]}")
        self.fruitless += 1
        if isinstance(self.in_flight, Trying):
            self.spoil(failure)
            return ()
        shared = len({task.cells[index].provider for index, _ in self.in_flight.units}) > 1
        if shared and self.in_flight.phase not in self.forgiven:
            self.forgiven.add(self.in_flight.phase)
            return ()
        return self.in_flight.units

    def spoil(self, failure: Failure) -> None:
        """Give the candidate in flight its verdict, if one is."""
        if isinstance(self.in_flight, Trying):
            self.spoilt.setdefault(self.in_flight.index, {})[self.in_flight.candidate] = failure


def limit_s(protocol: Protocol, doing: Begin | Trying) -> float:
    """Return the seconds within which a worker must give a sign of life."""
    return protocol.build_timeout_s if _builds(doing) else protocol.timeout_s


def timed_out(protocol: Protocol, doing: Begin | Trying) -> Failure:
    """Return verdict and reason of what its worker was killed for, after `limit_s`."""
    option = "--build-timeout" if _builds(doing) else "--timeout"
    reason = f"no end within {limit_s(protocol, doing):g} s; {option} sets the limit"
    return Verdict.TIMEOUT, "; ".join((reason, *left_locks()))


def _builds(doing: Begin | Trying) -> bool:
    return doing.phase in (IMPORT_PHASE, PREPARE_PHASE)


def what(task: Task, message: Begin | Trying) -> str:
    """Say what a worker does, for progress and for reasons."""
    if isinstance(message, Trying):
        return f"{message.phase} candidate {message.candidate} of {task.cells[message.index]}"
    if len(message.units) == 1:
        return f"{message.phase} {task.cells[message.units[0][0]]}"
    providers = {task.cells[index].provider for index, _ in message.units}
    if not providers:
        return message.phase
    who = next(iter(providers)) if len(providers) == 1 else f"{len(message.units)} cells of"
    return f"{message.phase} {who} {task.cells[0].shape.label} {task.problem}"
