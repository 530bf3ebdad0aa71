"""Measure several versions of one repository in turn: rounds by fresh workers, stored in one folder per arm.

    FOLDER/compare.json   what is compared, which (round, arm) are finished, and why it ended early
    FOLDER/base, head     run folders as `rooflens run` writes them; with --null-arm also null, a second copy of base
    FOLDER/compare.log    output of checkouts and --setup, and what was told of the rounds

Several devices divide the suite into parts; each is measured in all versions and rounds by one of them.
"""

import os
import shutil
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from pathlib import Path
from threading import RLock
from types import MappingProxyType

from ...shapes.errors import Interrupted, RooflensError, UsageError
from ...shapes.request import Request
from ...shapes.run_folder.columns import CELLS
from ...shapes.run_folder.manifest import COMPARISON, MANIFEST, ComparisonState, StoredPart
from ..storage.lock import LOCK, locked
from ..storage.store import RunStore
from ..storage.tables import count_rows, make_folder
from ..sweep.cluster import Here, Machine, Place
from ..sweep.deadline import Deadline, OutOfTimeError
from ..sweep.events import Doing, Event, Finished, Observer, Remarked, Started, measured_again
from ..sweep.part_queue import Item
from ..worker.code_origin import Origin
from ..worker.messages import Interpreter
from .checkouts import Checkouts
from .environments import PreparedVersion
from .replay import Row, is_of
from .spec import balanced, is_ours, nothing_left, place, read_state, scratch_of, suite_hash, version, write_state
from .worktrees import Repository

LOG = "compare.log"


@dataclass(frozen=True, slots=True)
class Turn:
    """What a version measures before another one does: a request, by an interpreter that imports what `origin` allows.

    `cells` are those to measure (`replay.keep_only`); none: all. `place` is the device, of several, and `machine` where
    it is.
    """

    request: Request
    version: str = ""
    origin: Origin | None = None
    interpreter: Interpreter | None = None
    cells: Sequence[Row] = ()
    place: Place | None = None
    machine: Machine = field(default_factory=Here)


Measure = Callable[[Turn, Observer, Deadline], bool]
"""Measures a turn; False when its time was over before everything was measured."""


