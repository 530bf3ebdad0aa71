"""What a `Request` selects: the suite with its changes, and what the user's files declare."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..shapes import suite as suites
from ..shapes.errors import UsageError, nearest, quote, unknown_name
from ..shapes.problem import Op
from ..shapes.protocol import Protocol
from ..shapes.request import Request
from ..shapes.scheme import DType
from ..shapes.schemes import parse_scheme
from ..shapes.suite import Suite, cache_state, compared_with

if TYPE_CHECKING:
    from ..harness.sweep.in_child import Declared
    from ..harness.sweep.supervisor import Start
    from ..harness.worker.messages import Interpreter


DEFAULT_SUITE = "llm4bit-quick"
"""Of providers that name no family."""


def unheard(what: str) -> None:
    """Tell nobody."""


def own_providers(
    request: Request,
    doing: Callable[[str], object] = unheard,
    should_stop: Callable[[], bool] = lambda: False,
    interpreter: "Interpreter | None" = None,
    start: "Start | None" = None,
) -> "dict[str, Declared]":
    """Return what the providers of the request's files declare, which are imported elsewhere, and may compile.

    `doing` is told what takes long, and it ends when it `should_stop`; `interpreter` imports them (None: this one),
    in a process that `start` starts (None: here).
    """
    alone = _file_of(request)
    files = [*request.files, *([alone] if alone else ())]
    if not files:
        return {}
    from ..harness.sweep.in_child import declared

    protocol = Protocol() if alone else suites.load(request.suite or "").protocol
    limit_s = request.over(protocol).build_timeout_s
    return declared([file.resolve() for file in files], limit_s, doing, should_stop, interpreter, start)


def _file_of(request: Request) -> Path | None:
    """Return the file whose providers are measured, where it is named in place of a suite."""
    return Path(request.suite) if request.suite and request.suite.endswith(".py") else None


def on_a_suite(request: Request, own: "Mapping[str, Declared]", suite: str = "") -> Request:
    """Return a request for FILE.py as that for its providers `own` beside the baseline of a suite.

    By default it is the quick suite of their family. A request that names a suite is returned as it is.
    """
    if (file := _file_of(request)) is None:
        return request
    chosen = suites.load(suite or _quick_suite(own, file))
    return replace(
        request,
        suite=suite or chosen.name,
        files=(file, *request.files),
        providers=request.providers or (*own, request.baseline or chosen.baseline),
    )


def _quick_suite(own: "Mapping[str, Declared]", file: Path) -> str:
    """Name the quick suite of the providers' family, one of products before one of quantizers."""
    families = {provider.family for provider in own.values()} - {""}
    if len(families) > 1:
        several = ", ".join(sorted(families))
        raise UsageError(f"{file}: providers of several families ({several}): name a suite and --providers {file}")
    quick = [suites.load(name) for name in suites.names() if name.endswith("-quick")]
    fitting = [one for one in quick if families & {scheme.family for scheme in one.parsed_schemes()}]
    return min(fitting, key=lambda one: one.op is Op.QUANTIZE).name if fitting else DEFAULT_SUITE


def suite_of(request: Request, own: "Mapping[str, Declared] | None" = None) -> Suite:
    """Load the suite, and apply what the request changes; `own` are the providers of its files.

    Raises UsageError for names that are unknown, and for choices that exclude each other.
    """
    if request.suite is None:
        raise UsageError("name a suite (rooflens list suites)")
    suite, own = suites.load(request.suite), own or {}
    from ..kernels import registry

    asked = filter(None, (request.baseline, *request.challengers))
    chosen = tuple(dict.fromkeys((*(request.providers or (*own, *suite.providers)), *asked)))
    known = list(dict.fromkeys((*own, *registry.names())))
    for name in (*chosen, suite.baseline, *suite.challengers):
        if name not in known:
            raise _unknown_provider(name, known, suite)
    candidates = [name for name, provider in own.items() if provider.role == "candidate" and name in chosen]
    baseline = request.baseline or suite.baseline
    if baseline in request.challengers:
        other = "" if request.baseline else "; name another one with --baseline"
        raise UsageError(f"--challenger {baseline}: it is the baseline of {suite.name}{other}")
    # the headline is about the user's own kernels
    challengers = request.challengers or compared_with(
        request.baseline or "", suite.baseline, (*candidates, *suite.challengers)
    )
    suite = replace(suite, baseline=baseline, challengers=tuple(dict.fromkeys(challengers)))
    return suite.override(
        axes=request.axes,
        dtypes=tuple(map(DType.parse, request.dtype)),
        caches=tuple(map(cache_state, request.caches)),
        providers=chosen,
        protocol=request.protocol | _tuning(request),
    )


def skipped(suite: Suite) -> tuple[str, ...]:
    """Say which passes its schemes do not have, and which shapes they cannot have: no cells are planned for them."""
    from ..harness.plan.plan import left_out, refused

    names = ", ".join(f"{pass_} of {scheme}" for scheme, pass_ in left_out(suite))
    missing = [f"skipped, because the scheme has no such pass: {names}"] if names else []
    return (*missing, *(f"skipped: {reason}" for reason in refused(suite)))


def _unknown_provider(name: str, known: list[str], suite: Suite) -> UsageError:
    """Name similar ones, first among the providers that compute what the suite asks for; else all of these."""
    if name.endswith(".py"):
        return UsageError(f"unknown provider {quote(name)}: for a file of your own: --providers {name}")
    from ..kernels.registry import ALL, BUILTIN

    families = {parse_scheme(scheme, suite.dtypes[0]).family for scheme in suite.schemes}
    fitting = [one for one in known if one not in BUILTIN or BUILTIN[one].family in families]
    offered = f"for {suite.name} there are {', '.join(fitting)}; for all see {ALL}"
    return unknown_name("provider", name, fitting if nearest(name, fitting) else known, offered)


def _tuning(request: Request) -> dict[str, str]:
    """Combine tuning and --tuned: a table is used if and only if it is given."""
    tuning, tuned = request.protocol.get("tuning"), request.tuned
    if tuned and tuning not in (None, "pinned"):
        raise UsageError(f"--tuned {tuned} is the table of tuning=pinned, not of tuning={tuning}: omit one of them")
    return {"tuning": "pinned"} if tuned else {}
