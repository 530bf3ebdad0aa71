"""The `rooflens` command: the table of subcommands, and how every failure becomes one line and an exit code.

`rooflens --help` imports click and nothing heavier: a subcommand's module is imported when that subcommand is asked
for, and torch or pandas only inside its function.
"""

import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import click

from .. import __version__
from ..api.failures import explained, fail
from ..shapes.errors import unknown_name
from ..shapes.plugins import Command, left_out, plugins, resolved
from .shared.terminal import visible_streams

_OWN = {
    "doctor": Command("doctor:doctor", "Report what this machine offers for measuring, and what to fix."),
    "run": Command("run.run:run", "Measure SUITE and store every sample."),
    "bench": Command(
        "bench:bench", "Measure what FILE.py offers: its functions bench_*, its dictionary BENCH, or its PROVIDERS."
    ),
    "calibrate": Command("calibrate:calibrate", "Measure the ceilings of this device."),
    "tune": Command("tune:tune", "Search the fastest configuration of every kernel of SUITE, and keep the table."),
    "report": Command("report:report", "Write the report of a run, or of a run against another."),
    "crossover": Command("crossover:crossover", "Report at which M a challenger beats an incumbent."),
    "roofline": Command("roofline:roofline", "Report what bounds each cell, and how far it is from the roof."),
    "compare": Command(
        "compare.compare:compare", "Compare two versions of the same kernels: commits, stored runs, or tables."
    ),
    "validate": Command(
        "validate:validate", "Check run folders: are they complete, what is missing, would they merge?"
    ),
    "merge": Command("merge:merge", "Join shards of one sweep into one run folder."),
    "list": Command("listing.list:listing", "List suites, shapes, providers, devices, columns or runs."),
}
"""name -> where it lives inside this package, in the order of `rooflens --help`."""


def commands() -> dict[str, Command]:
    """Return where every subcommand lives, by name."""
    own = {name: replace(one, target=f"{__package__}.{one.target}") for name, one in _OWN.items()}
    added = {name: one for plugin in plugins().values() for name, one in plugin.commands.items()}
    return own | added | own  # the order of our own, none of them replaced


class _LazyGroup(click.Group):
    """A group that knows its commands' names and one-line help without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        found = commands().get(cmd_name)
        command: click.Command | None = resolved(found.target) if found else None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table itself, so that help imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in commands().items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest commands when the name is unknown."""
        if args and not args[0].startswith("-") and args[0] not in commands():
            raise unknown_name("command", args[0], list(commands()))
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rooflens", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def app(ctx: click.Context, debug: bool) -> None:
    """Benchmark quantized GEMM kernels against their baselines, and write the report.

    Measures every provider of a suite on this machine's GPU or CPU, stores the raw timings as CSV, and says which
    kernel wins where, up to which M, and what bounds it.

    \b
    Examples:
      rooflens list suites
      rooflens run llm4bit-quick -o runs/quick --report
      rooflens crossover latest --challenger simt_4bit --incumbent dequant_blas
    """
    ctx.ensure_object(dict)["debug"] = debug
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return its exit code.

    0 fine, 1 error, 2 usage, 3 regression verified, 4 incomplete under --strict, 5 wrong output, 130 interrupted.
    Whatever goes wrong is one line on stderr; with --debug its traceback comes first.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a Latin-1 terminal gets ? for ≥, not an error
            stream.reconfigure(errors="replace")
    with visible_streams(), _terminated_as_interrupted():
        return _run(arguments)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let a SIGTERM do what Ctrl-C does: what a batch system ends says so, and how to resume."""
    if threading.current_thread() is not threading.main_thread():  # signals are the business of that one
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: Sequence[str] | None) -> int:
    session: dict[str, bool] = {}  # what the options of the group itself say
    color = False if os.environ.get("NO_COLOR") else None
    try:
        for name, reason in left_out().items():
            click.echo(f"note: the plugin {name} is left out: {reason}", err=True)
        result = app.main(arguments, prog_name="rooflens", standalone_mode=False, obj=session, color=color)
        sys.stdout.flush()
    except SystemExit as stop:  # click's way out when the reader of a pipe has gone
        _settle_output()
        return stop.code if isinstance(stop.code, int) else 1
    except BaseException as error:
        if session.get("debug"):
            traceback.print_exc()
        return _explain(error)
    return result if isinstance(result, int) else 0


def _explain(error: BaseException) -> int:
    match error:
        case click.UsageError():
            command = error.ctx.command_path if error.ctx else "rooflens"
            what = error.format_message().rstrip(".")
            return fail(f"{what}{' See' if what.endswith('?') else '; see'} {command} --help", error.exit_code)
        case click.ClickException():
            return fail(error.format_message(), error.exit_code)
        case click.Abort():
            return fail(*explained(KeyboardInterrupt()))
        case BrokenPipeError():
            _settle_output()
            return 1
        case OSError():
            _settle_output()
    return fail(*explained(error))


def _settle_output() -> None:
    """Write what is left of stdout, or point it at the null device so that the last flush cannot fail a second time."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
