"""The options that `run` and `tune` share, and the suite, cells and run.json that follow from them."""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ...shapes import suite as suites
from ...shapes.errors import RooflensError, UsageError, nearest, quote, unknown_name
from ...shapes.protocol import COLD_BY, MOST, TIMERS, Protocol
from ...shapes.run_folder.manifest import VERSION, Manifest, StoredProtocol, StoredRepository
from ...shapes.scheme import DType
from ...shapes.schemes import parse_scheme
from ...shapes.suite import Suite, cache_state, compared_with
from ...shapes.verdict import RETRIED
from ..shared import values
from ..shared.runs import created

if TYPE_CHECKING:
    from ...harness.plan.plan import Cell
    from ...harness.sweep.in_child import Declared

Options = dict[str, Any]
"""Options by the names of their parameters, as typed: run.json keeps them, so that --resume can repeat them."""

_PATH = click.Path(path_type=Path)

SELECTION: tuple[click.Parameter, ...] = (
    click.Argument(["suite"], required=False),
    click.Option(
        ["-p", "--provider", "providers"], multiple=True, metavar="NAME", help="Measure only these; repeat it."
    ),
    click.Option(["--dtype"], metavar="LIST", help="Activation types, such as bf16,fp16."),
    click.Option(
        ["-a", "--axis", "axes"],
        multiple=True,
        metavar="AXIS=LIST",
        help="Values of an axis, such as M=1,2,64; M=1..8 counts, M=1,2,4..64 doubles.",
    ),
    click.Option(["--cache", "caches"], metavar="LIST", help="cold, warm or cold,warm."),
    click.Option(
        ["--filter", "filter_expression"], default="", metavar="EXPR", help="Keep the cells for which this holds."
    ),
    click.Option(
        ["--device"], default="auto", metavar="NAME", help="cpu, cuda or cuda:N; the default is a GPU if there is one."
    ),
    click.Option(
        ["--llc"],
        metavar="SIZE",
        help="Last-level cache that a cold sample evicts, such as 256MiB, if it is not found right.",
    ),
    click.Option(
        ["--threads"],
        type=click.IntRange(1, MOST),
        help="CPU threads; the default is every core this process may use.",
    ),
    click.Option(
        ["--timer"],
        type=click.Choice(TIMERS),
        help="How time is taken: profiler on GPUs, host on the CPU, by default.",
    ),
    click.Option(
        ["--cold-by"],
        type=click.Choice(COLD_BY),
        help="What makes a sample cold: a flush of the caches, or rotation among copies of the operands.",
    ),
    click.Option(["--timeout"], metavar="TIME", help="Kill a cell that hangs for so long, such as 120s."),
    click.Option(
        ["--build-timeout"],
        metavar="TIME",
        help="The same while a provider is imported or prepared, when it may compile; the default is 10m.",
    ),
    click.Option(
        ["--max-time"],
        metavar="TIME",
        help="End the whole sweep cleanly after this, such as 9m; resume with --resume.",
    ),
    click.Option(
        ["--seed"],
        type=click.IntRange(0, (1 << 32) - 1),
        help="Seed of the operands and of the order of the providers.",
    ),
    click.Option(
        ["--providers", "files"], multiple=True, type=_PATH, metavar="FILE", help="Add the kernels of this file."
    ),
    click.Option(["--resume"], is_flag=True, help="Resume the run of -o; without SUITE, exactly as it was started."),
)
"""Parameters that mean the same for `rooflens run` and `rooflens tune`."""

RETRY = click.option(
    "--retry",
    multiple=True,
    type=click.Choice([verdict.value for verdict in RETRIED]),
    help="With --resume, measure again what ended so; repeat it. --timeout may be given anew.",
)
"""Of the commands that can measure failed cells again."""

DEVICES = (
    click.Option(
        ["--jobs"],
        metavar="local[:N]",
        help="Measure on N GPUs of this machine at a time (all: local), or N parts of the CPU. Needs the extra fleet.",
    ),
    click.Option(
        ["--address"],
        metavar="auto|HOST:PORT",
        help="Measure on a cluster of Ray: that of this machine, or by the address of its head; see rooflens fleet.",
    ),
    click.Option(
        ["--on"],
        multiple=True,
        metavar="ARCH[=N]",
        help="Measure on this architecture, and on N of its devices at most: gfx950, sm90=2.",
    ),
    click.Option(["--wait"], default="60s", show_default=True, metavar="TIME", help="Wait so long for a device."),
)
"""Of the commands that can measure on several devices."""


def on_devices(options: Mapping[str, Any]) -> bool:
    """Tell whether to measure on several devices. Raises UsageError for --on alone."""
    if options["on"] and not (options["jobs"] or options["address"]):
        raise UsageError("--on selects an architecture of a cluster: add --address, or --jobs")
    return bool(options["jobs"] or options["address"])


