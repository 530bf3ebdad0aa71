"""What came of a run, a line each: cells without a time, units to do, failed candidates, defaults under a pin."""

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...shapes.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

    from ...analysis.frames.load import RunData

MOST_NAMES = 4
"""Names that stand in a line; the tables have them all."""


def outcome(run: "RunData", stopped_at: str = "") -> Iterator[str]:
    """Yield the lines; `stopped_at` is the UTC time at which --max-time ended the sweep last, "" when it never did."""
    yield _cells(run)
    if not run.missing_units and stopped_at > run.cells["started_at"].max():
        yield "note: every cell is finished; only the closing calibration is missing: there was no time left for it"
    if failed := _failed_candidates(run.tuning):
        yield failed
    if run.manifest.protocol.tuning == "pinned" and not run.manifest.scan:
        yield from _unpinned(run.cells)


def _cells(run: "RunData") -> str:
    """Say how many cells have a time, what became of the others, and how many units are left."""
    verdicts = _verdict_of_each(run.cells)
    counts = verdicts["verdict"].value_counts()
    unsupported = int(counts.get(Verdict.UNSUPPORTED, 0))
    planned = max(len(verdicts), run.planned_units // (run.manifest.rounds or 1)) - unsupported
    parts = [f"{int(counts.get(Verdict.PASSED, 0))} of {planned} have a time"]
    for verdict in Verdict:
        if verdict not in (Verdict.PASSED, Verdict.UNSUPPORTED) and verdict in counts.index:
            who = verdicts.loc[verdicts["verdict"] == verdict, "provider"]
            parts.append(f"{counts[verdict]} {verdict} ({_listed(who)})")
    if unsupported:
        parts.append(f"{unsupported} more unsupported")
    if missing := run.missing_units:
        parts.append(f"{missing} unit{'s' * (missing > 1)} still to do")
    first, *rest = parts
    return f"cells: {first}" + (f"; {', '.join(rest)}" if rest else "")


def _verdict_of_each(cells: "pd.DataFrame") -> "pd.DataFrame":
    """One row per cell: a failure in any round is what became of it."""
    passed = cells["verdict"] == Verdict.PASSED
    ranked = cells[["cell_id", "verdict", "provider"]].assign(passed=passed).sort_values("passed", kind="stable")
    return ranked.drop_duplicates("cell_id").sort_index()


def _failed_candidates(tuning: "pd.DataFrame") -> str:
    """Name the candidates that no search could time; "" when there are none."""
    failed = tuning.loc[~tuning["verdict"].isin([Verdict.PASSED, Verdict.UNSUPPORTED])]
    if failed.empty:
        return ""
    named = (
        " ".join(filter(None, (provider, _configuration(config), verdict)))
        for provider, config, verdict in failed[["provider", "config", "verdict"]].itertuples(index=False, name=None)
    )
    noun = "candidate" if len(failed) == 1 else "candidates"
    return f"{len(failed)} {noun} failed in the searches: {_listed(named)} (tuning.csv)"


def _configuration(text: str) -> str:
    """Write {"form": "wrong"} as form=wrong."""
    values = json.loads(text) if text else {}
    return " ".join(f"{name}={value}" for name, value in values.items()) if isinstance(values, dict) else text


def _unpinned(cells: "pd.DataFrame") -> Iterator[str]:
    ran = cells.loc[cells["tuning"] != ""].drop_duplicates("cell_id")
    if default := int((ran["tuning"] == "default").sum()):
        verb = "is" if default == 1 else "are"
        yield f"note: {default} of {len(ran)} cells {verb} not in the table and ran the default"


def _listed(names: Iterable[object]) -> str:
    distinct = list(dict.fromkeys(map(str, names)))
    return ", ".join(distinct[:MOST_NAMES]) + (", ..." if len(distinct) > MOST_NAMES else "")