class CompareRunner:
    """One comparison in its folder, new or resumed: `retry` names the failures to measure again.

    Its units are rounds of versions, each a turn. `parts` are those that several devices measure; none: one does all.
    """

    def __init__(
        self,
        folder: Path,
        what: ComparisonState,
        observer: Observer,
        measure: Measure,
        scratch: Path | None = None,
        retry: Collection[str] = (),
        parts: Sequence[Item] = (),
    ) -> None:
        self.folder, self.what, self._turn = folder.resolve(), what, measure
        self._retry, self._ended = retry, ""
        self._observer = observer
        self.parts = parts or (Item(0, 0, "", tuple(map(tuple, what.cells))),)
        self._states: dict[int, StoredPart] = {part.key: StoredPart() for part in self.parts}
        self.alone = RLock()
        self.scratch = scratch or scratch_of(self.folder)

    def run(self, deadline: Deadline) -> bool:
        """Measure what is missing on one device. True when everything is; False when the deadline came first.

        Checkouts and environments stay. A comparison ends early when no case is left, and
        compare.json says so. Raises Interrupted, and RooflensError or UsageError when an arm cannot be set up or
        measured.
        """
        with self.opened():
            if not self.open_parts():
                return True
            try:
                versions = self.checkouts(deadline).make()
                for arm, count in self.what.searches.items():
                    self._tune(versions[arm], arm, count, deadline)
                for part in self.open_parts():
                    self.measure(part, versions, deadline)
            except OutOfTimeError:
                return False
        return True

    def checkouts(self, deadline: Deadline) -> Checkouts:
        """Return what makes the versions on this machine."""
        return Checkouts(self.what, self.scratch, self.folder / LOG, self._tell, deadline.check)

    @contextmanager
    def records_of_nodes(self) -> Iterator[None]:
        """Forget the checkouts of other machines, of an earlier call and of this one, that nobody could remove."""
        repository = Repository(Path(self.what.repository))
        repository.forget_worktrees(self.scratch.name)
        try:
            yield
        finally:
            repository.forget_worktrees(self.scratch.name)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the folder; a comparison that fails before anything was measured leaves nothing behind but the log."""
        is_new, has_begun = not self.folder.exists(), (self.folder / COMPARISON).exists()
        make_folder(self.folder)
        with ExitStack() as held:
            held.callback(os.close, locked(self.folder))
            try:
                self._load()
                self._forget_failures()
                self._save()
                finished = sum(len(state.done) for state in self._states.values())
                self._observer(Started(len(self._steps) * len(self.parts), finished))
                yield
            except (RooflensError, OSError) as error:
                if not (isinstance(error, Interrupted) or self._has_results()):
                    self.checkouts(Deadline()).remove()
                    if not has_begun:
                        self._discard(is_new)
                raise

    @property
    def _steps(self) -> list[tuple[int, str]]:
        return [*balanced(list(self.what.commits), self.what.rounds)]

    def open_parts(self) -> list[Item]:
        """Return the parts of which a round is missing."""
        return [part for part in self.parts if {*self._steps} - {*self._states[part.key].done}]

    def begun(self) -> Mapping[Hashable, Hashable]:
        """Return the device of each part that one has begun."""
        return {number: state.device for number, state in self._states.items() if state.device}

    def measure(
        self,
        part: Item,
        versions: Mapping[str, PreparedVersion],
        deadline: Deadline,
        device: str = "",
        place: Place | None = None,
        machine: Machine | None = None,
        observer: Observer | None = None,
    ) -> None:
        """Measure what is missing of a part; all of it where another device has begun it. Raises OutOfTimeError."""
        state = self._states[part.key]
        with self.alone:
            if state.device not in ("", device):
                self._forget(part)
            state.device = device
            self._save()
        for number, arm in self._steps:
            if (number, arm) in state.done:
                continue
            if suite_hash(self.what.suite) != self.what.suite_hash:
                raise UsageError(f"suite {self.what.suite} has changed since the comparison began: compare anew")
            if all((0, each) in state.done for each in self.what.commits) and (ended := self._nothing_left(part)):
                self._ended = "" if self.what.chunks else ended
                self._done(state, *self._steps)
                return
            if deadline.check():
                raise Interrupted(f"interrupted; finished rounds are in {self.folder}")
            table = Path(self.what.tables[arm]) if arm in self.what.tables else None
            asked = self.what.asked("run").with_settings(rounds=number + 1)
            request = with_fields(asked, to=self.folder / arm, calibrate=False, tuned=table)
            turn = Turn(request, version(arm), cells=part.content, place=place, machine=machine or Here())
            self._measured(f"round {number + 1} of {arm}", versions[arm], turn, deadline, observer)
            self._done(state, (number, arm))
            (observer or self._observer)(Finished(1))

    def _nothing_left(self, part: Item) -> str:
        with ExitStack() as held:
            for store in [*self.open_runs.values()]:  # another device may be at its table
                held.enter_context(store.alone)
            return nothing_left(self.folder, self.what.rounds, part.content)

    def _done(self, state: StoredPart, *steps: tuple[int, str]) -> None:
        with self.alone:
            state.done = [*dict.fromkeys((*state.done, *steps))]
            self._save()

    def _tune(self, version_of: PreparedVersion, arm: str, count: int, deadline: Deadline) -> None:
        """Search the configurations of an arm's kernels."""
        self._tell(f"search configurations of {version(arm)}")
        request = with_fields(self.what.asked("tune"), to=Path(self.what.tables[arm]), searches=count)
        self._measured(f"searches of {arm}", version_of, Turn(request, version(arm)), deadline)

    def _measured(
        self,
        what: str,
        version_of: PreparedVersion,
        turn: Turn,
        deadline: Deadline,
        observer: Observer | None = None,
    ) -> None:
        """Measure in an environment, by its code alone."""
        environment, variables = version_of
        tree, spec, request = environment.tree, self.what, turn.request
        copied = tuple(place(file) for file in spec.files if Path(file).is_absolute())
        assert request.to is not None
        request = with_fields(
            request,
            files=tuple(tree / place(file) for file in spec.files),
            resume=(request.to / MANIFEST).is_file() or None,
        )
        origin = Origin(tree, environment.prefix, Path(spec.repository), is_ours(spec), copied)
        log = self.folder / LOG
        interpreter = Interpreter(environment.python, variables, tree, log)
        tell = observer or self._observer

        def observe(event: Event) -> None:
            if isinstance(event, Doing):
                tell(Doing(f"{what}: {event.what}"))
            elif text := event.text if isinstance(event, Remarked) else getattr(event, "failure", ""):
                self.note(f"{what}: {text}")

        self.note(f"{what}: begins")
        try:
            turn = with_fields(turn, request=request, origin=origin, interpreter=interpreter)
            if not self._turn(turn, observe, deadline):
                raise OutOfTimeError
        except Interrupted:
            raise Interrupted(f"interrupted; finished rounds are in {self.folder}") from None
        except RooflensError as error:
            with suppress(OSError):
                self.note(f"{what}: {error}")
            raise error.saying(f"{what}: {error}; see {log}") from error

    def note(self, text: str) -> None:
        """Append a line to the log."""
        with (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def _tell(self, what: str) -> None:
        self._observer(Doing(what))
        self._observer(Remarked(what))

    def _load(self) -> None:
        state = read_state(self.folder) or ComparisonState()
        self._ended = state.ended
        if not self.what.chunks:
            self._states[0].done = [*state.done]
        for number, part in state.parts.items():
            if int(number) in self._states:
                self._states[int(number)] = part

    def _forget_failures(self) -> None:
        """Mark the failures of `retry` for measurement, and all rounds with them: no round repeats what is stored."""
        if not self._retry:
            return
        with self._stores() as stores:
            units = [store.ended_with(self._retry) for store in stores]
            if count := sum(map(len, units)):
                for state in self._states.values():
                    state.done = []
                self._ended = ""
                self._save()
                for store, again in zip(stores, units, strict=True):
                    store.retry(again)
                self._observer(measured_again(count))

    def _forget(self, part: Item) -> None:
        """Mark all of a part for measurement."""
        with self._stores() as stores:
            # First: after a kill in between, a round that lost its units would count as finished.
            self._states[part.key].done = []
            self._save()
            for store in stores:
                found = (row for row in store.rows(CELLS) if is_of(row, part.content))
                store.retry({(row["cell_id"], int(row["round"])) for row in found})

    open_runs: Mapping[Path, RunStore] = MappingProxyType({})
    """The run folders that turns have open, which they open while they hold `alone`."""

    @contextmanager
    def _stores(self) -> Iterator[list[RunStore]]:
        """Open the run folders of all arms."""
        with ExitStack() as held:
            folders = [folder for arm in self.what.commits if ((folder := self.folder / arm) / MANIFEST).is_file()]
            yield [self.open_runs.get(one) or held.enter_context(RunStore.reopen(one)) for one in folders]

    def _has_results(self) -> bool:
        """Tell whether anything was measured or searched."""
        tables = (table for table in self.folder.glob(f"**/{MANIFEST}") if table.parent.name not in self.what.commits)
        return any(tables) or any(count_rows(self.folder / arm) for arm in self.what.commits)

    def _discard(self, is_new: bool) -> None:
        """Remove the files of a comparison that never began, so that the same command works again."""
        for arm in self.what.commits:
            if (self.folder / arm / MANIFEST).is_file():  # a run without a row
                shutil.rmtree(self.folder / arm)
        for name in (COMPARISON, LOCK):
            (self.folder / name).unlink(missing_ok=True)
        if is_new:
            with suppress(OSError):  # it has the log, which the error message names
                self.folder.rmdir()

    def _save(self) -> None:
        steps = (step for step in self._steps if all(step in state.done for state in self._states.values()))
        parts = {str(number): state for number, state in self._states.items()} if self.what.chunks else {}
        write_state(self.folder, with_fields(self.what, parts=parts), [*steps], self._ended)
