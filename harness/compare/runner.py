"""Measure several versions of one repository in turn: rounds by fresh workers, stored in one folder per arm.

    FOLDER/compare.json   what is compared, which (round, arm) are finished, and why it ended early
    FOLDER/base, head     run folders as `rooflens run` writes them; with --null-arm also null, a second copy of base
    FOLDER/compare.log    output of checkouts and --setup, and what was told of the rounds

Checkouts, environments and caches are stored elsewhere (`scratch_of`) until `CompareRunner.clean_up`.
"""

import os
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from dataclasses import replace as with_fields
from pathlib import Path

from ...shapes.errors import Interrupted, RooflensError, UsageError
from ...shapes.request import Request
from ...shapes.run_folder.manifest import COMPARISON, MANIFEST, ComparisonState
from ..storage.lock import LOCK, locked
from ..storage.store import RunStore
from ..storage.tables import count_rows, make_folder
from ..sweep.events import Doing, Event, Finished, Observer, Remarked, Started
from ..worker.code_origin import Origin
from ..worker.messages import Interpreter
from . import environments as environments
from .environments import VersionEnvironment, refuse_other_harness
from .replay import Row
from .spec import CompareSpec, balanced, nothing_left, place, read_state, scratch_of, suite_hash, version, write_state
from .worktrees import Repository

LOG = "compare.log"


@dataclass(frozen=True, slots=True)
class Turn:
    """What a version measures before another one does: a request, by an interpreter that imports what `origin` allows.

    `cells` are those to measure (`replay.keep_only`); none: all.
    """

    request: Request
    origin: Origin | None = None
    interpreter: Interpreter | None = None
    cells: Sequence[Row] = ()


Measure = Callable[[Turn, Observer, Callable[[], bool]], bool]
"""Measures a turn until asked to stop; False when its time was over before everything was measured."""