_OPTIONS = (
    *("suite", "providers", "dtype", "axes", "caches", "filter_expression", "device", "llc", "threads", "timer"),
    *("cold_by", "tuning", "tuned", "rounds", "target_ci", "budget", "timeout", "build_timeout", "seed", "files"),
    *("scan", "refine", "refine_to", "refine_most", "baseline", "challengers"),
)


def completed(options: Options) -> Options:
    """Add the options that the command lacks, or that were unknown to the version that stored these."""
    return dict.fromkeys(_OPTIONS) | options


def own_providers(options: Options) -> tuple[str, ...]:
    """Names of the providers in the files of --providers."""
    return tuple(_own(options, suites.load(options["suite"])))


def _own(options: Options, suite: Suite) -> "dict[str, Declared]":
    """Return what the providers of these files declare."""
    if not options["files"]:
        return {}
    return declared(map(Path, options["files"]), _build_timeout_s(options) or suite.protocol.build_timeout_s)


def declared(files: Iterable[Path], build_timeout_s: float = Protocol().build_timeout_s) -> "dict[str, Declared]":
    """Return what the providers of files declare, which are imported elsewhere, and may compile meanwhile.

    A command asks each file once.
    """
    from ...harness.sweep import in_child
    from ..shared.progress import Progress

    known, key = known_files(), tuple(file.resolve() for file in files)
    if key not in known:
        with Progress(sys.stderr) as progress:
            known[key] = in_child.declared(key, build_timeout_s, progress.doing)
    return known[key]


def known_files() -> "dict[tuple[Path, ...], dict[str, Declared]]":
    """Return what files have declared in this command, which may add to it."""
    context = click.get_current_context(silent=True)
    found: dict[tuple[Path, ...], dict[str, Declared]] = context.meta.setdefault(__name__, {}) if context else {}
    return found


def _build_timeout_s(options: Options) -> float | None:
    return values.seconds(options["build_timeout"], "--build-timeout") if options["build_timeout"] else None


def suite_of(options: Options) -> Suite:
    """Load the suite and apply the options that override it."""
    suite = suites.load(options["suite"])
    from ...kernels import registry

    own = _own(options, suite)
    named = tuple(options["challengers"] or ())
    asked = filter(None, (options["baseline"], *named))
    chosen = tuple(dict.fromkeys((*(options["providers"] or (*own, *suite.providers)), *asked)))
    known = list(dict.fromkeys((*own, *registry.names())))
    for name in (*chosen, suite.baseline, *suite.challengers):
        if name not in known:
            raise _unknown_provider(name, known, suite)
    protocol = {
        "rounds": options["rounds"],
        "timer": options["timer"],
        "cold_by": options["cold_by"],
        "tuning": _tuning(options),
        "seed": options["seed"],
        "target_ci": values.fraction(options["target_ci"], "--target-ci") if options["target_ci"] else None,
        "budget_s": values.seconds(options["budget"], "--budget") if options["budget"] else None,
        "timeout_s": values.seconds(options["timeout"], "--timeout") if options["timeout"] else None,
        "build_timeout_s": _build_timeout_s(options),
    }
    axes: dict[str, tuple[int, ...]] = {}
    for name, sizes in map(values.axis, options["axes"]):
        axes[name] = tuple(sorted({*axes.get(name, ()), *sizes}))
    candidates = [name for name, provider in own.items() if provider.role == "candidate" and name in chosen]
    baseline = options["baseline"] or suite.baseline
    if baseline in named:
        other = "" if options["baseline"] else "; name another one with --baseline"
        raise UsageError(f"--challenger {baseline}: it is the baseline of {suite.name}{other}")
    # the headline is about the user's own kernels
    challengers = named or compared_with(options["baseline"], suite.baseline, (*candidates, *suite.challengers))
    challengers = tuple(dict.fromkeys(challengers))
    suite = replace(suite, baseline=baseline, challengers=challengers)
    return suite.override(
        axes=axes,
        dtypes=tuple(DType.parse(name) for name in values.names(options["dtype"])),
        caches=tuple(cache_state(name) for name in values.names(options["caches"])),
        providers=chosen,
        protocol={name: value for name, value in protocol.items() if value is not None},
    )


def plan_of(suite: Suite, options: Options) -> "tuple[Cell, ...]":
    """List the cells of the suite that --filter keeps; note passes that its schemes do not have, and shapes."""
    from ...harness.plan.plan import left_out, plan, refused

    cells = plan(suite, options["filter_expression"])
    if missing := left_out(suite):
        names = ", ".join(f"{pass_} of {scheme}" for scheme, pass_ in missing)
        click.echo(f"note: skipped, because the scheme has no such pass: {names}", err=True)
    for reason in refused(suite):
        click.echo(f"note: skipped: {reason}", err=True)
    return cells


