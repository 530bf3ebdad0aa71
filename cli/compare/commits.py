"""`rooflens compare --git`: begin or resume a comparison, and measure it."""

import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ...analysis.comparison.result import Result
from ...harness.compare.spec import CompareSpec, stored, suite_hash
from ...harness.compare.worktrees import Repository
from ...shapes.errors import UsageError
from ...shapes.plugins import Hook, provided
from ...shapes.run_folder.manifest import COMPARISON
from ..report.replay import flips, replay
from ..report.stored_comparison import OWN_CHOICE, go_on, stored_comparison
from ..run.selection import on_devices, refuse_other_options, stop_signals
from ..shared import values
from ..shared.runs import new_folder, refuse_foreign_owner
from .devices import Measuring, OneDevice

OWN_SEARCHES = 3
"""Searches of --tune for head's own configurations."""

_OF_THIS_CALL = (
    *("output", "resume", "max_time", "as_json", "html", "markdown", "comment"),
    *("strict", "rounds", "targets"),
    *("jobs", "address", "on", "wait", "retry"),
)
"""Options that may be given again; more --rounds continue the others."""


def measured(options: dict[str, Any], passed_on: Collection[str]) -> tuple[Result, bool, str]:
    """Measure two commits in turn, and compare them.

    Also returns whether everything planned is measured, and what is not because of missing devices. `passed_on` names
    the options of `rooflens run` that the runs of each version get.
    """
    began = time.monotonic()
    by_fleet = on_devices(options)
    opened = provided(Hook.COMPARE)(options) if by_fleet else None
    if options["resume"]:
        folder, what = _stored(options, by_fleet)
    else:
        folder = options["output"] or new_folder("compare")
        what = _what(options, passed_on, folder)
        if (folder / COMPARISON).exists():
            raise UsageError(f"{folder} holds a comparison already: resume it with --resume, or choose another -o")
    deadline = began + values.seconds(options["max_time"], "--max-time") if options["max_time"] else None
    with ExitStack() as held:
        retry: tuple[str, ...] = options["retry"]
        measuring: Measuring = OneDevice(folder, deadline, retry)
        if opened is not None:
            measuring = held.enter_context(opened(folder, what, deadline, retry))
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
        click.echo(f"stopped at --max-time; resume with: {go_on(folder, by_fleet)}", err=True)
    return result, complete, measuring.unmeasured


def _stored(options: dict[str, Any], by_fleet: bool) -> tuple[Path, CompareSpec]:
    """Return the folder to resume, and its comparison, with more rounds if requested."""
    if options["output"] is None:
        raise UsageError("--resume needs -o DIR, the folder of the comparison to resume")
    retried = ("--timeout", options["timeout"]) if options["retry"] and options["timeout"] else ()
    refuse_other_options((*_OF_THIS_CALL, *(["timeout"] if retried else [])), "compared")
    folder: Path = options["output"]
    refuse_foreign_owner(folder)
    what = stored(folder)
    what = replace(what, options=[*what.options, *retried])
    if what.chunks and not by_fleet:
        raise UsageError(f"{folder} was begun by several devices: resume with {go_on(folder, True)}")
    if by_fleet and not what.chunks:
        raise UsageError(f"{folder} was begun by one device: omit --jobs and --address, or choose another -o")
    if click.get_current_context().get_parameter_source("rounds") is ParameterSource.COMMANDLINE:
        what = replace(what, rounds=max(what.rounds, options["rounds"]))
    return folder, what


def _what(options: dict[str, Any], passed_on: Collection[str], folder: Path) -> CompareSpec:
    if options["tune"] and (options["jobs"] or options["address"]):
        raise UsageError("--tune searches on one device, and compares there: omit it, or omit --jobs and --address")
    if len(options["targets"]) != 1:
        raise UsageError("--git measures one suite: name it (rooflens list suites), and nothing else")
    (suite,) = options["targets"]
    suite_hash(suite)  # an unknown one is reported first
    repository = Repository.at(options["repo"])
    base, head = repository.commits(options["span"])
    if base == head:
        click.echo("note: base and head are the same commit: any difference is noise", err=True)
    if repository.is_dirty():
        click.echo(f"note: {repository.top} has uncommitted changes, which are in no version", err=True)
    commits = {"base": base, "head": head} | ({"null": base} if options["null_arm"] else {})
    tables: dict[str, str] = {}
    if options["tune"]:
        commits |= {OWN_CHOICE: head}
        tables = {arm: str(folder.resolve() / "tuned" / ("head" if arm == OWN_CHOICE else "base")) for arm in commits}
    what = CompareSpec(
        repository=str(repository.top),
        commits=commits,
        suite=str(Path(suite).resolve()) if Path(suite).is_file() else suite,
        files=[_place(repository.top, file) for file in options["files"]],
        options=list(_arguments(options, passed_on)),
        rounds=options["rounds"],
        setup=options["setup"],
        suite_hash=suite_hash(suite),
        tables=tables,
        searches={"base": 1, OWN_CHOICE: OWN_SEARCHES} if options["tune"] else {},
        identity=repository.identity(options["span"], base, head),
    )
    if what.files and repository.is_rooflens:
        raise UsageError("this is rooflens' own repository: omit --providers, its kernels are compared")
    if not what.files and not what.ours:
        raise UsageError("--git needs --providers FILE: the file that lists the kernels to measure")
    return what


def _place(top: Path, file: str) -> str:
    """Path of a provider file in the repository, given so or from the working directory; of another, where it is."""
    for path in (top / file, Path(file)):
        if path.resolve().is_relative_to(top) and path.is_file():
            return path.resolve().relative_to(top).as_posix()
    # what is in neither place may exist in the commits only
    return str(Path(file).resolve()) if Path(file).is_file() else file


def _arguments(options: dict[str, Any], passed_on: Collection[str]) -> Iterator[str]:
    """Options of `rooflens run` as they were given, for the runs of each version."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        if name not in passed_on or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = options[name]
        for one in value if isinstance(value, tuple) else (value,):
            yield from (option.opts[-1], str(one))