class CompareRunner:
    """One comparison in its folder, new or resumed: `retry` names the failures to measure again.

    Its units are rounds of versions, each a turn.
    """

    def __init__(
        self,
        folder: Path,
        what: CompareSpec,
        observer: Observer,
        measure: Measure,
        scratch: Path | None = None,
        retry: Collection[str] = (),
    ) -> None:
        self.folder, self.what, self._turn = folder.resolve(), what, measure
        self._retry, self._ended = retry, ""
        self._observer = observer
        self._repository = Repository(Path(what.repository))
        self._done: set[tuple[int, str]] = set()
        self._lock = -1
        self._should_stop: Callable[[], bool] = lambda: False
        self._deadline: float | None = None
        self.scratch = scratch or scratch_of(self.folder)

    def run(self, should_stop: Callable[[], bool], deadline: float | None) -> bool:
        """Measure what is missing. True when everything is; False when the deadline came first.

        A comparison ends early when no case is left, and compare.json says so. Raises Interrupted,
        and RooflensError or UsageError when an arm cannot be set up or measured; one that fails before anything was
        measured leaves nothing behind but the log.
        """
        self._should_stop, self._deadline = should_stop, deadline
        is_new, has_begun = not self.folder.exists(), (self.folder / COMPARISON).exists()
        make_folder(self.folder)
        self._lock = locked(self.folder)
        try:
            return self._run_rounds()
        except (RooflensError, OSError) as error:
            if not isinstance(error, Interrupted) and not self._has_results():
                self.clean_up()
                if not has_begun:
                    self._discard(is_new)
            raise

    def _run_rounds(self) -> bool:
        self._load()
        self._forget_failures()
        self._save()
        self._observer(Started(self.what.rounds * len(self.what.commits), len(self._done)))
        order = [step for step in balanced(list(self.what.commits), self.what.rounds) if step not in self._done]
        if order:
            environments = self.prepare(self._should_stop)
            for arm, count in self.what.searches.items():
                if not self._tune(environments[arm], arm, count):
                    return False
        for number, arm in order:
            if suite_hash(self.what.suite) != self.what.suite_hash:
                raise UsageError(f"suite {self.what.suite} has changed since the comparison began: compare anew")
            if all((0, each) in self._done for each in self.what.commits) and (
                ended := nothing_left(self.folder, self.what.rounds)
            ):
                self._done, self._ended = {*self._done, *order}, ended
                self._save()
                return True
            if self._deadline is not None and time.monotonic() >= self._deadline:
                return False
            if not self._measure(environments[arm], arm, number):
                return False
            self._done.add((number, arm))
            self._save()
            self._observer(Finished(1))
        return True

    def prepare(self, should_stop: Callable[[], bool]) -> dict[str, VersionEnvironment]:
        """Set up all versions that an earlier call has not; on failure, leave nothing behind."""
        self._should_stop = should_stop
        make_folder(self.folder)
        try:
            return {arm: self._set_up(version(arm), self.what.commits[arm]) for arm in self.what.commits}
        except (RooflensError, OSError) as error:
            if not isinstance(error, Interrupted):
                self.clean_up()
            raise

    def release(self) -> None:
        """Release the lock of the folder; otherwise it is held until the process ends."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def clean_up(self) -> None:
        """Remove checkouts, environments and caches."""
        for name in dict.fromkeys(map(version, self.what.commits)):
            self._repository.remove_worktree(self.scratch / name / "tree")
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _set_up(self, name: str, commit: str) -> VersionEnvironment:
        """Check out the commit of a version and create its environment, unless an earlier attempt did."""
        folder = self.scratch / name
        environment = VersionEnvironment(folder, folder / "tree")
        stamp = folder / "ready"
        wanted = f"{commit} {self.what.setup}"
        if stamp.is_file() and stamp.read_text() == wanted:
            return environment
        self._tell(f"check out {name}: {self._repository.describe(commit)}")
        self._repository.add_worktree(environment.tree, commit)
        for file in self.what.files:
            self._provide(file, environment.tree, f"{name} ({commit[:12]})")
        if self.what.ours:
            refuse_other_harness(environment.tree, name)
        if self.what.setup:
            self._tell(f"set up {name}: {self.what.setup}")
        environments.create(environment, self.what.setup, self.folder / LOG, self.what.ours, self._should_stop)
        stamp.write_text(wanted)
        return environment

    def _provide(self, file: str, tree: Path, version: str) -> None:
        """Ensure that a checkout has a provider file: its own, or a copy of one from outside of the repository."""
        path = tree / place(file)
        if not Path(file).is_absolute():
            if not path.is_file():
                raise UsageError(
                    f"--providers {file}: {version} has no such file: choose commits that have it, or name a copy "
                    "outside of the repository, which both versions get"
                )
        elif path.exists():
            raise UsageError(f"--providers {file}: {version} has another {path.name}; rename the file")
        else:
            path.parent.mkdir(exist_ok=True)
            try:
                shutil.copy(file, path)
            except OSError as error:  # another node of a fleet
                raise UsageError(f"--providers {file}: {error.strerror}") from None

    def _tune(self, environment: VersionEnvironment, arm: str, count: int) -> bool:
        """Search the configurations of an arm's kernels. False when the deadline ended it."""
        folder = Path(self.what.tables[arm])
        self._tell(f"search configurations of {version(arm)}")
        request = with_fields(self.what.asked("tune"), to=folder, searches=count)
        return self._measured(f"searches of {arm}", environment, request)

    def _measure(self, environment: VersionEnvironment, arm: str, number: int) -> bool:
        """Measure one round of one arm by a fresh worker. False when the deadline ended it."""
        table = Path(self.what.tables[arm]) if arm in self.what.tables else None
        asked = self.what.asked("run").with_settings(rounds=number + 1)
        request = with_fields(asked, to=self.folder / arm, calibrate=False, tuned=table)
        return self._measured(f"round {number + 1} of {arm}", environment, request)

    def _measured(self, what: str, environment: VersionEnvironment, request: Request) -> bool:
        """Measure in an environment, by its code alone."""
        tree, spec = environment.tree, self.what
        copied = tuple(place(file) for file in spec.files if Path(file).is_absolute())
        assert request.to is not None
        request = with_fields(
            request,
            files=tuple(tree / place(file) for file in spec.files),
            resume=(request.to / MANIFEST).is_file() or None,
            max_time=None if self._deadline is None else max(1.0, self._deadline - time.monotonic()),
        )
        origin = Origin(tree, environment.prefix, Path(spec.repository), spec.ours, copied)
        log = self.folder / LOG
        interpreter = Interpreter(environment.python, environment.variables(bool(spec.setup), spec.ours), tree, log)

        def observe(event: Event) -> None:
            if isinstance(event, Doing):
                self._observer(Doing(f"{what}: {event.what}"))
            elif text := event.text if isinstance(event, Remarked) else getattr(event, "failure", ""):
                note(text)

        def note(text: str) -> None:
            with log.open("a", encoding="utf-8") as file:
                file.write(f"{what}: {text}\n")

        note("begins")
        try:
            return self._turn(Turn(request, origin, interpreter, spec.cells), observe, self._should_stop)
        except Interrupted:
            raise Interrupted(f"interrupted; finished rounds are in {self.folder}") from None
        except RooflensError as error:
            with suppress(OSError):
                note(str(error))
            raise error.saying(f"{what}: {error}; see {log}") from error

    def _tell(self, what: str) -> None:
        self._observer(Doing(what))
        self._observer(Remarked(what))

    def _load(self) -> None:
        state = read_state(self.folder) or ComparisonState()
        self._done = {(number, arm) for number, arm in state.done}
        self._ended = state.ended

    def _forget_failures(self) -> None:
        """Mark the failures of `retry` for measurement, and all rounds with them: no round repeats what is stored."""
        if not self._retry:
            return
        with ExitStack() as held:
            folders = [folder for arm in self.what.commits if ((folder := self.folder / arm) / MANIFEST).is_file()]
            stores = [held.enter_context(RunStore.reopen(folder)) for folder in folders]
            units = [store.ended_with(self._retry) for store in stores]
            if count := sum(map(len, units)):
                # First: after a kill in between, a round that lost its units would count as finished.
                self._done, self._ended = set(), ""
                self._save()
                for store, again in zip(stores, units, strict=True):
                    store.retry(again)
                self._tell(f"measure again what failed: {count} unit{'s' * (count > 1)}")

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
        write_state(self.folder, self.what, self._done, self._ended)
