"""What `rooflens compare` reads: the folder of a comparison, two runs, or two tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..analysis.comparison.effects import Order
from ..analysis.comparison.result import Result, Side, compare_runs, compare_tables
from ..analysis.imports.read import read
from ..analysis.load import load_run
from ..harness.comparison import read_state
from ..harness.worktrees import Repository
from ..shapes.errors import IncompleteError, RooflensError
from . import values
from .compare_replay import attributed
from .runs import MANIFEST

OWN_CHOICE = "head+own"
"""Arm of --tune: head with the configurations that searches of its own chose."""


def stored_comparison(folder: Path) -> tuple[Result, bool]:
    """Compare what is in the folder of a comparison; rounds that only one version has are left out."""
    state = read_state(folder)
    assert state is not None
    runs = {arm: load_run(folder / arm) for arm in state["commits"] if (folder / arm / MANIFEST).is_file()}
    if not {"base", "head"} <= set(runs):
        raise IncompleteError(f"nothing to compare yet: go on with: rooflens compare -o {folder} --resume")
    sides = {arm: (Side(_label(state, arm), str(folder / arm)), runs[arm]) for arm in ("base", "head")}
    complete = len(state["done"]) == state["rounds"] * len(state["commits"])
    result = compare_runs(sides["base"], sides["head"], Order.INTERLEAVED, runs.get("null"), runs.get(OWN_CHOICE))
    return replace(result, causes=attributed(folder, result)), complete


def stored_runs(base: Path, head: Path) -> Result:
    """Compare two runs that were measured one after the other."""
    sides = [(Side(folder.name, str(folder)), load_run(folder)) for folder in (base, head)]
    return compare_runs(sides[0], sides[1], Order.SEQUENTIAL)


def imported(base: str, head: str, columns: str | None) -> Result:
    """Compare two tables; `columns` is --columns as typed."""
    names = values.mapping(columns, "--columns") if columns else None
    sides = [(Side(Path(file).name, file), read(Path(file), names)) for file in (base, head)]
    return compare_tables(sides[0], sides[1])


def _label(state: dict[str, Any], arm: str) -> str:
    commit: str = state["commits"][arm]
    try:
        return f"{arm} ({Repository(Path(state['repository'])).describe(commit)})"
    except RooflensError:  # the repository has moved
        return f"{arm} ({commit[:12]})"
