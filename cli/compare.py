"""`rooflens compare`: did this branch make my kernels slower?"""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..shapes.errors import CorrectnessError, IncompleteError, RegressionError, RooflensError, UsageError
from . import values
from .runs import MANIFEST, RUNS, find_run
from .selection import SELECTION, refuse_other_options, stop_signals

if TYPE_CHECKING:
    from ..analysis.comparison.result import Result
    from ..harness.comparing import Comparison

ROUNDS = 8
"""Fresh processes per version."""

_OF_THIS_CALL = ("output", "resume", "max_time", "as_json", "html", "markdown", "strict", "rounds", "targets")
"""Options that say how this call goes; more --rounds go on with the others."""

OWN_CHOICE, OWN_SEARCHES = "head+own", 3
"""Arm of --tune: head with the configurations that searches of its own chose."""

_OWN = ("suite", "files", "resume", "max_time")
"""Options of `rooflens run` that mean something else here, or are handed on in another way."""

_HANDED_ON = tuple(option for option in SELECTION if option.name not in _OWN)


@click.command(params=list(_HANDED_ON))
@click.argument("targets", metavar="[BASE HEAD | SUITE]", nargs=-1)
@click.option("--git", "span", metavar="BASE..HEAD", help="Measure two commits of --repo in turn, then compare them.")
@click.option(
    "--repo",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="The repository of your kernels; the default is the working directory.",
)
@click.option(
    "--providers",
    "files",
    multiple=True,
    metavar="FILE",
    help="The file with your kernels, by its path in the repository; repeat it.",
)
@click.option(
    "--setup", default="", metavar="COMMAND", help='Run this once per version in its environment: "pip install -e ."'
)
@click.option("--rounds", type=click.IntRange(min=2), default=ROUNDS, show_default=True, help="Rounds per version.")
@click.option("--null-arm", is_flag=True, help="Measure a second copy of BASE too: what the same code looks like.")
@click.option(
    "--tune",
    is_flag=True,
    help="Search configurations first: base's are run in both versions; head's own, searched three times, beside them.",
)
@click.option("--target-ci", metavar="PERCENT", help="Stop a round when the median is known to +- this, such as 1%.")
@click.option("--budget", metavar="TIME", help="Most time per cell and round, such as 0.5s.")
@click.option("--max-time", metavar="TIME", help="End cleanly after this, such as 30m; go on with --resume.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the comparison.")
@click.option("--resume", is_flag=True, help="Go on with the comparison of -o, as it was started.")
@click.option(
    "--columns", metavar="MAP", help="For a CSV of your own: time_ms='Latency (ms)',M=m,N=n,K=k,provider=name."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: effects as differences of ln time, times in seconds."
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the page of the comparison."
)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the section for a pull request.",
)
@click.option("--strict", is_flag=True, help="Exit 4 when a case is inconclusive, or something is missing.")
def compare(**options: Any) -> None:
    """Compare two versions of the same kernels: commits, stored runs, or tables.

    With --git both commits are checked out beside the repository, each with its own environment and caches, and SUITE
    is measured in turn, round by round, every round in a fresh process: drift of the device hits both alike. Two stored
    runs (BASE HEAD) were measured one after the other, so that less can be verified. Tables (CSV of rooflens' peers, or
    your own with --columns) have one value per case: their changes are ranked, and none is verified.

    Verdicts are faster, slower, same and inconclusive. Exit code 3: a case is verified to be slower; 5: one that passed
    no longer does; 4 with --strict: something is inconclusive.

    \b
    Examples:
      rooflens compare --git main..my-branch --providers bench/kernels.py llm4bit-quick
      rooflens compare --git HEAD~1.. --repo ~/kernels --providers bench/kernels.py \\
          --setup "pip install -e ." -a M=1,16 --markdown pr.md llm4bit
      rooflens compare -o runs/compare-20260102-030405 --resume
      rooflens compare runs/main runs/my-branch
      rooflens compare main.csv branch.csv --columns "time_ms=ms,M=m,N=n,K=k,provider=kernel"
    """
    result, complete = _compared(options)
    _write(result, options)
    from .compare_output import print_result, print_result_json

    (print_result_json if options["as_json"] else print_result)(result)
    if error := _verdict(result, complete, options["strict"]):
        raise error


