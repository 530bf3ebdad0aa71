"""`rooflens bench`: measure what a Python file offers, functions or providers, without a suite to choose."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from ..shapes import suite as suites
from ..shapes import values
from ..shapes.errors import CorrectnessError, RooflensError, UsageError
from ..shapes.problem import Op
from ..shapes.protocol import Protocol
from ..shapes.request import Request
from .run.run import run_here
from .shared.tables import note, show

if TYPE_CHECKING:
    from ..harness.sweep.in_child import Declared, Tell

PREFIX = "bench_"

DEFAULT_SUITE = "llm4bit-quick"
"""Of providers that name no family."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.py")
@click.option("--within", default="20s", show_default=True, metavar="TIME", help="Measure for about so long.")
@click.option("--warm", is_flag=True, help="Call back to back, instead of evicting the last-level cache every time.")
@click.option("--baseline", metavar="NAME", help="Compare with this one; default: the first function, or the suite's.")
@click.option("--suite", metavar="SUITE", help="Measure providers on this; default: the quick suite of their family.")
@click.option("--device", default="auto", metavar="NAME", help="cpu, cuda or cuda:N; default: a GPU if there is one.")
@click.option("--timeout", metavar="TIME", help="Kill a call that hangs for so long; the default is 120s.")
@click.option(
    "--build-timeout", metavar="TIME", help="The same while FILE.py is imported or compiles; the default is 10m."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: times of functions in seconds.")
def bench(
    file: Path,
    within: str,
    warm: bool,
    baseline: str | None,
    suite: str | None,
    device: str,
    timeout: str | None,
    build_timeout: str | None,
    as_json: bool,
) -> None:
    """Measure what FILE.py offers: its functions bench_*, its dictionary BENCH, or its PROVIDERS.

    Functions take no arguments, and do the same work in different ways. They are timed in one process in interleaved
    rounds (rooflens.compare), and each gets a verdict against the first, whose output it must have: exit code 5 where
    one has not. Providers are run on a quick suite, beside its baseline, as by rooflens run.

    \b
    Examples:
      rooflens bench kernels.py
      rooflens bench kernels.py --baseline bench_old --warm
      rooflens bench my_providers.py --suite fp8-quant-quick --within 10s
    """
    within_s = values.seconds(within, "--within")
    timeout_s = values.seconds(timeout, "--timeout") if timeout else Protocol().timeout_s
    build_timeout_s = values.seconds(build_timeout, "--build-timeout") if build_timeout else Protocol().build_timeout_s
    limits = Protocol(budget_s=timeout_s / 2, timeout_s=timeout_s, build_timeout_s=build_timeout_s)
    options = {"baseline": baseline, "cold": not warm, "device": device}
    found = _measured(file, options, within_s, limits, bool(suite))
    if not isinstance(found, dict):
        found.show(as_json)
        return
    own = found
    if as_json:
        raise UsageError(f"{file}: --json prints times of functions; those of providers are in the folder of their run")
    chosen = suites.load(suite or _suite_of(own, file))
    request = Request(
        suite=suite or chosen.name,
        files=(file,),
        providers=(*own, baseline or chosen.baseline),
        baseline=baseline,
        caches=("warm",) if warm else (),
        device=device,
        within=within_s,
        timeout=timeout_s if timeout else None,
        build_timeout=build_timeout_s if build_timeout else None,
    )
    run_here(request, own=own)


def calls_of(module: ModuleType, file: Path) -> dict[str, Callable[[], object]]:
    """Return BENCH of a module, or its functions `bench_*` in the order of the file; empty without either."""
    offered = getattr(module, "BENCH", None)
    if offered is None:
        found = {name: value for name, value in vars(module).items() if name.startswith(PREFIX)}
    elif isinstance(offered, Mapping):
        found = dict(offered)
    else:
        raise UsageError(f"{file}: BENCH is of type {type(offered).__name__}: write BENCH = {{name: function}}")
    for name, call in found.items():
        if not callable(call):
            raise UsageError(f"{file}: {name} is of type {type(call).__name__}, which cannot be called")
    return found


class TimedFunctions(NamedTuple):
    """What the functions of a file came to, as it leaves their process; `errors` say why some have no time."""

    baseline: str
    values: list[dict[str, Any]]
    table: Any
    how: str
    warnings: tuple[str, ...]
    errors: tuple[str, ...]
    is_wrong: bool

    def show(self, as_json: bool) -> None:
        """Print times; raise CorrectnessError where an output was wrong, RooflensError where a function failed."""
        if as_json:
            click.echo(json.dumps({"baseline": self.baseline, "calls": self.values}, indent=1))
        elif self.table:
            show(self.table)
            click.echo(self.how)
            note(*self.warnings)
        if self.errors:
            raise (CorrectnessError if self.is_wrong else RooflensError)("; ".join(self.errors))


def _measured(
    file: Path, options: Mapping[str, Any], within_s: float, limits: Protocol, only_providers: bool
) -> "dict[str, Declared] | TimedFunctions":
    """Measure the functions of a file, or return its providers.

    A function that ends the process or hangs is left out, and the others are measured again.
    """
    from ..harness.sweep.fault_attribution import LEAST_S
    from ..harness.sweep.in_child import in_child
    from ..harness.sweep.supervisor import WorkerSetupError
    from ..harness.worker.messages import MEASURE_PHASE
    from .shared.progress import Progress

    lost: dict[str, str] = {}
    began = time.monotonic()
    while True:
        left_s = max(LEAST_S, within_s - (time.monotonic() - began if lost else 0.0))
        act = partial(_compare, file, {**options, "within_s": left_s}, only_providers, dict(lost))
        try:
            with Progress(sys.stderr) as progress:
                found = in_child(act, [file.resolve()], limits, progress.doing, within_s=left_s)
            break
        except WorkerSetupError as error:
            phase, _, name = error.phase.partition(" ")
            if phase != MEASURE_PHASE:
                raise UsageError(f"{error.where}: {error.why}") from None
            lost[name] = f"{error.where}: {error.why}"
    if not isinstance(found, TimedFunctions):
        return cast("dict[str, Declared]", found)
    rows = [{"outcome": "failed", "name": name, "reason": why} for name, why in lost.items()]
    return found._replace(
        values=found.values + rows, errors=(*found.errors, *(f"{name}: {why}" for name, why in lost.items()))
    )


def _compare(
    file: Path, options: Mapping[str, Any], only_providers: bool, lost: Mapping[str, str], begin: "Tell"
) -> "dict[str, Declared] | TimedFunctions":
    """Measure the functions of a file but `lost` ones, in this process; or say what its providers are."""
    from ..harness.sweep.in_child import declarations
    from ..harness.worker.messages import IMPORT_PHASE, MEASURE_PHASE
    from ..kernels import registry

    begin(IMPORT_PHASE)
    module = registry.import_file(file)
    has_providers, calls = hasattr(module, "PROVIDERS"), calls_of(module, file)
    if calls and (has_providers or only_providers):
        raise UsageError(f"{file} has functions to time: for its PROVIDERS use rooflens run SUITE --providers {file}")
    if has_providers:
        return declarations([file])
    if not calls:
        raise UsageError(f"{file} offers nothing: define functions {PREFIX}*, BENCH = {{name: function}}, or PROVIDERS")
    if (base := options["baseline"] or next(iter(calls))) in lost:
        raise RooflensError(f"{base}, the baseline: {lost[base]}")
    from ..api.comparison import compare

    found = compare(
        {name: call for name, call in calls.items() if name not in lost},
        begun=lambda name: begin(f"{MEASURE_PHASE} {name}"),
        **options,
    )
    first = next(iter(found.timings.values()), None)
    return TimedFunctions(
        found.baseline,
        found.values(),
        found.table() if first else None,
        f"{first.cache}, {len(first.rounds_s)} rounds, timer {first.timer}, on {first.device}" if first else "",
        found.warnings,
        found.errors,
        any(isinstance(error, CorrectnessError) for error in found.failures.values()),
    )


def _suite_of(own: "Mapping[str, Declared]", file: Path) -> str:
    """Name the quick suite of the providers' family, one of products before one of quantizers."""
    families = {provider.family for provider in own.values()} - {""}
    if len(families) > 1:
        raise UsageError(f"{file}: providers of several families ({', '.join(sorted(families))}): choose with --suite")
    quick = [suites.load(name) for name in suites.names() if name.endswith("-quick")]
    fitting = [one for one in quick if families & {scheme.family for scheme in one.parsed_schemes()}]
    return min(fitting, key=lambda one: one.op is Op.QUANTIZE).name if fitting else DEFAULT_SUITE
