"""`rooflens compare --git`: begin or resume a comparison, and measure it."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import click

from ...analysis.comparison.result import Result
from ...api.run_folders import new_folder, refuse_foreign_owner
from ...harness.compare.spec import CompareSpec, stored, suite_hash
from ...harness.compare.worktrees import Repository
from ...shapes.errors import UsageError
from ...shapes.plugins import Hook, provided
from ...shapes.protocol import COMPARED_ROUNDS
from ...shapes.request import Request, stored_of
from ...shapes.run_folder.manifest import COMPARISON
from ..report.replay import flips, replay
from ..report.stored_comparison import OWN_CHOICE, go_on, stored_comparison
from ..shared.stopping import stop_signals
from .devices import Measuring, OneDevice

OWN_SEARCHES = 3
"""Searches of --tune for head's own configurations."""


@dataclass(frozen=True, slots=True)
class GitVersions:
    """What is compared: the commits `span` of the repository `repo`, each after the command `setup`.

    `null_arm` adds a second copy of base; `tune` searches configurations first.
    """

    span: str
    repo: Path
    setup: str
    null_arm: bool
    tune: bool


def measured(request: Request, versions: GitVersions, targets: Sequence[str]) -> tuple[Result, bool, str]:
    """Measure two commits in turn, and compare them; `targets` is the suite.

    Also returns whether everything planned is measured, and what is not because of missing devices.
    """
    began = time.monotonic()
    opened = provided(Hook.COMPARE)(request) if request.on_devices else None
    if request.resume:
        folder, what = _stored(request)
    else:
        folder = request.to or new_folder("compare")
        what = _what(request, versions, targets, folder)
        if (folder / COMPARISON).exists():
            raise UsageError(f"{folder} holds a comparison already: resume it with --resume, or choose another -o")
    deadline = began + request.max_time if request.max_time else None
    with ExitStack() as held:
        measuring: Measuring = OneDevice(folder, deadline, request.retry)
        if opened is not None:
            measuring = held.enter_context(opened(folder, what, deadline, request.retry))
        measuring.should_stop = held.enter_context(stop_signals())
        what = measuring.divided(what)
        complete = measuring.measure(folder, what)
        result, _ = stored_comparison(folder)
        if complete and not what.searches and len(flips(result)):
            click.echo(f"{len(flips(result))} cases chose another configuration: run both in both versions", err=True)
            complete = replay(folder, what, result, measuring.measure)
            result, _ = stored_comparison(folder)
        measuring.end(complete)
    if not complete and not measuring.unmeasured:
        click.echo(f"stopped at --max-time; resume with: {go_on(folder, request.on_devices)}", err=True)
    return result, complete, measuring.unmeasured


def _stored(request: Request) -> tuple[Path, CompareSpec]:
    """Return the folder to resume, and its comparison, with more rounds if requested."""
    if request.to is None:
        raise UsageError("--resume needs -o DIR, the folder of the comparison to resume")
    folder = request.to
    refuse_foreign_owner(folder)
    what = stored(folder)
    if request.retry:
        what = replace(what, options=[*what.options, *request.words({"timeout"})])
    if what.chunks and not request.on_devices:
        raise UsageError(f"{folder} was begun by several devices: resume with {go_on(folder, True)}")
    if request.on_devices and not what.chunks:
        raise UsageError(f"{folder} was begun by one device: omit --jobs and --address, or choose another -o")
    return folder, replace(what, rounds=max(what.rounds, request.rounds or 0))


def _what(request: Request, versions: GitVersions, targets: Sequence[str], folder: Path) -> CompareSpec:
    if versions.tune and request.on_devices:
        raise UsageError("--tune searches on one device, and compares there: omit it, or omit --jobs and --address")
    if len(targets) != 1:
        raise UsageError("--git measures one suite: name it (rooflens list suites), and nothing else")
    (suite,) = targets
    suite_hash(suite)  # an unknown one is reported first
    repository = Repository.at(versions.repo)
    base, head = repository.commits(versions.span)
    if base == head:
        click.echo("note: base and head are the same commit: any difference is noise", err=True)
    if repository.is_dirty():
        click.echo(f"note: {repository.top} has uncommitted changes, which are in no version", err=True)
    commits = {"base": base, "head": head} | ({"null": base} if versions.null_arm else {})
    tables: dict[str, str] = {}
    if versions.tune:
        commits |= {OWN_CHOICE: head}
        tables = {arm: str(folder.resolve() / "tuned" / ("head" if arm == OWN_CHOICE else "base")) for arm in commits}
    what = CompareSpec(
        repository=str(repository.top),
        commits=commits,
        suite=str(Path(suite).resolve()) if Path(suite).is_file() else suite,
        files=[_place(repository.top, file) for file in request.files],
        options=request.words(stored_of("compare")),
        rounds=request.rounds or COMPARED_ROUNDS,
        setup=versions.setup,
        suite_hash=suite_hash(suite),
        tables=tables,
        searches={"base": 1, OWN_CHOICE: OWN_SEARCHES} if versions.tune else {},
        identity=repository.identity(versions.span, base, head),
    )
    if what.files and repository.is_rooflens:
        raise UsageError("this is rooflens' own repository: omit --providers, its kernels are compared")
    if not what.files and not what.ours:
        raise UsageError("--git needs --providers FILE: the file that lists the kernels to measure")
    return what


def _place(top: Path, file: Path) -> str:
    """Path of a provider file in the repository, given so or from the working directory; of another, where it is."""
    for path in (top / file, file):
        if path.resolve().is_relative_to(top) and path.is_file():
            return path.resolve().relative_to(top).as_posix()
    # what is in neither place may exist in the commits only
    return str(file.resolve() if file.is_file() else file)