def manifest(folder: Path, suite: Suite) -> Manifest:
    """Return run.json as it begins; the worker completes it with device, environment and providers."""
    created_at, ordered_at = created(folder)
    return Manifest(
        version=VERSION,
        id=folder.name,
        folder=str(folder),
        command=["rooflens", *sys.argv[1:]],
        suite=suite.name,
        seed=suite.protocol.seed,
        created_at=created_at,
        ordered_at=ordered_at,
    )


def describe(content: Manifest, suite: Suite, cells: "tuple[Cell, ...]", options: Options) -> None:
    """Describe the run in run.json. On resume, the plan is that of the latest call; earlier shapes stay."""
    refuse_another(content, suite)
    shapes = list(dict.fromkeys(cell.shape for cell in cells))
    found = _repository(options)
    if content.device is None:  # nothing is measured yet
        content.repository = found
    elif content.repository and found and (found.commit, found.dirty) != (content.repository.commit, False):
        content.repository.dirty = True
    content.request, content.description = _storable(options), suite.description
    content.baseline, content.challengers = suite.baseline, list(suite.challengers)
    content.shapes += [shape for shape in shapes if shape not in content.shapes]
    content.rounds = suite.protocol.rounds
    content.protocol = StoredProtocol(**asdict(suite.protocol), caches=[cache.value for cache in suite.caches])


def _repository(options: Options) -> StoredRepository | None:
    """Describe the repository of the kernels; None where there is none, it is rooflens itself, or git does not work."""
    from ...harness.compare.worktrees import Repository

    files = [Path(file).resolve() for file in options["files"]]
    try:
        repository = Repository.at(files[0].parent if files else Path.cwd())
        return repository.state(files) if files or not repository.is_rooflens else None
    except (RooflensError, OSError):
        return None


def refuse_retry(options: Mapping[str, Any]) -> None:
    """Raise UsageError where --retry has nothing to measure again."""
    if options["retry"] and not options["resume"]:
        raise UsageError("--retry measures again what failed in an earlier call: add -o and --resume, or omit it")


def refuse_other_options(of_this_call: Sequence[str], done: str) -> None:
    """Raise UsageError for options that would be ignored: without SUITE, --resume repeats those of the first call.

    `of_this_call` are the options that may be given, `done` is what the others change ("measured").
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in (*of_this_call, "suite") and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{parameter.opts[-1]} changes what is {done}, but --resume without SUITE continues exactly as it was "
                "started: omit it, or repeat SUITE and its options too"
            )


def refuse_another(content: Manifest, suite: Suite) -> None:
    """Raise UsageError when the run of this run.json is of another suite or seed."""
    for what, was, found in (("suite", content.suite, suite.name), ("seed", content.seed, suite.protocol.seed)):
        if was != found:
            raise UsageError(f"cannot resume: {what} was {was} and is {found} now; choose another -o")


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop; the second one takes effect at once."""
    requested: list[int] = []

    def note(number: int, frame: object) -> None:
        if requested:
            raise KeyboardInterrupt
        requested.append(number)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(requested)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _unknown_provider(name: str, known: list[str], suite: Suite) -> UsageError:
    """Name similar ones, first among the providers that compute what the suite asks for; else all of these."""
    if name.endswith(".py"):
        return UsageError(f"unknown provider {quote(name)}: for a file of your own: --providers {name}")
    from ...kernels.registry import ALL, BUILTIN

    families = {parse_scheme(scheme, suite.dtypes[0]).family for scheme in suite.schemes}
    fitting = [one for one in known if one not in BUILTIN or BUILTIN[one].family in families]
    offered = f"for {suite.name} there are {', '.join(fitting)}; for all see {ALL}"
    return unknown_name("provider", name, fitting if nearest(name, fitting) else known, offered)


def _tuning(options: Options) -> str | None:
    """Combine --tuning and --tuned: a table is used if and only if it is given."""
    tuning, tuned = options["tuning"], options["tuned"]
    if tuned and tuning not in (None, "pinned"):
        raise UsageError(f"--tuned {tuned} is the table of --tuning pinned, not of --tuning {tuning}: omit one of them")
    if tuning == "pinned" and not tuned:
        raise UsageError("--tuning pinned needs --tuned TABLE: make one with rooflens tune SUITE -o RUN")
    return "pinned" if tuned else tuning


def _storable(options: Options) -> Options:
    """Return the options with full paths, so that the run can be resumed from any directory."""
    suite: str = options["suite"]
    return options | {
        "suite": str(Path(suite).resolve()) if suite.endswith(".toml") else suite,
        "files": [str(Path(file).resolve()) for file in options["files"]],
        "tuned": str(Path(options["tuned"]).resolve()) if options["tuned"] else None,
    }
