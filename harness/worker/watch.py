"""See that every timed launch does its work: its activations have changed before it, and some outputs are checked.

A launch that finds its operands as it left them may keep its result, skip what nobody looks at, or leave the work to a
thread that ends later. So the signs of the activations change, untimed, before every sample (of copies that share a
flush, before every flush): what is left over from another sample is wrong. Of samples drawn at random the output is
copied as soon as the sample has ended, and compared when the round is over. In most of them the activations are those
whose product is known, or their negation. These come again and again, so that a launch may know them by sight and
compute for them alone: therefore, in rounds that are drawn, the activations of one sample (`FRESH`) are like those that
nobody looks at, and their product is computed when the round is over. What threads compute ahead, between samples, is
counted.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median

import torch

from ...kernels.provider import Launch
from ...kernels.reference import measure_all
from ..isolation.faults import IncorrectError, LeftBehindError
from ..timing.accelerator import Host
from ..timing.stop import REFERENCE_SHARE
from ..timing.timer import Subject, Timer
from .operands import SIGNS, Operands

KEPT = 4
"""Samples of a round whose outputs are checked, each sample as likely as any other, whatever their number."""

CHANCE = 0.5
"""Of a sample to be one of these. With certainty, most samples of a slow launch would have known activations, which
come again: a launch that keeps its results would have few left to compute."""

FRESH = 0
"""Number of the sample among these whose activations come once only, in rounds that are drawn: its reference costs as
much as that of the round."""

REPLAYED = 2
"""Outputs of launches by events that are checked at least, where the timed launches were replayed."""

LARGE_BYTES = 256 << 20
"""Of larger outputs one is kept: the memory is that of the device."""

SINGLE = 15
"""Launches that are timed one at a time, where a sample is the mean of many on the same activations."""

BURSTS = 5
"""Times that as many launches back to back are timed, where one looks as if it skipped work."""

REFRESHED = 50
"""Device operations that refreshing queues for a sample, by and large: how many they are is the provider's affair."""

SKIPPED = 3.0
"""Factor by which launches on changed activations may be slower than on the same: beyond it work is skipped."""

SLACK_S = 5e-6
"""Beside that factor: a first launch after other code takes microseconds more."""


AHEAD = 0.1
"""Share of a core between samples from which on a thread is taken to work ahead of the launch."""

AHEAD_S = 1e-3
"""Less than that in a round is nothing."""


@dataclass(slots=True)
class _Kept:
    """Outputs of one sample, and its activations: whether the negated ones, or how they were flipped (`FRESH`)."""

    outputs: list[torch.Tensor]
    negated: bool
    flipped: int


