"""Why a run compares no challenger with its baseline: what stands where a headline number would."""

import pandas as pd

from ...shapes.verdict import Verdict
from .pipeline import Analysis

_MOST = 3
"""Different reasons that are told."""


def why_uncompared(analysis: Analysis) -> str:
    """Return a sentence without its full stop; "" when some challenger and the baseline have a time for one cell."""
    run, cells = analysis.run, analysis.cells
    ratios = analysis.speedups
    mine = ratios.loc[ratios["provider"].isin(run.challengers)]
    if mine["ratio"].notna().any():
        return ""
    baseline = cells.loc[cells["provider"] == run.baseline]
    if not (baseline["verdict"] == Verdict.PASSED).any():
        return f"the baseline {run.baseline} has no time here{_because(baseline)}"
    if not run.challengers:
        return "no challenger is named in this run"
    present = cells.loc[cells["provider"].isin(run.challengers)]
    if present.empty:
        return f"no challenger ({', '.join(run.challengers)}) was measured"
    by_reason: dict[str, list[str]] = {}
    for name, rows in present.groupby("provider", sort=False):
        by_reason.setdefault(_because(rows), []).append(str(name))
    told = [f"{', '.join(names)}{reason}" for reason, names in by_reason.items()]
    named = "; ".join(told[:_MOST]) + (f"; and {len(told) - _MOST} more" if len(told) > _MOST else "")
    if (present["verdict"] == Verdict.UNSUPPORTED).all():
        return f"no challenger can run on this device ({named})"
    if (present["verdict"] == Verdict.PASSED).any():
        reasons = list(dict.fromkeys(mine["reason"].loc[mine["reason"] != ""]))
        return f"no challenger has a time beside one of {run.baseline} ({'; '.join(reasons[:_MOST])})"
    return f"no challenger has a time ({named})"


def _because(cells: pd.DataFrame) -> str:
    """Write ": " and the first stored reason, with its verdict where that is not that it is unsupported."""
    failed = cells.loc[cells["verdict"] != Verdict.PASSED]
    if failed.empty:
        return ""
    verdict, reason = str(failed["verdict"].iloc[0]), str(failed["reason"].iloc[0])
    said = reason if verdict == Verdict.UNSUPPORTED and reason else ", ".join(filter(None, (verdict, reason)))
    return f": {said}"
