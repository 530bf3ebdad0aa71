"""Stored results compared: the folder of a comparison, two runs, or two tables.

Cases of a comparison that chose another configuration in head are run again with both configurations in both versions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...analysis.comparison.attribution import ARMS, attribute
from ...analysis.comparison.effects import Order, Status
from ...analysis.comparison.identity import Identity, Version, identity_of
from ...analysis.comparison.machine_code import Difference
from ...analysis.comparison.machine_code import compare as compare_isa
from ...analysis.comparison.result import OWN, Result, Side, compare_runs, compare_tables
from ...analysis.frames.coordinates import CASE
from ...analysis.frames.load import RunData, load_run, table_content
from ...analysis.frames.notes import MIXED
from ...analysis.frames.tables import empty_table, parse_table
from ...analysis.imports.columns import Override
from ...analysis.imports.read import read
from ...analysis.run.summarize import round_medians, summarize
from ...harness.compare.replay import coordinates, write_table
from ...harness.compare.spec import read_state
from ...harness.storage.tables import count_rows
from ...shapes.errors import IncompleteError, UsageError
from ...shapes.run_folder.columns import CELLS, SAMPLES, TUNING, TableSchema
from ...shapes.run_folder.columns_isa import ISA
from ...shapes.run_folder.manifest import COMPARISON, MANIFEST, ComparisonState
from ..measuring import Tell
from ..run_folders import find_run, how_to_resume

_SIDES = ("base", "head")


def stored_comparison(folder: Path) -> Result:
    """Compare what is in the folder of a comparison; rounds that only one version has are left out."""
    state = read_state(folder)
    assert state is not None
    runs = {arm: load_run(folder / arm) for arm in state.commits if count_rows(folder / arm)}
    if not {"base", "head"} <= set(runs):
        raise IncompleteError(f"nothing to compare yet: {how_to_resume(folder)}")
    identity = identity_of(state)
    sides = {arm: (_side(_label(identity, arm), runs[arm]), runs[arm]) for arm in _SIDES}
    result = compare_runs(sides["base"], sides["head"], Order.INTERLEAVED, runs.get("null"), runs.get(OWN))
    tuned = {side: frame for side in _SIDES if len(frame := _rows(folder / "tuned" / side, TUNING))}
    partial = f"is not complete: of {state.rounds} rounds, those that both base and head have are compared"
    ended = state.ended or (partial if not state.is_complete else "")
    return replace(
        result,
        notes=(*([f"The comparison {ended}."] if ended else []), *result.notes),
        causes=attributed(folder, result),
        identity=identity,
        searches=tuned or result.searches,
        isa=_isa(folder / "base", folder / "head"),
        complete=state.is_complete,
    )


def stored_runs(base: Path, head: Path) -> Result:
    """Compare two runs: as what they are when both are arms of one comparison, else as measured one after the other."""
    state = _common_state(base, head)
    if state and (base.name, head.name) == _SIDES:
        return stored_comparison(base.parent)
    sides = [(_side(run.folder.name, run), run) for run in map(load_run, (base, head))]
    result = compare_runs(sides[0], sides[1], Order.INTERLEAVED if state else Order.SEQUENTIAL)
    return replace(result, isa=_isa(base, head))


def _common_state(base: Path, head: Path) -> ComparisonState | None:
    """What compare.json says of the comparison that two run folders are different arms of; None when they are not."""
    here, there = base.resolve(), head.resolve()
    state = read_state(here.parent) if here.parent == there.parent and here != there else None
    return state if state and {here.name, there.name} <= set(state.commits) else None


def stored_results(targets: Sequence[str | Path], columns: Sequence[str], tell: Tell) -> Result:
    """Compare what is named: the folder of a comparison, two runs, or two tables with the texts of --column."""
    names = list(map(str, targets))
    if len(names) == 1 and (Path(names[0]) / COMPARISON).is_file():
        return stored_comparison(Path(names[0]))
    if len(names) != 2:
        raise UsageError(
            "name two runs or tables to compare, or a suite with --git BASE..HEAD; rooflens compare --help has examples"
        )
    if any(Path(name).is_file() for name in names):
        return _imported(names, columns)
    base, head = (find_run(name, tell=tell) for name in names)
    return stored_runs(base, head)


def _imported(names: Sequence[str], columns: Sequence[str]) -> Result:
    overrides = [Override.parse(text) for text in columns]
    if any(one.side for one in overrides):
        raise UsageError("--column: a comparison has no sides but BASE and HEAD: write ROLE=NAME")
    roles = {one.role: one.name for one in overrides}
    if len(roles) < len(overrides):
        raise UsageError("--column names a role twice: each is one column")
    sides = [
        (Side(file.name, name, ((file.name, sha256(file.read_bytes()).hexdigest()[:16]),)), read(file, roles))
        for name, file in zip(names, map(Path, names), strict=True)
    ]
    return compare_tables(sides[0], sides[1])


def _label(identity: Identity | None, arm: str) -> str:
    version: Version | None = getattr(identity, arm, None)
    return f"{arm} ({version.label})" if version else arm


def _side(label: str, run: RunData) -> Side:
    files = tuple((table.file, run.digests.get(table.file, "")[:16]) for table in (CELLS, SAMPLES))
    return Side(label, str(run.folder), files)


def _rows(folder: Path, table: TableSchema) -> pd.DataFrame:
    """Rows of a table that a folder may lack."""
    content = table_content(folder, table)
    return empty_table(table) if content is None else parse_table(content, table, str(folder / table.file))


def _isa(base: Path, head: Path) -> Difference | None:
    frames = [_rows(folder, ISA) for folder in (base, head)]
    return compare_isa(*frames) if all(len(frame) for frame in frames) else None


FOLDER = "replay"
"""Folder of the replay inside that of its comparison."""


def flips(result: Result) -> pd.DataFrame:
    """Compared cases that stand on another configuration in head, with all that `Effects.cases` says of them."""
    cases = result.effects.cases
    both = ~cases["base_config"].isin(["", MIXED]) & ~cases["head_config"].isin(["", MIXED])
    return cases[(cases["status"] == Status.COMPARED) & both & (cases["base_config"] != cases["head_config"])]


Measure = Callable[[Path, ComparisonState], bool]
"""Measure a comparison in its folder, on one device or a fleet; True when it is complete."""


def replay(folder: Path, what: ComparisonState, result: Result, measure: Measure) -> bool:
    """Measure the four arms for the flips of `result`; True when they are complete."""
    rows = flips(result).to_dict("records")
    inside = folder.resolve() / FOLDER
    device = load_run(folder / "base").device
    tables = {side: str(write_table(inside / f"{side}.csv", rows, side, device)) for side in ("base", "head")}
    again = replace(
        what,
        commits={arm: what.commits[arm.partition("+")[0]] for arm in ARMS},
        tables=dict(zip(ARMS, (tables["base"], tables["head"], tables["head"], tables["base"]), strict=True)),
        cells=coordinates(rows),
    )
    return measure(inside, again)


def attributed(folder: Path, result: Result) -> pd.DataFrame | None:
    """Attribute the flips of a comparison from its stored replay; None where none is complete.

    Rows have CASE, both configurations, and the columns of `attribute`.
    """
    state = read_state(folder / FOLDER)
    if state is None or not state.is_complete:
        return None
    runs = {arm: load_run(folder / FOLDER / arm) for arm in ARMS if (folder / FOLDER / arm / MANIFEST).is_file()}
    if set(runs) != set(ARMS):
        return None
    cases = flips(result)[[*CASE, "base_config", "head_config"]].reset_index(drop=True)
    keys = {key: number for number, key in enumerate(cases[[*CASE]].itertuples(index=False, name=None))}
    rounds = 1 + max(int(run.cells["round"].max()) for run in runs.values())
    times = np.full((len(cases), rounds, len(ARMS)), np.nan)
    offered = np.ones(len(cases), dtype=bool)
    for arm, run in enumerate(runs.values()):
        for number, place, median, pinned in _rounds(run, keys):
            times[number, place, arm] = median
            offered[number] &= pinned
    return cases.join(attribute(times, offered & np.isfinite(times).any(axis=1).all(axis=1)))


def _rounds(run: RunData, keys: dict[Any, int]) -> "list[tuple[int, int, float, bool]]":
    """(case, round, median, whether the given configuration ran) of every stored round."""
    summary = summarize(run).set_index("cell_id")
    numbers = summary[[*CASE]].apply(tuple, axis=1).map(keys)
    pinned = summary["tuning"] == "pinned"
    medians = round_medians(run)[["cell_id", "round", "median_s"]].itertuples(index=False, name=None)
    return [
        (int(numbers[cell]), int(number), float(median), bool(pinned[cell]))
        for cell, number, median in medians
        if numbers[cell] == numbers[cell]  # a case that is no flip has no number
    ]
