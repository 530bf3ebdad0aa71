"""Measure several versions of one repository in turn: rounds in fresh processes, into one folder per arm.

    FOLDER/compare.json   what is compared, which (round, arm) are finished, and why it ended before its last round
    FOLDER/base, head     run folders as `rooflens run` writes them; with --null-arm also null, a second copy of base
    FOLDER/compare.log    what checkouts, --setup and the measuring processes printed

Checkouts, environments and caches lie elsewhere (`scratch_of`) until `Comparing.clean_up`.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Protocol as Interface

from ...shapes.errors import Interrupted, RooflensError, UsageError
from ...shapes.run_folder.manifest import COMPARISON, MANIFEST, ComparisonState
from ..storage.lock import LOCK, locked
from ..storage.store import RunStore
from ..storage.tables import replace
from ..worker.code_origin import Origin
from . import environments as environments
from .environments import VersionEnvironment, refuse_other_harness
from .process import run_command
from .spec import CompareSpec, balanced, nothing_left, read_state, scratch_of, suite_hash, version, write_state
from .worktrees import Repository

LOG = "compare.log"
ORIGIN = "origin.json"


class Observer(Interface):
    """Whoever shows the progress."""

    def started(self, finished: int) -> None:
        """Tell how many (round, arm) an earlier call has finished."""

    def doing(self, what: str) -> None:
        """Tell what is prepared."""

    def measuring(self, arm: str, number: int, rows: int) -> None:
        """Tell which round of which arm runs, and how many units it has stored."""

    def finished(self, arm: str, number: int) -> None:
        """Tell that a round of an arm is complete."""


class CompareRunner:
    """One comparison in its folder, new or gone on with: `retry` names the failures that are measured again."""

    def __init__(
        self,
        folder: Path,
        what: CompareSpec,
        observer: Observer,
        scratch: Path | None = None,
        retry: Collection[str] = (),
    ) -> None:
        self.folder, self.what = folder.resolve(), what
        self._retry, self._ended = retry, ""
        self._observer = observer
        self._repository = Repository(Path(what.repository))
        self._done: set[tuple[int, str]] = set()
        self._lock = -1
        self.scratch = scratch or scratch_of(self.folder)

    def run(self, should_stop: Callable[[], bool], deadline: float | None) -> bool:
        """Measure what is missing. True when everything is; False when the deadline came first.

        A comparison of which no case is left ends before its last round, and compare.json says so. Raises Interrupted,
        and RooflensError or UsageError when an arm cannot be set up or measured; one that fails before anything was
        measured leaves nothing behind but what its processes printed.
        """
        is_new, has_begun = not self.folder.exists(), (self.folder / COMPARISON).exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = locked(self.folder)
        try:
            return self._run_rounds(should_stop, deadline)
        except (RooflensError, OSError) as error:
            if not isinstance(error, Interrupted) and not any(self.folder.glob(f"**/{MANIFEST}")):
                self.clean_up()
                if not has_begun:
                    self._discard(is_new)
            raise

    def _run_rounds(self, should_stop: Callable[[], bool], deadline: float | None) -> bool:
        self._load()
        self._forget_failures()
        self._save()
        self._observer.started(len(self._done))
        order = [step for step in balanced(list(self.what.commits), self.what.rounds) if step not in self._done]
        if order:
            environments = self.prepare()
            for arm, count in self.what.searches.items():
                if not self._tune(environments[arm], arm, count, should_stop, deadline):
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
            if deadline is not None and time.monotonic() >= deadline:
                return False
            if not self._measure(environments[arm], arm, number, should_stop, deadline):
                return False
            self._done.add((number, arm))
            self._save()
            self._observer.finished(arm, number)
        return True

    def prepare(self) -> dict[str, VersionEnvironment]:
        """Set all versions up, as far as an earlier call has not; what cannot be set up leaves nothing behind."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            return {arm: self._set_up(version(arm), self.what.commits[arm]) for arm in self.what.commits}
        except (RooflensError, OSError) as error:
            if not isinstance(error, Interrupted):
                self.clean_up()
            raise

    def release(self) -> None:
        """Let go of the folder; otherwise it is held until the process ends."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def clean_up(self) -> None:
        """Remove checkouts, environments and caches."""
        for name in dict.fromkeys(map(version, self.what.commits)):
            self._repository.remove_worktree(self.scratch / name / "tree")
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _set_up(self, name: str, commit: str) -> VersionEnvironment:
        """Check out the commit of a version and make its environment, unless an earlier attempt got that far."""
        folder = self.scratch / name
        environment = VersionEnvironment(folder, folder / "tree")
        stamp = folder / "ready"
        wanted = f"{commit} {self.what.setup}"
        if stamp.is_file() and stamp.read_text() == wanted:
            return environment
        self._observer.doing(f"check out {name}: {self._repository.describe(commit)}")
        self._repository.add_worktree(environment.tree, commit)
        for file in self.what.files:
            if not (environment.tree / file).is_file():
                raise UsageError(
                    f"--providers {file}: {name} ({commit[:12]}) has no such file; choose a commit that has it"
                )
        if self.what.ours:
            refuse_other_harness(environment.tree, name)
        if self.what.setup:
            self._observer.doing(f"set up {name}: {self.what.setup}")
        environments.create(environment, self.what.setup, self.folder / LOG, self.what.ours)
        origin = Origin(environment.tree, environment.prefix, Path(self.what.repository), self.what.ours)
        replace(folder / ORIGIN, json.dumps(asdict(origin), default=str) + "\n")
        stamp.write_text(wanted)
        return environment

    def _tune(
        self,
        environment: VersionEnvironment,
        arm: str,
        count: int,
        should_stop: Callable[[], bool],
        deadline: float | None,
    ) -> bool:
        """Search the configurations of an arm's kernels. False when the deadline ended it."""
        folder = Path(self.what.tables[arm])
        self._observer.doing(f"search configurations of {version(arm)}")
        command = [
            *("tune", self.what.suite, *_selecting(self.what.options), "-o", str(folder), "--searches", str(count)),
            *(["--resume"] if (folder / MANIFEST).is_file() else []),
        ]
        return self._run(f"searching for {arm}", environment, command, should_stop, deadline, lambda: None)

    def _measure(
        self,
        environment: VersionEnvironment,
        arm: str,
        number: int,
        should_stop: Callable[[], bool],
        deadline: float | None,
    ) -> bool:
        """Run one round of one arm in a process of its own. False when the deadline ended it."""
        folder = self.folder / arm
        command = [
            *("run", self.what.suite, *self.what.options, "-o", str(folder), "--rounds", str(number + 1)),
            *("--no-calibrate", "--no-report"),
            *(["--tuned", self.what.tables[arm]] if arm in self.what.tables else []),
            *(["--only", self.what.only] if self.what.only else []),
            *(["--resume"] if (folder / MANIFEST).is_file() else []),
        ]

        def look() -> None:
            self._observer.measuring(arm, number, _rows(folder / "cells.csv"))

        return self._run(f"{arm}, round {number}", environment, command, should_stop, deadline, look)

    def _run(
        self,
        what: str,
        environment: VersionEnvironment,
        command: Sequence[str],
        should_stop: Callable[[], bool],
        deadline: float | None,
        look: Callable[[], None],
    ) -> bool:
        """Run a command of rooflens in an environment, as its arm; `look` is called while it runs."""
        whole = [
            # -P: where this is called from is the user's working tree, and must not be the first place to import from
            *(str(environment.python), "-P", "-m", "rooflens.cli", *command),
            *("--arm", str(environment.folder / ORIGIN)),
            *(part for file in self.what.files for part in ("--providers", str(environment.tree / file))),
            *(["--max-time", f"{max(1.0, deadline - time.monotonic()):.0f}s"] if deadline is not None else []),
        ]
        variables = environment.variables(bool(self.what.setup), self.what.ours)
        return run_command(what, whole, environment.tree, variables, self.folder / LOG, should_stop, look)

    def _load(self) -> None:
        state = read_state(self.folder) or ComparisonState()
        self._done = {(number, arm) for number, arm in state.done}
        self._ended = state.ended

    def _forget_failures(self) -> None:
        """Make the failures of `retry` to do again, and all rounds with them: none repeats what is stored."""
        if not self._retry:
            return
        with ExitStack() as held:
            folders = [folder for arm in self.what.commits if ((folder := self.folder / arm) / MANIFEST).is_file()]
            stores = [held.enter_context(RunStore.reopen(folder)) for folder in folders]
            units = [store.ended_with(self._retry) for store in stores]
            if count := sum(map(len, units)):
                # Noted first: were it killed in between, a round would count as finished that has lost its units.
                self._done, self._ended = set(), ""
                self._save()
                for store, again in zip(stores, units, strict=True):
                    store.retry(again)
                self._observer.doing(f"measure again what failed: {count} unit{'s' * (count > 1)}")

    def _discard(self, is_new: bool) -> None:
        """Remove what a comparison made that never began: the same command may be given again."""
        for name in (COMPARISON, LOCK):
            (self.folder / name).unlink(missing_ok=True)
        if is_new:
            with suppress(OSError):  # it has what --setup or a version printed, and the message names
                self.folder.rmdir()

    def _save(self) -> None:
        write_state(self.folder, self.what, self._done, self._ended)


def _selecting(options: Sequence[str]) -> list[str]:
    """Options of `rooflens run` without those that `rooflens tune` does not have."""
    pairs = zip(options[::2], options[1::2], strict=True)
    return [part for name, value in pairs if name not in ("--target-ci", "--budget") for part in (name, value)]


def _rows(path: Path) -> int:
    """Lines of a CSV file without its header."""
    try:
        return max(0, path.read_bytes().count(b"\n") - 1)
    except FileNotFoundError:
        return 0
