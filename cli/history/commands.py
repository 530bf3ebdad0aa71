"""The command that decides a proposed change: it measures, or at least compares, what lies on both sides of it."""

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...shapes.run_folder.manifest import ComparisonState

if TYPE_CHECKING:
    import pandas as pd

    from ...analysis.history.history import History, Proposal

FEW = 3
"""Values that a condition of a proposed comparison lists; of more, it says nothing."""


def deciding_command(
    found: "History",
    before: int,
    after: int,
    proposals: Sequence["Proposal"],
    states: Mapping[str, ComparisonState],
) -> str:
    """Write the command that compares what lies before and after: the commits where they are known, else the runs."""
    base, head = found.runs[before], found.runs[after]
    other, state = (states.get(run.folder, ComparisonState()) for run in (base, head))
    is_alike = (other.repository, other.files, other.suite) == (state.repository, state.files, state.suite)
    if not (base.commit and head.commit and base.commit != head.commit and is_alike):
        return shlex.join(["rooflens", "compare", base.folder, head.folder])
    words = ["rooflens", "compare", "--git", f"{base.commit[:12]}..{head.commit[:12]}", "--repo", state.repository]
    for file in state.files:
        words += ["--providers", file]
    if state.setup:
        words += ["--setup", state.setup]
    cells = found.series.loc[[one.series for one in proposals]]
    if not {"-p", "--provider"} & set(state.options):
        words += [word for name in dict.fromkeys(cells["provider"]) for word in ("-p", name)]
    condition = _condition(cells, found.series)
    if "--filter" not in state.options and condition:
        words += ["--filter", condition]
    return shlex.join([*words, *state.options, state.suite])


def _condition(cells: "pd.DataFrame", known: "pd.DataFrame") -> str:
    """Narrow a suite down to problems like those of `cells`, as far as a few values say it."""
    parts = []
    for name in ("model", "layer", "pass", "M", "dtype", "scheme", "cache"):
        values = cells[name].unique().tolist()
        if len(values) <= FEW and len(values) < known[name].nunique():
            parts.append(f"`{name}` == {values[0]!r}" if len(values) == 1 else f"`{name}` in {values!r}")
    return " and ".join(parts)