class Watch:
    """Changes the activations of a cell's launches, and keeps outputs of samples drawn at random.

    `subject` does what the given one does, watched, in `budget_s` or so. `threads_s` returns the processor time of the
    provider's threads. `refreshes` are called, untimed, once activations have changed (`Prepared`).
    """

    def __init__(
        self,
        operands: Operands,
        launches: Sequence[Launch],
        subject: Subject,
        machine: Host,
        budget_s: float,
        threads_s: Callable[[], float] = float,
        refreshes: Sequence[Callable[[], object]] = (),
    ) -> None:
        self._operands, self._launches, self._inner = operands, launches, subject
        self._random = random.SystemRandom()  # a provider cannot know, or seed, what it draws
        self._kept: dict[int, _Kept] = {}
        self._room = KEPT if operands.output_bytes <= LARGE_BYTES else 1
        # There is no room for a second reference of large outputs.
        self._has_fresh = self._room > 1 and self._random.random() * operands.reference_s < REFERENCE_SHARE * budget_s
        self._unchanged, self._drawn = len(launches), 0
        self._patterns: list[int] = []
        self._slot: int | None = None
        self._threads_s = threads_s
        self._ahead_s, self._between_s = 0.0, 0.0
        self._left, self._negated = 0, False
        self._refreshes = refreshes
        queued = operands.signed * len(launches) + REFRESHED * bool(refreshes) if machine.is_asynchronous else 0
        self.subject = replace(subject, before=self._before, after=self._after, operations=subject.operations + queued)

    def _before(self) -> None:
        """Change the activations where a turn of the copies begins: what is launched later in it is to be cold."""
        with self._counting_threads():
            self._change()
        self._refresh()
        with self._counting_threads():
            self._inner.before()

    @contextmanager
    def _counting_threads(self) -> Iterator[None]:
        began, used_s = time.perf_counter(), self._threads_s()
        yield
        self._ahead_s += max(0.0, self._threads_s() - used_s)
        self._between_s += time.perf_counter() - began

    def _refresh(self) -> None:
        for refresh in self._refreshes:
            refresh()

    def _change(self) -> None:
        if self._inner.copy() == 0 or self._unchanged >= len(self._launches):
            self._unchanged = 0
            slot = self._draw()
            if slot < self._room:
                self._keep(slot, self._random.randrange(len(self._launches)))
            else:
                self._flip()
                self._slot = None
        self._unchanged += 1

    def _draw(self) -> int:
        """Draw a slot for the next sample, one beyond the room for none.

        A reservoir: of however many samples there will be, each ends up in it with the same probability.
        """
        if self._random.random() >= CHANCE:
            return self._room
        self._drawn += 1
        return self._random.randrange(self._drawn) if self._drawn > self._room else self._drawn - 1

    def _flip(self) -> None:
        """Change the activations to some that were not there before: no pattern comes again before all have come."""
        self._patterns = self._patterns or self._random.sample(range(SIGNS), SIGNS)
        self._operands.flip(self._patterns.pop())

    def _keep(self, slot: int, left: int) -> None:
        """Change the activations; what the sample after `left` others makes of them is for `slot`."""
        self._slot, self._left = slot, left
        if slot == FRESH and self._has_fresh:
            self._flip()
        else:
            self._negated = not self._negated  # what is left over from the last known product is wrong as well
            self._operands.recall(self._negated)

    def _after(self) -> None:
        """Copy what the launch has written, if its sample was drawn; on a GPU in the same stream, behind the launch."""
        if self._slot is None:
            return
        self._left -= 1
        if self._left != -1:
            return
        flipped = self._operands.flipped(self._latest)
        # A mode of torch that the launch has entered could compute now.
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            outputs = self._outputs()
            kept = self._kept.get(self._slot)
            if kept is None or [clone.shape for clone in kept.outputs] != [output.shape for output in outputs]:
                clones = [output.clone() for output in outputs]
                self._kept[self._slot] = _Kept(clones, self._negated, flipped)
                return
            kept.negated, kept.flipped = self._negated, flipped
            for clone, output in zip(kept.outputs, outputs, strict=True):
                clone.copy_(output)

    @property
    def _latest(self) -> int:
        """The copy of the latest launch."""
        return (self._inner.copy() - 1) % len(self._launches)

    def _outputs(self) -> tuple[torch.Tensor, ...]:
        return self._operands.outputs_of(self._launches[self._latest])

    def check(self) -> None:
        """Compare what was kept, and restore the activations. Raises IncorrectError; LeftBehindError for work ahead.

        Outputs of both signs are compared, at the price of one more launch where those of one sign were not drawn:
        a result that is never computed again is wrong for one of them.
        """
        if self._ahead_s > max(AHEAD * self._between_s, AHEAD_S):
            raise LeftBehindError(
                f"a thread that it started works between samples, {self._ahead_s / self._between_s:.0%} of the time: "
                "what a launch needs of the activations is to be computed in the launch"
            )
        operands = self._operands
        assert operands.truth is not None
        if operands.rewritten():
            raise IncorrectError("wrote into the activations that all providers share; work on a copy", {})
        fresh = self._kept.pop(FRESH, None) if self._has_fresh else None
        try:
            with operands.negated_truth():
                self._compare_known(True, operands.truth)
            self._compare_known(False, operands.truth)
            if fresh:
                with operands.truth_of(fresh.flipped) as truth:
                    self._compare(fresh.outputs, truth)
        finally:
            operands.recall()

    def _compare_known(self, negated: bool, truth: Sequence[torch.Tensor]) -> None:
        found: list[Sequence[torch.Tensor]] = [kept.outputs for kept in self._kept.values() if kept.negated is negated]
        if not found:
            self._operands.recall(negated)
            self._inner.launch()
            found = [self._outputs()]
        for outputs in found:
            self._compare(outputs, truth)

    def _compare(self, outputs: Sequence[torch.Tensor], truth: Sequence[torch.Tensor]) -> None:
        for accuracy in measure_all(outputs, truth):
            if reason := accuracy.failure(self._operands.inputs.scheme):
                raise IncorrectError(
                    f"in a timed sample: {reason}; activations change in place before every sample: if it keeps what "
                    "it computed from an operand, by address or by `_version`, compute that in every launch",
                    accuracy.columns(),
                )

    def check_single(self, times_s: Sequence[float]) -> None:
        """Time launches on the CPU one at a time, and compare them with `times_s`, which are means of many.

        After other work, a launch may wait milliseconds for cores that other processes use; back to back, its threads
        are awake. So a suspicion must hold for the processor time of all threads as well, which has no waiting in it.
        """
        drawn = self._random.randrange(SINGLE) if self._has_fresh else None
        changed = [self._one(FRESH if number == drawn else None) for number in range(SINGLE)]
        wall_s, processor_s = (min(times) for times in zip(*changed, strict=True))
        if _is_skipped(wall_s, times_s) and _is_skipped(processor_s, [self._back_to_back() for _ in range(BURSTS)]):
            raise _skips(wall_s, times_s)

    def check_replayed(self, timer: Timer, times_s: Sequence[float]) -> None:
        """Time watched launches with `timer`, and compare them with `times_s`, which were replayed."""
        batch = timer.batch(SINGLE)
        for _ in range(len(self._launches)):
            if len(self._kept) >= min(REPLAYED, self._room):
                break
            timer.batch(SINGLE)  # the sample that was drawn is not among them yet
        if batch.blocked and _is_skipped(min(batch.times_s), times_s):  # else the host's latency is in them
            raise _skips(min(batch.times_s), times_s)

    def _one(self, slot: int | None) -> tuple[float, float]:
        """Time one launch on activations that it has not seen, and keep what it makes of them for `slot`.

        Returns seconds, and those of processors.
        """
        self._slot, self._left = slot, 0
        self._flip()
        self._refresh()
        began, used_s = time.perf_counter(), time.process_time()
        self._inner.launch()
        found = time.perf_counter() - began, time.process_time() - used_s
        self._after()
        return found

    def _back_to_back(self) -> float:
        """Processor time of a launch among many on the same activations, as in a sample."""
        for _ in self._launches:
            self._inner.launch()
        used_s = time.process_time()
        for _ in range(SINGLE):
            self._inner.launch()
        return (time.process_time() - used_s) / SINGLE


def _is_skipped(changed_s: float, times_s: Sequence[float]) -> bool:
    return changed_s > SKIPPED * median(times_s) + SLACK_S


def _skips(changed_s: float, times_s: Sequence[float]) -> IncorrectError:
    return IncorrectError(
        f"a launch takes {changed_s * 1e6:.3g} us on activations that have changed, and {median(times_s) * 1e6:.3g} us "
        "where they have not: it does not compute again what it keeps",
        {},
    )