def _compared(options: dict[str, Any]) -> "tuple[Result, bool]":
    """Measure if that is asked for, and compare. Tells whether everything that was planned is there."""
    targets: tuple[str, ...] = options["targets"]
    if options["span"] or options["resume"]:
        return _measured(options)
    if len(targets) == 1 and (Path(targets[0]) / "compare.json").is_file():
        return _stored_comparison(Path(targets[0]))
    if len(targets) != 2:
        raise UsageError(
            "name two runs or tables to compare, or a suite with --git BASE..HEAD; rooflens compare --help has examples"
        )
    if any(Path(target).is_file() for target in targets):
        return _imported(*targets, options["columns"]), True
    return _stored_runs(*map(find_run, targets)), True


def _measured(options: dict[str, Any]) -> "tuple[Result, bool]":
    from ..analysis.comparison.attribution import ARMS
    from ..harness.comparing import Comparing, stored
    from .compare_progress import Progress
    from .compare_replay import flips, replay

    began = time.monotonic()
    if options["resume"]:
        if options["output"] is None:
            raise UsageError("--resume needs -o DIR, the folder of the comparison to go on with")
        refuse_other_options(_OF_THIS_CALL, "compared")
        folder: Path = options["output"]
        what = stored(folder)
        if click.get_current_context().get_parameter_source("rounds") is ParameterSource.COMMANDLINE:
            what = replace(what, rounds=max(what.rounds, options["rounds"]))
    else:
        folder = options["output"] or RUNS / f"compare-{datetime.now():%Y%m%d-%H%M%S}"
        what = _what(options, folder)
        if (folder / "compare.json").exists():
            raise UsageError(f"{folder} holds a comparison already: go on with it by --resume, or choose another -o")
    deadline = began + values.seconds(options["max_time"], "--max-time") if options["max_time"] else None
    with stop_signals() as stopped:
        with Progress(sys.stderr, what) as progress:
            comparing = Comparing(folder, what, progress)
            complete = comparing.run(stopped, deadline)
        result, _ = _stored_comparison(folder)
        if complete and not what.searches and len(flips(result)):
            click.echo(f"{len(flips(result))} cases chose another configuration: run both in both versions", err=True)
            with Progress(sys.stderr, what, len(ARMS)) as progress:
                complete = replay(folder, what, result, progress, stopped, deadline, comparing.scratch)
            result, _ = _stored_comparison(folder)
    if complete:
        comparing.clean_up()
    else:
        click.echo(f"stopped at --max-time; go on with: rooflens compare -o {folder} --resume", err=True)
        click.echo(f"until then checkouts and environments stay in {comparing.scratch}", err=True)
    return result, complete


def _what(options: dict[str, Any], folder: Path) -> "Comparison":
    from ..harness.comparing import Comparison, suite_hash
    from ..harness.worktrees import Repository

    if len(options["targets"]) != 1:
        raise UsageError("--git measures one suite: name it (rooflens list suites), and nothing else")
    (suite,) = options["targets"]
    suite_hash(suite)  # an unknown one is told first
    repository = Repository.at(options["repo"])
    base, head = repository.commits(options["span"])
    if base == head:
        click.echo("note: base and head are the same commit: what is found is noise", err=True)
    if repository.is_dirty():
        click.echo(f"note: {repository.top} has changes that are in no commit, and so in no version", err=True)
    commits = {"base": base, "head": head} | ({"null": base} if options["null_arm"] else {})
    tables: dict[str, str] = {}
    if options["tune"]:
        commits |= {OWN_CHOICE: head}
        tables = {arm: str(folder.resolve() / "tuned" / ("head" if arm == OWN_CHOICE else "base")) for arm in commits}
    what = Comparison(
        repository=str(repository.top),
        commits=commits,
        suite=str(Path(suite).resolve()) if Path(suite).is_file() else suite,
        files=tuple(_inside(repository.top, file) for file in options["files"]),
        options=tuple(_arguments(options)),
        rounds=options["rounds"],
        setup=options["setup"],
        suite_hash=suite_hash(suite),
        tables=tables,
        searches={"base": 1, OWN_CHOICE: OWN_SEARCHES} if options["tune"] else {},
    )
    if what.files and (repository.top / "kernels" / "registry.py").is_file():
        raise UsageError("this is rooflens' own repository: leave --providers out, its kernels are compared")
    if not what.files and not what.ours:
        raise UsageError("--git needs --providers FILE: the file in the repository that lists its kernels")
    return what


