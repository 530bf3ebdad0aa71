"""The functions of a Python file, timed in a process of its own."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType

from ..harness.sweep.fault_attribution import LEAST_S
from ..harness.sweep.in_child import Declared, Tell, declarations, in_child
from ..harness.sweep.supervisor import WorkerSetupError
from ..harness.worker.messages import IMPORT_PHASE, MEASURE_PHASE
from ..kernels import registry
from ..shapes.errors import CorrectnessError, RooflensError, UsageError
from ..shapes.protocol import Protocol
from ..shapes.request import Request
from ..shapes.suite import Cache, cache_state
from .selection import unheard
from .times import Change, Comparison, Timing

PREFIX = "bench_"

WITHIN_S = 20.0
"""Time to measure for, unless requested otherwise."""


@dataclass(frozen=True, slots=True)
class _Offered:
    """What a file offers, as it leaves its process: providers (`own`), or what a `Comparison` of its functions has.

    `wrong` are functions whose output was wrong; `reasons` has these and all others without a time.
    """

    own: dict[str, Declared] = field(default_factory=dict)
    baseline: str = ""
    timings: dict[str, Timing] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()


def bench_file(
    file: Path, request: Request, doing: Callable[[str], object] = unheard
) -> Comparison | dict[str, Declared]:
    """Time the functions of FILE.py against each other, or return what its PROVIDERS declare.

    Functions are its dictionary BENCH, or those that are named bench_*. One that ends the process or hangs is left out,
    and the others are measured again. Of the request count baseline, caches, device, within and both timeouts.
    """
    if len(request.caches) > 1:
        raise UsageError("--cache: functions are timed in one state of the caches: cold or warm")
    limits, within_s = request.over(Protocol(budget_s=1e-6)), request.within or WITHIN_S
    lost: dict[str, str] = {}
    began = time.monotonic()
    while True:
        left_s = max(LEAST_S, within_s - (time.monotonic() - began if lost else 0.0))
        act = partial(_timed, file, replace(request, within=left_s), dict(lost))
        try:
            found: _Offered = in_child(act, [file.resolve()], limits, doing, _Offered, within_s=left_s)
            break
        except WorkerSetupError as error:
            phase, _, name = error.phase.partition(" ")
            if phase != MEASURE_PHASE:
                raise UsageError(f"{error.where}: {error.why}") from None
            lost[name] = f"{error.where}: {error.why}"
    if found.own:
        return found.own
    reasons = found.reasons | lost
    failures = {
        name: (CorrectnessError if name in found.wrong else RooflensError)(why) for name, why in reasons.items()
    }
    return Comparison(found.baseline, found.timings, found.changes, failures, reasons)


def _timed(file: Path, request: Request, lost: Mapping[str, str], begin: Tell) -> _Offered:
    """Time the functions of a file but `lost` ones, in this process; or say what its providers are."""
    begin(IMPORT_PHASE)
    module = registry.import_file(file)
    has_providers, calls = hasattr(module, "PROVIDERS"), _calls_of(module, file)
    if calls and (has_providers or request.suite):
        raise UsageError(f"{file} has functions to time: for its PROVIDERS use rooflens run SUITE --providers {file}")
    if has_providers:
        return _Offered(declarations([file], begin))
    if not calls:
        raise UsageError(f"{file} offers nothing: define functions {PREFIX}*, BENCH = {{name: function}}, or PROVIDERS")
    if (base := request.baseline or next(iter(calls))) in lost:
        raise RooflensError(f"{base}, the baseline: {lost[base]}")
    from .bench import bench

    found = bench(
        {name: call for name, call in calls.items() if name not in lost},
        baseline=request.baseline,
        cold=[*map(cache_state, request.caches)] != [Cache.WARM],
        device=request.device or "auto",
        within_s=request.within,
        begun=lambda name: begin(f"{MEASURE_PHASE} {name}"),
    )
    wrong = tuple(name for name in found.failures if found.outcome(name) == "wrong")
    return _Offered({}, found.baseline, dict(found.timings), dict(found.changes), dict(found.reasons), wrong)


def _calls_of(module: ModuleType, file: Path) -> dict[str, Callable[[], object]]:
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
