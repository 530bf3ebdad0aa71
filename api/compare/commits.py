"""Two commits measured in turn: a comparison is begun or resumed, and the cases that chose anew are replayed."""

import math
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from ...analysis.comparison.result import OWN, Result
from ...harness.compare.checkouts import Checkouts
from ...harness.compare.replay import Row, divided, rows_of
from ...harness.compare.runner import CompareRunner
from ...harness.compare.spec import is_ours, scratch_of, stored, suite_hash
from ...harness.compare.worktrees import Repository
from ...harness.plan.plan import plan
from ...harness.sweep.deadline import Deadline
from ...harness.sweep.events import Observer, Remarked
from ...harness.sweep.part_queue import Item
from ...shapes.errors import UsageError
from ...shapes.protocol import COMPARED_ROUNDS
from ...shapes.request import Request
from ...shapes.run_folder.manifest import COMPARISON, ComparisonState, glance
from ..measuring import Tell, TurnExecutor
from ..run_folders import how_to_resume, new_folder, refuse_foreign_owner, resumable
from ..selection import suite_of
from ..stopping import stop_signals
from .stored import flips, replay, stored_comparison

OWN_SEARCHES = 3
"""Searches of --tune for head's own configurations."""

PARTS_PER_DEVICE = 2
"""More would shorten the wait for the last device, but every round of every part starts a process."""


class Measuring:
    """Measures comparisons of one call: on this device, or on those that its request means.

    At the end of the block checkouts and environments are removed, unless a later call resumes the comparison in
    `folder`.
    `unmeasured` says what is not measured because devices are missing.
    """

    _made: Checkouts | None

    def __init__(self, request: Request, folder: Path, deadline: Deadline, observer: Observer) -> None:
        self._request, self._folder, self._deadline, self._observer = request, folder, deadline, observer
        self._scratch, self._made = scratch_of(folder.resolve()), None
        self._is_complete, self.unmeasured = False, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *given: object) -> None:
        if self._made and self._is_complete:
            self._made.remove()
        elif kind is None and self._scratch.exists():
            self._observer(Remarked(f"checkouts and environments stay in {self._scratch} until it is resumed"))

    def measure(self, folder: Path, what: ComparisonState) -> bool:
        """Measure a comparison in `folder`; True when it is complete."""
        self._is_complete = False
        on = self._on_devices if self._request.on_devices else self._on_one
        with resumable(self._folder, lambda: "finished rounds"), TurnExecutor() as turns:
            self._is_complete = on(folder, what, turns)
        return self._is_complete

    def _on_one(self, folder: Path, what: ComparisonState, turns: TurnExecutor) -> bool:
        return self._runner(folder, what, turns).run(self._deadline)

    def _runner(self, folder: Path, what: ComparisonState, turns: TurnExecutor, *parts: Item) -> CompareRunner:
        runner = CompareRunner(folder, what, self._observer, turns, self._scratch, self._request.retry, parts)
        runner.open_runs, runner.alone = turns.open_runs, turns.alone
        self._made = self._made or runner.checkouts(self._deadline)
        return runner

    def _on_devices(self, folder: Path, what: ComparisonState, turns: TurnExecutor) -> bool:
        from ...harness.compare.device_runner import measured_on_devices
        from ..devices import target

        known = glance(folder / "base").device
        with target(self._request, known.arch if known else "", self._deadline.should_stop) as found:
            if not what.chunks:
                offered = found.places.offered()[found.arch]
                what = replace(what, chunks=PARTS_PER_DEVICE * min(found.most or offered, offered))
            parts = divided(_rows(what), what.chunks)
            what = replace(what, chunks=len(parts))
            runner = self._runner(folder, what, turns, *parts)
            complete, self.unmeasured = measured_on_devices(runner, found, self._deadline, self._observer)
        return complete


def _rows(what: ComparisonState) -> Sequence[Row]:
    """Return what is to be divided: the cells of `what`, or all of the suite.

    The suite is planned with its own providers. A filter on providers is left to the arms, which have others.
    """
    if what.cells:
        return what.cells
    request = replace(what.asked("run"), providers=())
    expression = request.filter_expression or ""
    return rows_of(plan(suite_of(request), "" if re.search(r"\bprovider\b", expression) else expression))


