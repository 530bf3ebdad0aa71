"""What `rooflens compare` reads: the folder of a comparison, two runs, or two tables."""

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...analysis.comparison.effects import Order
from ...analysis.comparison.identity import Identity, Version, identity_of
from ...analysis.comparison.machine_code import compare as compare_isa
from ...analysis.comparison.result import OWN, Result, Side, compare_runs, compare_tables
from ...analysis.frames.load import load_run, table_content
from ...analysis.frames.tables import empty_table, parse_table
from ...analysis.imports.columns import Override
from ...analysis.imports.read import read
from ...harness.compare.spec import read_state
from ...shapes.errors import IncompleteError, UsageError
from ...shapes.run_folder.columns import CELLS, SAMPLES, TUNING
from ...shapes.run_folder.columns_isa import ISA
from ...shapes.run_folder.manifest import ComparisonState
from ..shared.runs import count_rows
from .replay import attributed

if TYPE_CHECKING:
    import pandas as pd

    from ...analysis.comparison.machine_code import Difference
    from ...shapes.run_folder.columns import TableSchema

OWN_CHOICE = OWN
"""Arm of --tune: head with the configurations that searches of its own chose."""

_SIDES = ("base", "head")


def stored_comparison(folder: Path) -> tuple[Result, bool]:
    """Compare what is in the folder of a comparison; rounds that only one version has are left out."""
    state = read_state(folder)
    assert state is not None
    runs = {arm: load_run(folder / arm) for arm in state.commits if count_rows(folder / arm)}
    if not {"base", "head"} <= set(runs):
        raise IncompleteError(f"nothing to compare yet: resume with: {go_on(folder, bool(state.chunks))}")
    identity = identity_of(state)
    sides = {arm: (_side(_label(identity, arm), folder / arm), runs[arm]) for arm in _SIDES}
    result = compare_runs(sides["base"], sides["head"], Order.INTERLEAVED, runs.get("null"), runs.get(OWN_CHOICE))
    tuned = {side: frame for side in _SIDES if len(frame := _rows(folder / "tuned" / side, TUNING))}
    return replace(
        result,
        notes=(*([f"The comparison {state.ended}."] if state.ended else []), *result.notes),
        causes=attributed(folder, result),
        identity=identity,
        searches=tuned or result.searches,
        isa=_isa(folder / "base", folder / "head"),
    ), state.is_complete


def go_on(folder: Path, fleet: bool) -> str:
    """Say how to resume a comparison."""
    return f"rooflens compare -o {shlex.quote(str(folder))} --resume" + " with --jobs or --address" * fleet


def stored_runs(base: Path, head: Path) -> tuple[Result, bool]:
    """Compare two runs: as what they are when both are arms of one comparison, else as measured one after the other.

    Tells whether everything that was planned is there.
    """
    state = _common_state(base, head)
    if state and (base.name, head.name) == _SIDES:
        return stored_comparison(base.parent)
    sides = [(_side(folder.name, folder), load_run(folder)) for folder in (base, head)]
    result = compare_runs(sides[0], sides[1], Order.INTERLEAVED if state else Order.SEQUENTIAL)
    return replace(result, isa=_isa(base, head)), True


def _common_state(base: Path, head: Path) -> ComparisonState | None:
    """What compare.json says of the comparison that two run folders are different arms of; None when they are not."""
    here, there = base.resolve(), head.resolve()
    state = read_state(here.parent) if here.parent == there.parent and here != there else None
    return state if state and {here.name, there.name} <= set(state.commits) else None


def imported(base: str, head: str, columns: Sequence[str]) -> Result:
    """Compare two tables; `columns` are the texts of --column."""
    overrides = [Override.parse(text) for text in columns]
    if any(one.side for one in overrides):
        raise UsageError("--column: a comparison has no sides but BASE and HEAD: write ROLE=NAME")
    names = {one.role: one.name for one in overrides}
    if len(names) < len(overrides):
        raise UsageError("--column names a role twice: each is one column")
    sides = [
        (Side(Path(file).name, file, ((Path(file).name, _hash(Path(file).read_bytes())),)), read(Path(file), names))
        for file in (base, head)
    ]
    return compare_tables(sides[0], sides[1])


def _label(identity: Identity | None, arm: str) -> str:
    version: Version | None = getattr(identity, arm, None)
    return f"{arm} ({version.label})" if version else arm


def _side(label: str, folder: Path) -> Side:
    return Side(
        label, str(folder), tuple((table.file, _hash(table_content(folder, table))) for table in (CELLS, SAMPLES))
    )


def _hash(content: bytes | None) -> str:
    """First 16 digits of a SHA-256; "" of what is not there."""
    return "" if content is None else hashlib.sha256(content).hexdigest()[:16]


def _rows(folder: Path, table: "TableSchema") -> "pd.DataFrame":
    """Rows of a table that a folder may lack."""
    content = table_content(folder, table)
    return empty_table(table) if content is None else parse_table(content, table, str(folder / table.file))


def _isa(base: Path, head: Path) -> "Difference | None":
    frames = [_rows(folder, ISA) for folder in (base, head)]
    return compare_isa(*frames) if all(len(frame) for frame in frames) else None
