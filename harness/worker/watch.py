"""See that every timed launch does its work: its activations have changed before it, and some outputs are checked.

A launch that finds its operands as it left them may keep its result, skip what nobody looks at, or leave the work to a
thread that ends later. So the signs of the activations change, untimed, before every sample: of copies that share a
flush, before the flush; of copies in rotation, as soon as the copy was used, since what was just written is not cold.
What is left over from another sample is wrong. Of samples drawn at random the output is copied as soon as the sample
has ended, and compared when the round is over; room for it is there before the first one. In most of them the
activations are those whose product is known, or their negation, and the same operations write these and others. They
come again and again, so that a launch may know them by sight and compute for them alone: therefore one of the samples
whose activations come once only, drawn when it has ended, is checked as well, and some columns of its product, drawn
too, are computed when the round is over. What threads compute ahead, between
samples, is counted, and so is what is computed between the end of a launch and the copy of its output. Where a sample
is the mean of many launches, they are compared with launches between which activations change.
"""

import math
import random
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import torch

from ...kernels.provider import Launch
from ...kernels.reference import measure_all
from ..isolation.faults import IncorrectError, LeftBehindError, ProviderError
from ..timing.accelerator import Host
from ..timing.stop import REFERENCE_SHARE
from ..timing.timer import Subject, Timer
from .operands import SIGNS, Operands

KEPT = 4
"""Samples of a round whose outputs are checked, each sample as likely as any other, whatever their number.

One of them has activations that come once only. Its reference takes a part of the round's (`Operands.draw_columns`);
where that is too long still, rounds are drawn that have one."""

CHANCE = 0.5
"""Of a sample to have known activations. With certainty, most samples of a slow launch would have some, which come
again: a launch that keeps its results would have few left to compute."""

NOT_DRAWN = -1
"""What is to be kept of the next sample of a copy is not drawn yet."""

REPLAYED = 2
"""Outputs of launches by events that are checked at least, where the timed launches were replayed."""

LARGE_BYTES = 256 << 20
"""Of larger outputs one is kept: the memory is that of the device."""

SINGLE = 15
"""Launches that are timed one at a time, where the timed ones were replayed."""

LEAST_REPEATED = 8
"""Launches back to back at least, where a sample is the mean of many on the same activations."""

BURSTS, MOST_BURSTS = 5, 25
"""Times that as many are timed, with changes between them and without, and where changes seem to cost time."""

TRIES, PAUSE_S = 3, 0.05
"""Times that a suspicion must arise, and the seconds between: on busy cores, launches whose threads wait for each other
take any time, for up to a second."""

REPEATED = 1.25
"""Factor by which launches may be slower with changes: beyond it work is skipped."""

REFRESHED = 50
"""Device operations that refreshing queues for a sample, about: the provider decides how many."""

SLACK_S = 2e-6
"""Beside that factor."""

REPLAYED_SLOWER, REPLAYED_SLACK_S = 3.0, 5e-6
"""The same for replayed launches, which are compared with launches one at a time."""


AHEAD = 0.1
"""Share of a core between samples from which on a thread is taken to work ahead of the launch."""

AHEAD_S = 1e-3
"""Less than that in a round is nothing."""

LATE_S, LATE_SHARE = 50e-6, 0.1
"""Time between the end of a launch and a copy of its output that is nothing, beside a share of the launch, after which
the code that copies is in no cache, and `LATE_COPIES`. Other processes make some copies late: three in four must be."""

LATE_COPIES = 10.0
"""Times that copying the output takes the second time: the first time, memory may be in no cache."""


@dataclass(slots=True)
class _Kept:
    """Some columns of the outputs of one sample, and how its activations were flipped (`Operands.flipped`)."""

    outputs: list[torch.Tensor]
    part: slice
    flipped: int = 0
    is_written: bool = False

    @property
    def negated(self) -> bool:
        return self.flipped == 1 << SIGNS


