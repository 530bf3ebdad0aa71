"""Load a run folder: the only module of the analysis that touches files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..shapes.columns import CEILINGS, CELLS, SAMPLES, Table
from ..shapes.errors import UsageError
from ..shapes.verdict import Verdict
from .tables import line_of, parse_table

MANIFEST = "run.json"

_MANIFEST_TYPES: dict[str, tuple[type, str]] = {
    "id": (str, "a text"),
    "suite": (str, "a text"),
    "baseline": (str, "the name of a provider"),
    "challengers": (list, "a list of provider names"),
    "rounds": (int, "a whole number"),
    "planned_units": (int, "a whole number"),
    "device": (dict, "an object"),
    "providers": (dict, "an object"),
    "shapes": (list, "a list of objects"),
}
"""Keys of run.json that the analysis reads; others are passed on as they are."""

_KEY = ["cell_id", "round"]


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """One run: its manifest (run.json) and tables, per `shapes.columns`, with samples of finished units only.

    `cells` has one row per finished (cell, round), in file order; `samples` every raw timing of a passed one.
    """

    folder: Path
    manifest: Mapping[str, Any]
    cells: pd.DataFrame
    samples: pd.DataFrame
    ceilings: pd.DataFrame

    @property
    def id(self) -> str:
        """Name of the run."""
        return str(self.manifest["id"])

    @property
    def baseline(self) -> str:
        """Provider that speedups are relative to."""
        return str(self.manifest["baseline"])

    @property
    def challengers(self) -> tuple[str, ...]:
        """Providers whose crossover is of interest, the most interesting first."""
        return tuple(self.manifest["challengers"])

    @property
    def device(self) -> Mapping[str, Any]:
        """Device of the run: name, kind, arch, llc_bytes, ..."""
        device: Mapping[str, Any] = self.manifest["device"]
        return device

    @property
    def planned_units(self) -> int:
        """Number of (cell, round) units that the run is to have."""
        return int(self.manifest["planned_units"])

    @property
    def missing_units(self) -> int:
        """Number of planned units that are still to be measured. A failure ends its cell, whatever its round."""
        rounds = int(self.manifest["rounds"])
        passed = self.cells["verdict"] == Verdict.PASSED
        stored = passed.groupby(self.cells["cell_id"]).agg(["size", "all"])
        settled = int(stored["size"].clip(upper=rounds).where(stored["all"], rounds).sum())
        return max(0, self.planned_units - settled)


def load_run(folder: Path) -> RunData:
    """Read and validate `folder`. Raises UsageError with file, line, column and the way out.

    What an interrupted writer left is ignored as a resumed run would: a last line without a line break, and samples
    whose (cell, round) has no row in cells.csv.
    """
    manifest = _manifest(folder)
    contents = {table.name: _content(folder, table) for table in (CELLS, SAMPLES, CEILINGS)}
    cells, samples, ceilings = (
        parse_table(contents[table.name], table, str(folder / table.file)) for table in (CELLS, SAMPLES, CEILINGS)
    )
    if cells.empty:
        raise UsageError(f"{folder}: no cell of this run is finished; go on with it: rooflens run --resume -o {folder}")
    _check_commits_once(cells, contents[CELLS.name], str(folder / CELLS.file))
    verdicts = samples[_KEY].merge(cells[[*_KEY, "verdict"]], on=_KEY, how="left")["verdict"]
    passed = verdicts == Verdict.PASSED
    unexpected = (verdicts.notna() & ~passed).to_numpy()
    if unexpected.any():
        record = int(unexpected.argmax())
        raise UsageError(
            f"{folder / SAMPLES.file} line {line_of(contents[SAMPLES.name], record)}: a sample of cell "
            f"{samples['cell_id'].iloc[record]} round {samples['round'].iloc[record]}, which is "
            f"{verdicts.iloc[record]} in {CELLS.file}; only passed rounds have samples: delete its lines"
        )
    samples = samples[passed.to_numpy()].reset_index(drop=True)
    _check_sample_counts(cells, samples, contents[CELLS.name], folder)
    return RunData(folder, manifest, cells, samples, ceilings)


def _manifest(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; rooflens list runs shows the runs that are there")
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{folder}: no {MANIFEST} there, so it is not the folder of a run") from None
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{path} line {error.lineno}, column {error.colno}: {error.msg}; restore the file from a copy"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    if not isinstance(manifest, dict):
        raise UsageError(f"{path}: a JSON object is expected; restore the file from a copy")
    for key, (type_, noun) in _MANIFEST_TYPES.items():
        if key not in manifest:
            raise UsageError(f"{path}: key {key!r} is missing; read the run with the rooflens version that wrote it")
        if not isinstance(manifest[key], type_) or isinstance(manifest[key], bool):
            raise UsageError(f"{path}: {key} = {manifest[key]!r} must be {noun}; restore the file from a copy")
    return manifest


def _content(folder: Path, table: Table) -> bytes:
    path = folder / table.file
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"{folder}: {table.file} is missing; copy the whole run folder, or measure it again with rooflens run"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def _check_commits_once(cells: pd.DataFrame, content: bytes, where: str) -> None:
    again = cells.duplicated(_KEY).to_numpy()
    if again.any():
        record = int(again.argmax())
        cell, number = cells.loc[record, _KEY]
        first = int(((cells["cell_id"] == cell) & (cells["round"] == number)).to_numpy().argmax())
        raise UsageError(
            f"{where} line {line_of(content, record)}, column round: round {number} of cell {cell} stands already in "
            f"line {line_of(content, first)}; delete one of them"
        )


def _check_sample_counts(cells: pd.DataFrame, samples: pd.DataFrame, content: bytes, folder: Path) -> None:
    stored = samples.groupby(_KEY, sort=False).size().rename("stored").reset_index()
    found = cells[[*_KEY, "verdict", "samples"]].merge(stored, on=_KEY, how="left")
    found = found.fillna({"stored": 0, "samples": 0})
    wrong = (found["verdict"] == Verdict.PASSED) & ((found["stored"] != found["samples"]) | (found["stored"] == 0))
    if wrong.any():
        record = int(wrong.to_numpy(dtype=bool).argmax())
        row = found.iloc[record]
        raise UsageError(
            f"{folder / CELLS.file} line {line_of(content, record)}, column samples: {row['samples']:.0f} announced, "
            f"but {SAMPLES.file} has {row['stored']:.0f} for round {row['round']} of cell {row['cell_id']}; restore "
            "both files from a copy, or delete this line and its samples and measure again with rooflens run --resume"
        )