def measured_commits(request: Request, observer: Observer) -> Result:
    """Measure two commits in turn, and compare them."""
    began = time.monotonic()
    folder = request.to or new_folder("compare")
    request, what = (
        _stored(request) if request.resume else (request, _what(request, folder, lambda text: observer(Remarked(text))))
    )
    if not request.resume and (folder / COMPARISON).exists():
        raise UsageError(f"{folder} holds a comparison already: resume it with --resume, or choose another -o")
    with stop_signals() as stopped:
        deadline = Deadline(request.deadline(began) or math.inf, stopped)
        with Measuring(request, folder, deadline, observer) as measuring:
            complete = measuring.measure(folder, what)
            result = stored_comparison(folder)
            if complete and not what.searches and (count := len(flips(result))):
                observer(Remarked(f"{count} cases chose another configuration: run both in both versions"))
                complete = replay(folder, what, result, measuring.measure)
                result = stored_comparison(folder)
    if not complete and not measuring.unmeasured:
        observer(Remarked(f"stopped at --max-time; {how_to_resume(folder)}"))
    return replace(result, complete=complete, unmeasured=measuring.unmeasured)


def _stored(request: Request) -> tuple[Request, ComparisonState]:
    """Return the request and the comparison to resume, with more rounds if requested."""
    request.refuse_changes("compared", but="rounds")
    folder = request.to
    if folder is None:
        raise UsageError("--resume needs -o DIR, the folder of the comparison to resume")
    refuse_foreign_owner(folder)
    what = stored(folder)
    asked = request.repeating(what.request or {}, f"{folder}/{COMPARISON}")
    if what.chunks and not request.on_devices:
        raise UsageError(f"{folder} was begun by several devices: {how_to_resume(folder)}")
    if request.on_devices and not what.chunks:
        raise UsageError(f"{folder} was begun by one device: omit --jobs and --address, or choose another -o")
    return asked, replace(what, request=asked.stored(), rounds=max(what.rounds, request.rounds or 0))


def _what(request: Request, folder: Path, tell: Tell) -> ComparisonState:
    if request.tune and request.on_devices:
        raise UsageError("--tune searches on one device, and compares there: omit it, or omit --jobs and --address")
    if request.suite is None:
        raise UsageError("--git measures one suite: name it (rooflens list suites), and nothing else")
    if request.rounds == 1:
        raise UsageError("--rounds 1: a verdict takes 2, and more find smaller changes")
    digest = suite_hash(request.suite)  # an unknown one is reported first
    repository = Repository.at(request.repo or Path())
    base, head = repository.commits(request.versions)
    if base == head:
        tell("note: base and head are the same commit: any difference is noise")
    if repository.is_dirty():
        tell(f"note: {repository.top} has uncommitted changes, which are in no version")
    commits = {"base": base, "head": head} | ({"null": base} if request.null_arm else {})
    tables: dict[str, str] = {}
    if request.tune:
        commits |= {OWN: head}
        tables = {arm: str(folder.resolve() / "tuned" / ("head" if arm == OWN else "base")) for arm in commits}
    top = repository.top
    asked = replace(request, files=tuple(_found(top, file) for file in request.files)).stored()
    files = map(Path, asked["files"])
    what = ComparisonState(
        repository=str(top),
        commits=commits,
        suite=asked["suite"],
        files=[file.relative_to(top).as_posix() if file.is_relative_to(top) else str(file) for file in files],
        request=asked,
        rounds=request.rounds or COMPARED_ROUNDS,
        setup=request.setup or "",
        suite_hash=digest,
        tables=tables,
        searches={"base": 1, OWN: OWN_SEARCHES} if request.tune else {},
        identity=repository.identity(request.versions, base, head),
    )
    if what.files and repository.is_rooflens:
        raise UsageError("this is rooflens' own repository: omit --providers, its kernels are compared")
    if not what.files and not is_ours(what):
        raise UsageError("--git needs --providers FILE: the file that lists the kernels to measure")
    return what


def _found(top: Path, file: Path) -> Path:
    """Return a provider file given by its path in the repository, or from the working directory."""
    for path in (top / file, file):
        if path.resolve().is_relative_to(top) and path.is_file():
            return path
    return file if file.is_file() else top / file  # what is in neither place may exist in the commits only
