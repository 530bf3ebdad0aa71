"""Which providers a run compares: those that the reader names, else those of the suite, else ones that have a time."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from ...shapes.errors import UsageError, unknown_name
from ...shapes.suite import compared_with
from ...shapes.verdict import Verdict
from ..frames.load import RunData
from ..frames.speedup import by_wins

_BASELINES = ("dequant_blas", "stock_triton", "upstream", "reference")
"""Roles in the order in which their providers stand in for a baseline without a time. A candidate never
does: a kernel under test is no yardstick."""


def compare_with(run: RunData, baseline: str = "", challengers: Sequence[str] = ()) -> RunData:
    """Return the run with another baseline or other challengers, of any role; "" and () keep its own.

    Raises UsageError for a provider without a cell, and for a challenger that is the baseline.
    """
    known = list(dict.fromkeys(run.cells["provider"]))
    for option, name in (("--baseline", baseline), *(("--challenger", name) for name in challengers)):
        if name and name not in known:
            raise unknown_name("provider", name, known, f"{run.id} has {', '.join(known)} ({option})")
    if (baseline or run.baseline) in challengers:
        other = "" if baseline else "; name another one with --baseline"
        raise UsageError(f"--challenger {baseline or run.baseline}: it is the baseline of {run.id}{other}")
    challengers = challengers or compared_with(baseline, run.baseline, run.challengers)
    return _comparing(run, baseline or run.baseline, challengers)


def with_times(run: RunData) -> RunData:
    """Replace a baseline, and challengers, of which nothing has a time; `replaced` of the run says so.

    A run whose suite names no challenger takes its candidates.
    """
    timed = list(dict.fromkeys(run.cells.loc[run.cells["verdict"] == Verdict.PASSED, "provider"]))
    baseline, challengers = run.baseline, run.challengers
    candidates = tuple(name for name in timed if run.role(name) == "candidate")
    replaced = []
    if not set(challengers) & set(timed):
        found = tuple(name for name in candidates if name != baseline)
        if found and challengers:
            replaced.append(
                f"no challenger ({', '.join(challengers)}) has a time here; compared instead: {', '.join(found)}"
            )
        challengers = found or challengers
    if baseline not in timed:
        free = [name for name in timed if name not in challengers and run.role(name) in _BASELINES]
        missing = f"the baseline {run.baseline} has no time here"
        if free:
            baseline = min(free, key=lambda name: _BASELINES.index(run.role(name)))
            replaced.append(
                f"{missing}: ratios are over {baseline}, which replaces it (choose another with --baseline)"
            )
        elif len(timed) > 1:
            replaced.append(f"{missing}, so there are no ratios: choose one of {', '.join(timed)} with --baseline")
    if (baseline, challengers) == (run.baseline, run.challengers) and not replaced:
        return run
    return replace(_comparing(run, baseline, challengers), replaced=tuple(replaced))


def ranked(run: RunData, ratios: pd.DataFrame) -> tuple[str, ...]:
    """Return the challengers of a run, the one that wins most first, but the user's own before those of a suite.

    `ratios` are `speedup.speedups`; the order of a suite decides between equals alone.
    """
    return tuple(sorted(by_wins(ratios, run.challengers), key=run.is_shipped))


def _comparing(run: RunData, baseline: str, challengers: Sequence[str]) -> RunData:
    manifest = replace(run.manifest, baseline=baseline)
    if challengers:
        manifest.challengers = list(challengers)
        manifest.request = (manifest.request or {}) | {"challengers": manifest.challengers}
    return replace(run, manifest=manifest)
