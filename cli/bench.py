"""`rooflens bench`: measure what a Python file offers, functions or providers, without a suite to choose."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from ..shapes import suite as suites
from ..shapes.errors import CorrectnessError, RooflensError, UsageError
from ..shapes.problem import Op
from ..shapes.protocol import Protocol
from .run.run import run
from .shared import values
from .shared.tables import note, show

if TYPE_CHECKING:
    from ..kernels.provider import AnyProvider

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
@click.option("--json", "as_json", is_flag=True, help="Print JSON: times of functions in seconds.")
@click.pass_context
def bench(
    context: click.Context,
    file: Path,
    within: str,
    warm: bool,
    baseline: str | None,
    suite: str | None,
    device: str,
    as_json: bool,
) -> None:
    """Measure what FILE.py offers: its functions bench_*, its dictionary BENCH, or its PROVIDERS.

    Functions take no arguments, and do the same work in different ways. They are timed in this process in interleaved
    rounds (rooflens.compare), and each gets a verdict against the first, whose output it must have: exit code 5 where
    one has not. Providers are run on a quick suite, beside its baseline, as by rooflens run.

    \b
    Examples:
      rooflens bench kernels.py
      rooflens bench kernels.py --baseline bench_old --warm
      rooflens bench my_providers.py --suite fp8-quant-quick --within 10s
    """
    from ..kernels import registry
    from .shared.import_limit import import_limit

    within_s = values.seconds(within, "--within")
    with import_limit(Protocol().build_timeout_s):
        module = registry.import_file(file)
    if calls := calls_of(module, file):
        if suite or hasattr(module, "PROVIDERS"):
            raise UsageError(
                f"{file} has functions to time: for its PROVIDERS use rooflens run SUITE --providers {file}"
            )
        _compare(calls, baseline, cold=not warm, within_s=within_s, device=device, as_json=as_json)
        return
    if as_json:
        raise UsageError(f"{file}: --json prints times of functions; those of providers are in the folder of their run")
    if not hasattr(module, "PROVIDERS"):
        raise UsageError(f"{file} offers nothing: define functions {PREFIX}*, BENCH = {{name: function}}, or PROVIDERS")
    own = registry.load((), [file])
    chosen = suites.load(suite or _suite_of(own, file))
    context.invoke(
        run,
        suite=suite or chosen.name,
        files=(file,),
        providers=(*own, baseline or chosen.baseline),
        baseline=baseline,
        caches="warm" if warm else None,
        device=device,
        within=within,
        report=False,
    )


def calls_of(module: ModuleType, file: Path) -> dict[str, Callable[[], object]]:
    """Return BENCH of a module, or its functions `bench_*` in the order of the file; empty without either."""
    offered = getattr(module, "BENCH", None)
    if offered is None:
        found = {name: value for name, value in vars(module).items() if name.startswith(PREFIX)}
    elif isinstance(offered, Mapping):
        found = {str(name): value for name, value in offered.items()}
    else:
        raise UsageError(f"{file}: BENCH is of type {type(offered).__name__}: write BENCH = {{name: function}}")
    for name, call in found.items():
        if not callable(call):
            raise UsageError(f"{file}: {name} is of type {type(call).__name__}, which cannot be called")
    return found


def _compare(calls: Mapping[str, Callable[[], object]], baseline: str | None, *, as_json: bool, **options: Any) -> None:
    from ..api.comparison import compare

    found = compare(calls, baseline=baseline, **options)
    if as_json:
        click.echo(json.dumps({"baseline": found.baseline, "calls": found.values()}, indent=1))
    elif found.timings:
        show(found.table())
        first = next(iter(found.timings.values()))
        click.echo(f"{first.cache}, {len(first.rounds_s)} rounds, timer {first.timer}, on {first.device}")
        note(*found.warnings)
    if found.failures:
        is_wrong = any(isinstance(error, CorrectnessError) for error in found.failures.values())
        raise (CorrectnessError if is_wrong else RooflensError)("; ".join(found.errors))


def _suite_of(own: "Mapping[str, AnyProvider]", file: Path) -> str:
    """Name the quick suite of the providers' family, one of products before one of quantizers."""
    families = {provider.family for provider in own.values()} - {""}
    if len(families) > 1:
        raise UsageError(f"{file}: providers of several families ({', '.join(sorted(families))}): choose with --suite")
    quick = [suites.load(name) for name in suites.names() if name.endswith("-quick")]
    fitting = [one for one in quick if families & {scheme.family for scheme in one.parsed_schemes()}]
    return min(fitting, key=lambda one: one.op is Op.QUANTIZE).name if fitting else DEFAULT_SUITE