class Watch:
    """Changes the activations of a cell's launches, and keeps outputs of samples drawn at random.

    `subject` does what the given one does, watched, in `budget_s` or so. `threads_s` returns the processor time of the
    provider's threads. `refreshes`, one of each launch or none, are called, untimed, once its activations have changed
    (`Prepared`).
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
        self._rooms: list[_Kept] = []
        self._late_s: list[float] = []
        self._machine = machine
        self._room = KEPT if operands.output_bytes <= LARGE_BYTES else 1
        within_s = REFERENCE_SHARE * budget_s
        self._part, reference_s = operands.draw_columns(within_s, self._random)
        # There is no room for a second reference of large outputs as a whole.
        has_room = self._room > 1 or self._part != slice(None)
        self._has_fresh = has_room and self._random.random() * reference_s < within_s
        self._known = self._room - self._has_fresh
        self._parts = [slice(None)] * self._known + [self._part] * self._has_fresh
        self._unchanged, self._others = len(launches), 0
        self._patterns: list[int] = []
        # Arrays: a launch could count the references to a number that is an attribute, or in a list.
        self._drawn = array("Q", [0])
        self._slots = array("b", [NOT_DRAWN]) * len(launches)
        """The room of the next sample of each copy, if its activations are to be known; the number of rooms if not."""
        self._negated = array("b", [False]) * len(launches)
        self._threads_s = threads_s
        self._ahead_s, self._between_s = 0.0, 0.0
        self._refreshes = refreshes
        self._rotates, self._version, self._from = subject.period > 1, -1, 0
        changed = 1 if self._rotates else len(launches)
        queued = operands.operations * changed + REFRESHED * bool(refreshes) if machine.is_asynchronous else 0
        self._operations = subject.operations + queued

    @property
    def subject(self) -> Subject:
        """Made when asked for: an attribute that leads back here would keep all operands until a garbage collection."""
        return replace(self._inner, before=self._before, after=self._after, operations=self._operations)

    def _before(self) -> None:
        """Change the activations where a turn of the copies begins: what is launched later in it is to be cold."""
        began, used_s = time.perf_counter(), self._threads_s()
        self._rooms = self._rooms or [_Kept(self._operands.output_room(part), part) for part in self._parts]
        self._change(self._seen())
        self._unchanged += 1
        self._inner.before()
        self._ahead_s += max(0.0, self._threads_s() - used_s)
        self._between_s += time.perf_counter() - began

    def _seen(self) -> list[int]:
        """Copies whose activations are to change now, in the order of their next samples.

        In a rotation they are those of the launches since the last call, be they samples or the timer's warm-up.
        """
        number, copy = len(self._launches), self._inner.copy()
        first, self._from = self._from, copy
        everyone = [(copy + step) % number for step in range(number)]
        if self._version != self._operands.version:  # candidates of a search have activations in common
            self._unchanged = 0
            return everyone
        if self._rotates:
            return [(first + step) % number for step in range((copy - first) % number or number)]
        if copy and self._unchanged < number:
            return []
        self._unchanged = 0
        return everyone

    def _change(self, copies: Iterable[int]) -> None:
        """Change the activations of copies, after drawing which of their next samples have known ones."""
        for copy in copies:
            if self._slots[copy] == NOT_DRAWN:  # else its latest launch was no sample
                self._slots[copy] = self._draw()
            is_known = self._slots[copy] < self._known
            self._negated[copy] ^= is_known  # what is left over from its last known product is wrong
            # No pattern comes again before all others have come.
            self._patterns = self._patterns or self._random.sample(range(SIGNS), SIGNS)
            self._operands.flip(self._patterns.pop(), copy, is_known=is_known, negated=bool(self._negated[copy]))
            for refresh in self._refreshes[copy : copy + 1]:
                refresh()
        self._version = self._operands.version

    def _draw(self) -> int:
        """Draw the room of a sample with known activations, or `self._known` for other activations.

        A reservoir: of however many samples there will be, each ends up in it with the same probability.
        """
        is_drawn = self._random.random() < CHANCE
        self._drawn[0] += is_drawn
        place = self._random.randrange(max(1, self._drawn[0]))
        room = self._drawn[0] - 1 if self._drawn[0] <= self._known else place
        return room if is_drawn and room < self._known else self._known

    def _after(self, ended_s: float | None = None) -> None:
        """Copy what the launch has written, if its sample was drawn; on a GPU in the same stream, behind the launch.

        Of samples with other than known activations, one is drawn now, when no launch can make use of it any more.
        `ended_s` is when the launch had ended: what others compute until the output is copied belongs to it.
        """
        copy = self._latest
        slot, self._slots[copy] = self._slots[copy], NOT_DRAWN
        if slot == self._known and self._has_fresh:
            self._others += 1
            slot += self._random.randrange(self._others) > 0
        if 0 <= slot < len(self._rooms):
            room = self._rooms[slot]
            # A mode of torch that the launch has entered could compute now.
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                self._copy(room)
                if ended_s is not None:
                    copied_s = self._machine.now()
                    self._copy(room)
                    again_s = self._machine.now() - copied_s
                    self._late_s.append(copied_s - ended_s - LATE_COPIES * again_s)
            room.flipped, room.is_written = self._operands.flipped(copy), True

    def _copy(self, room: _Kept) -> None:
        for copy, output in zip(room.outputs, self._outputs(), strict=True):
            copy.copy_(output[..., room.part])

    def _copy_s(self) -> float:
        """Seconds, at worst, that a copy takes without a launch: after a flush, its code and memory are in no cache."""
        part = next(room.part for room in self._rooms if room.is_written)
        room = _Kept(self._operands.output_room(part), part)
        found = []
        for _ in range(KEPT):
            self._inner.before()
            began_s = self._machine.now()
            self._copy(room)
            found.append(self._machine.now() - began_s)
        return max(found)

    @property
    def _latest(self) -> int:
        """The copy of the latest launch."""
        return (self._inner.copy() - 1) % len(self._launches)

    def _outputs(self) -> tuple[torch.Tensor, ...]:
        return self._operands.outputs_of(self._launches[self._latest])

    def check(self, times_s: Sequence[float] = (0.0,)) -> None:
        """Compare what was kept, and restore the activations. Raises IncorrectError; LeftBehindError for work ahead.

        `times_s` are those of the samples.

        Outputs of both signs are compared, at the price of one more launch where those of one sign were not drawn:
        a result that is never computed again is wrong for one of them.
        """
        if not self._refreshes and self._ahead_s > max(AHEAD * self._between_s, AHEAD_S):
            raise LeftBehindError(
                f"a thread that it started works between samples, {self._ahead_s / self._between_s:.0%} of the time: "
                "what a launch needs of the activations is to be computed in the launch"
            )
        late_s = sorted(self._late_s)[(len(self._late_s) - 1) // 4] if len(self._late_s) >= KEPT else 0.0
        limit_s = LATE_S + LATE_SHARE * median(times_s)
        if late_s > limit_s and late_s - self._copy_s() > limit_s:
            raise IncorrectError(
                f"its output was not there when the launch had ended, but {late_s * 1e6:.3g} us later: what "
                "it leaves to a signal, a hook or a thread belongs to its time",
                {},
            )
        operands = self._operands
        assert operands.truth is not None
        self._require_unwritten()
        kept = [room for room in self._rooms[: self._known] if room.is_written]
        fresh = [room for room in self._rooms[self._known :] if room.is_written]
        try:
            with operands.negated_truth():
                self._compare_known(kept, True, operands.truth)
            self._compare_known(kept, False, operands.truth)
            for room in fresh:
                with operands.truth_of(room.flipped, self._part) as truth:
                    self._compare(room.outputs, truth)
        finally:
            operands.recall()
            self._rooms.clear()
            self._late_s.clear()
            self._slots = array("b", [NOT_DRAWN]) * len(self._launches)
            self._drawn[0] = self._others = 0

    def _require_unwritten(self) -> None:
        if self._operands.rewritten():
            raise IncorrectError("wrote into the activations that all providers share; work on a copy", {})

    def _compare_known(self, kept: Iterable[_Kept], negated: bool, truth: Sequence[torch.Tensor]) -> None:
        found: list[Sequence[torch.Tensor]] = [room.outputs for room in kept if room.negated is negated]
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

    def check_repeated(self, launches: int, times_s: Sequence[float]) -> None:
        """Find launches on the CPU that skip work among `launches` of a sample, on whose activations they all are.

        Between the launches of some bursts, signs of a few elements change, which takes nanoseconds. Where these
        launches take longer than `times_s`, they are compared with bursts in which clones change that nobody reads.
        """
        if self._refreshes:
            return
        self._require_unwritten()
        for number in range(TRIES):
            time.sleep(PAUSE_S * (number > 0))
            same_s, changing_s = self._least_of_bursts(launches, median(times_s))
            if not _is_skipped(changing_s, same_s):
                return
        raise _skips(changing_s, same_s)

    def _least_of_bursts(self, launches: int, time_s: float) -> tuple[float, float]:
        """Return the seconds of a launch in the fastest burst without changes, and in the fastest one with them.

        Other processes disturb bursts, so that many are needed, unless those with changes take no longer than `time_s`.
        """
        same_s = changing_s = math.inf
        for number in range(MOST_BURSTS):
            with self._operands.poking(self._inner.copy, is_read=False) as poke:
                same_s = min(same_s, self._burst(launches, poke))
            with self._operands.poking(self._inner.copy, is_read=True) as poke:
                changing_s = min(changing_s, self._burst(launches, poke))
                if self._has_fresh:
                    outputs = [output[..., self._part] for output in self._outputs()]
                    self._compare(outputs, self._operands.present_truth(self._latest, self._part))
            if number >= BURSTS and not _is_skipped(changing_s, time_s):
                break
        return same_s, changing_s

    def _burst(self, launches: int, poke: Callable[[], object]) -> float:
        """Launch, as often as nobody knows before, and poke before each; return the seconds of one."""
        least, launch = max(launches, LEAST_REPEATED), self._inner.launch
        count = self._random.randint(least, 2 * least)
        hook, hooked = sys.getprofile(), False
        began = time.perf_counter()
        for _ in range(count):
            poke()
            launch()
            hooked |= sys.getprofile() is not hook
        ended = time.perf_counter()
        if hooked:
            raise ProviderError("a launch leaves a hook (sys.setprofile) to what comes after it")
        return (ended - began) / count

    def check_replayed(self, timer: Timer, times_s: Sequence[float]) -> None:
        """Time watched launches with `timer`, and compare them with `times_s`, which were replayed."""
        batch = timer.batch(SINGLE)
        for _ in range(SINGLE):
            if sum(room.is_written for room in self._rooms) >= min(REPLAYED, self._room):
                break
            timer.batch(SINGLE)  # the samples that were drawn are not among them yet
        changed_s, same_s = min(batch.times_s), median(times_s)
        is_slower = changed_s > REPLAYED_SLOWER * same_s + REPLAYED_SLACK_S
        if batch.blocked and is_slower:  # else the host's latency is in them
            raise _skips(changed_s, same_s)


def _is_skipped(changed_s: float, same_s: float) -> bool:
    return changed_s > REPEATED * same_s + SLACK_S


def _skips(changed_s: float, same_s: float) -> IncorrectError:
    return IncorrectError(
        f"a launch takes {changed_s * 1e6:.3g} us on activations that have changed, and {same_s * 1e6:.3g} us "
        "where they have not: it does not compute again what it keeps",
        {},
    )