def _inside(top: Path, file: str) -> str:
    """Path of a provider file in its repository, given so or from the working directory."""
    for path in (top / file, Path(file)):
        if path.resolve().is_relative_to(top) and path.is_file():
            return path.resolve().relative_to(top).as_posix()
    if Path(file).is_file():
        raise UsageError(f"--providers {file}: it is not in the repository {top}, so both versions would run the same")
    return file  # it may exist in the commits only


def _arguments(options: dict[str, Any]) -> Iterator[str]:
    """Options of `rooflens run` as they were given, for the runs of each version."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        handed_on = name in _NAMES or name in ("target_ci", "budget")
        if not handed_on or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = options[name]
        for one in value if isinstance(value, tuple) else (value,):
            yield from (option.opts[-1], str(one))


_NAMES = frozenset(option.name for option in _HANDED_ON)


def _stored_comparison(folder: Path) -> "tuple[Result, bool]":
    """Compare what is in the folder of a comparison; rounds that only one version has are left out."""
    from ..analysis.comparison.effects import Order
    from ..analysis.comparison.result import Side, compare_runs
    from ..analysis.load import load_run
    from ..harness.comparing import read_state
    from .compare_replay import attributed

    state = read_state(folder)
    assert state is not None
    runs = {arm: load_run(folder / arm) for arm in state["commits"] if (folder / arm / MANIFEST).is_file()}
    if not {"base", "head"} <= set(runs):
        raise IncompleteError(f"nothing to compare yet: go on with: rooflens compare -o {folder} --resume")
    sides = {arm: (Side(_label(state, arm), str(folder / arm)), runs[arm]) for arm in ("base", "head")}
    complete = len(state["done"]) == state["rounds"] * len(state["commits"])
    result = compare_runs(sides["base"], sides["head"], Order.INTERLEAVED, runs.get("null"), runs.get(OWN_CHOICE))
    return replace(result, causes=attributed(folder, result)), complete


def _label(state: dict[str, Any], arm: str) -> str:
    from ..harness.worktrees import Repository

    commit: str = state["commits"][arm]
    try:
        return f"{arm} ({Repository(Path(state['repository'])).describe(commit)})"
    except RooflensError:  # the repository has moved
        return f"{arm} ({commit[:12]})"


def _stored_runs(base: Path, head: Path) -> "Result":
    from ..analysis.comparison.effects import Order
    from ..analysis.comparison.result import Side, compare_runs
    from ..analysis.load import load_run

    sides = [(Side(folder.name, str(folder)), load_run(folder)) for folder in (base, head)]
    return compare_runs(sides[0], sides[1], Order.SEQUENTIAL)


def _imported(base: str, head: str, columns: str | None) -> "Result":
    from ..analysis.comparison.result import Side, compare_tables
    from ..analysis.imports.read import read

    names = values.mapping(columns, "--columns") if columns else None
    sides = [(Side(Path(file).name, file), read(Path(file), names)) for file in (base, head)]
    return compare_tables(sides[0], sides[1])


def _write(result: "Result", options: dict[str, Any]) -> None:
    if options["html"] or options["markdown"]:
        from ..reports.comparison import build_comparison
        from ..reports.write import write_report

        for path in write_report(build_comparison(result), options["html"], options["markdown"]):
            click.echo(path, err=True)


def _verdict(result: "Result", complete: bool, strict: bool) -> RooflensError | None:
    """What the exit code says: broken before slower before undecided; nothing to compare is never fine."""
    from ..analysis.comparison.decide import Word
    from ..analysis.comparison.effects import Status

    if broken := result.count_of(Status.BROKEN):
        return CorrectnessError(f"{broken} case{'s' * (broken > 1)} passed in base and no longer do in head")
    if slower := result.count(Word.SLOWER):
        return RegressionError(f"{slower} case{'s are' if slower > 1 else ' is'} verified to be slower")
    if not result.count_of(Status.COMPARED):
        return IncompleteError(f"nothing was compared: {result.commonest_reason()}")
    if not strict:
        return None
    if result.unverified is not None:
        return IncompleteError("tables have one value per case: nothing in them is verified")
    if not complete:
        return IncompleteError("the comparison is not complete")
    if missing := result.count_of(Status.REMOVED) + result.count_of(Status.FAILED):
        return IncompleteError(f"{missing} case{'s' * (missing > 1)} of base could not be compared: see the table")
    if open_ := result.count(Word.INCONCLUSIVE):
        return IncompleteError(
            f"{open_} case{'s are' if open_ > 1 else ' is'} inconclusive: more --rounds would decide"
        )
    return None
