"""The command that decides a proposed change: it measures, or at least compares, what lies on both sides of it."""

import json
import shlex
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING

from ...harness.compare.worktrees import Repository
from ...shapes.errors import UsageError
from ...shapes.request import Request
from ...shapes.run_folder.manifest import SHORT, ComparisonState, Manifest

if TYPE_CHECKING:
    import pandas as pd

    from .history import History, Proposal

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
    has_commits = base.commit and head.commit and base.commit != head.commit
    options = state.words
    if not (state.suite and is_alike and has_commits) or options is None:
        return shlex.join(["rooflens", "compare", base.folder, head.folder])
    span = f"{base.commit[:SHORT]}..{head.commit[:SHORT]}"
    words = ["rooflens", "compare", "--git", span, "--repo", state.repository]
    for file in state.files:
        words += ["--providers", file]
    if state.setup:
        words += ["--setup", state.setup]
    cells = found.series.loc[[one.series for one in proposals]]
    if not {"-p", "--provider"} & set(options):
        words += [word for name in dict.fromkeys(cells["provider"]) for word in ("-p", name)]
    condition = _condition(cells, found.series)
    if "--filter" not in options and condition:
        words += ["--filter", condition]
    return shlex.join([*words, *options, state.suite])


def comparable(run: Manifest) -> ComparisonState:
    """Say how `rooflens compare --git` measures what a run did, as compare.json would; nothing where it cannot.

    It cannot without provider files in a repository, nor with configurations that the run did not choose by itself.
    """
    code, request = run.repository, run.request or {}
    files = [Path(file) for file in request.get("files") or ()]
    if (
        code is None
        or not files
        or not all(file.is_relative_to(code.top) for file in files)
        or Repository(Path(code.top)).is_rooflens  # it compares its own kernels, and takes no files
    ):
        return ComparisonState()
    try:
        asked = Request.read(request)
    except UsageError:  # of another version
        return ComparisonState()
    if asked.tuned or asked.scan or "tuning" in asked.protocol:
        return ComparisonState()
    return ComparisonState(
        repository=code.top,
        suite=request.get("suite") or "",
        files=[file.relative_to(code.top).as_posix() for file in files],
        request=asked.stored() | {"providers": []},  # a change is of some of them
    )


def _condition(cells: "pd.DataFrame", known: "pd.DataFrame") -> str:
    """Narrow a suite down to problems like those of `cells`, as far as a few values say it."""
    parts = []
    for name in ("model", "layer", "pass", "M", "dtype", "scheme", "cache"):
        values = cells[name].unique().tolist()
        if len(values) <= FEW and len(values) < known[name].nunique():
            column = f"`{name}`" if iskeyword(name) else name
            is_one = len(values) == 1
            # texts in double quotes: a shell takes them as they are between single ones
            parts.append(f"{column} {'==' if is_one else 'in'} {json.dumps(values[0] if is_one else values)}")
    return " and ".join(parts)
