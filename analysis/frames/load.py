"""Load a run folder: the only module of the analysis that touches files."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ...shapes.device import Device
from ...shapes.errors import UsageError, unknown_name
from ...shapes.files.json_file import read_object
from ...shapes.files.stored_file import open_table
from ...shapes.run_folder.columns import CANARY, CEILINGS, CELLS, SAMPLES, TABLES, TELEMETRY, TUNING, TableSchema
from ...shapes.run_folder.coverage import COUNTED, Coverage, coverage
from ...shapes.run_folder.manifest import MANIFEST, Manifest, StoredProvider, checked
from ...shapes.run_folder.retries import Retry, retries
from ...shapes.verdict import Verdict
from ..statistics.arrays import Ints
from .tables import empty_table, line_of, parse_table

_REQUIRED = ("id", "suite", "baseline", "challengers", "rounds", "planned_units", "device", "providers", "shapes")
"""Keys of run.json that the analysis cannot do without."""

REFERENCE = "reference"
"""Role of a provider whose operands are decoded outside of the timed call: compared with, and never dispatched to."""

UPSTREAM = "upstream"
"""Role of a provider that calls the kernels of another project: its source hash is that of the adapter."""

_WAS_REFERENCE = "blas"
_WERE_STOCK = ("stock_triton", "stock_triton_fp8", "stock_triton_ao")
"""References of older runs: all providers of the one role, and of role stock_triton those of these names."""

_ALWAYS = (CELLS, SAMPLES, CEILINGS)
"""Tables that every run folder has."""

_KEY = ["cell_id", "round"]


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """One run: its run.json and tables, per `run_folder.columns`, with samples of finished units only.

    `cells` has one row per finished (cell, round), in file order; `samples` every raw timing of a passed one, those
    that do not count among them; `telemetry` what the device reported during them. `telemetry`, `canary` and `tuning`
    have no rows where nothing of the kind was stored. What an older version did not store is unknown in every row.
    Of the readings of a process before its first time, `starts` has all, `canary` one: their median. `digests` are the
    SHA-256 sums of the files that were read, by file name. `replaced` says which providers stand in for a baseline or
    challengers without a time (`question.with_times`). `retried` are the failures that were measured again, and are no
    longer in `cells`.
    """

    folder: Path
    manifest: Manifest
    cells: pd.DataFrame
    samples: pd.DataFrame
    ceilings: pd.DataFrame
    telemetry: pd.DataFrame
    canary: pd.DataFrame
    tuning: pd.DataFrame
    starts: pd.DataFrame
    digests: Mapping[str, str] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()
    retried: tuple[Retry, ...] = ()

    @property
    def id(self) -> str:
        """Name of the run."""
        return self.manifest.id

    @property
    def path(self) -> str:
        """Where it was stored when it was measured, for commands that a reader may repeat."""
        return self.manifest.folder or f"runs/{self.id}"

    @property
    def baseline(self) -> str:
        """Provider that speedups are relative to."""
        return self.manifest.baseline

    @property
    def challengers(self) -> tuple[str, ...]:
        """Providers whose speedup and crossover are of interest.

        Those that run.json names, without the baseline; of a suite's also without references: what pays for no
        decoding or quantization is nothing that could be dispatched to. `--challenger` may name one.
        """
        others = tuple(name for name in self.manifest.challengers if name != self.baseline)
        if (self.manifest.request or {}).get("challengers") == self.manifest.challengers:
            return others
        return tuple(name for name in others if not self.is_reference(name))

    def role(self, provider: str) -> str:
        """Role of a provider by run.json, "" where it does not say."""
        return self.manifest.providers.get(provider, StoredProvider()).role

    def is_reference(self, provider: str) -> bool:
        """True for a provider that pays for no decoding in its timed call: it wins nothing."""
        return self.role(provider) == REFERENCE

    def selected(self, providers: Sequence[str]) -> tuple[str, ...]:
        """Return `providers`, without any all of the run. Raises UsageError for one without a cell."""
        known = list(dict.fromkeys(self.cells["provider"]))
        for name in providers:
            if name not in known:
                raise unknown_name(f"provider of run {self.id}", name, known)
        return tuple(providers or known)

    def refuse_reference(self, provider: str, option: str) -> None:
        """Raise UsageError where `provider`, named by `option`, is nothing that could be dispatched to."""
        if self.is_reference(provider):
            raise UsageError(
                f"{option} {provider}: it is a reference of {self.id}, which reads operands decoded outside of the "
                "timed call: nothing is dispatched to it"
            )

    def is_shipped(self, provider: str) -> bool:
        """False for a provider from a file of the user's own."""
        file = self.manifest.providers.get(provider, StoredProvider()).file
        return not file or file.startswith("rooflens/")

    @property
    def device(self) -> Device:
        """Device of the run; of several, what they have in common."""
        return self.manifest.of_device

    @property
    def several_devices(self) -> bool:
        """True for a run of several devices, as shards or a fleet measured it; `device_of` tells them apart."""
        return len(self.manifest.devices) > 1

    @property
    def device_of(self) -> Mapping[int, int] | None:
        """Position among `devices` of run.json by worker process; None for a run of one device.

        A process that no entry names is not in it: older merged runs do not say which processes were whose.
        """
        if not self.several_devices:
            return None
        entries = enumerate(self.manifest.devices)
        return {process: number for number, entry in entries for process in entry.processes or ()}

    @property
    def missing_units(self) -> int:
        """Number of planned units that are still to be measured. A failure ends its cell, whatever its round."""
        return self.coverage.rounds_to_do

    @property
    def coverage(self) -> Coverage:
        """How much of the plan has a time."""
        return coverage(self.cells[[*COUNTED]].astype(str).to_dict("records"), self.manifest)


def load_run(folder: Path) -> RunData:
    """Read and validate `folder`, whose tables may be compressed (xz or gzip, as `cells.csv.xz`).

    Raises UsageError with file, line, column and the way out. What an interrupted writer left is ignored as a resumed
    run would: a last line without a line break, and samples and telemetry whose (cell, round) has no row in cells.csv.
    """
    manifest = _manifest(folder)
    stored = {table: table_content(folder, table) for table in TABLES}
    if missing := [table.file for table in _ALWAYS if stored[table] is None]:
        raise UsageError(
            f"{folder}: {missing[0]} is missing; copy the whole run folder, or measure it again with rooflens run"
        )
    contents = {table.name: content for table, content in stored.items() if content is not None}
    cells, samples, ceilings, telemetry, canary, tuning = (
        empty_table(table)
        if (content := stored[table]) is None
        else parse_table(content, table, str(folder / table.file))
        for table in (CELLS, SAMPLES, CEILINGS, TELEMETRY, CANARY, TUNING)
    )
    renamed = [_was_reference(*pair) for pair in zip(cells["provider"], cells["role"], strict=True)]
    cells["role"] = cells["role"].mask(np.array(renamed, dtype=bool), REFERENCE)
    # Of a provider that is found to read decoded operands, the rows say so, and run.json says what its author did.
    found = set(cells.loc[cells["role"] == REFERENCE, "provider"])
    cells["role"] = cells["role"].mask(cells["provider"].isin(found), REFERENCE)
    for name, provider in manifest.providers.items():
        if name in found or _was_reference(name, provider.role):
            provider.role = REFERENCE
    if cells.empty:
        raise UsageError(f"{folder}: no cell is finished; resume with: rooflens run -o {folder} --resume")
    _check_commits_once(cells, contents[CELLS.name], str(folder / CELLS.file))
    units = _units(samples, cells)
    passed = (cells["verdict"] == Verdict.PASSED).to_numpy()
    unexpected = (units >= 0) & ~passed[units]
    if unexpected.any():
        record = int(unexpected.argmax())
        raise UsageError(
            f"{folder / SAMPLES.file} line {line_of(contents[SAMPLES.name], record)}: a sample of cell "
            f"{samples['cell_id'].iloc[record]} round {samples['round'].iloc[record]}, which is "
            f"{cells['verdict'].iloc[units[record]]} in {CELLS.file}; only passed rounds have samples: delete its lines"
        )
    if (units < 0).any():
        samples, units = samples[units >= 0].reset_index(drop=True), units[units >= 0]
    _check_sample_counts(cells, samples, units, contents[CELLS.name], folder)
    telemetry = telemetry[_units(telemetry, cells) >= 0].reset_index(drop=True)
    read = {table.file: contents[table.name] for table in TABLES if table.name in contents}
    read |= {MANIFEST: (folder / MANIFEST).read_bytes()}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in read.items()}
    canary, starts = _apart_at_starts(canary, cells.loc[passed])
    tables = (cells, samples, ceilings, telemetry, canary, tuning, starts)
    return RunData(folder, manifest, *tables, digests, retried=retries(folder))


def _apart_at_starts(canary: pd.DataFrame, passed: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the canary with one reading, their median, for those of a process before its first time; and those."""
    first = seconds(passed["started_at"]).groupby(passed["process"]).min()
    early = seconds(canary["at"]) <= canary["process"].map(first)
    starts = canary.loc[early]
    medians = starts.groupby("process")[["gemm_s", "copy_s"]].transform("median")
    levels = starts.assign(**medians).drop_duplicates("process", keep="last")
    return pd.concat([canary.loc[~early], levels]).sort_index().reset_index(drop=True), starts


def seconds(stamps: "pd.Series[str]") -> "pd.Series[float]":
    """Seconds since 1970 of ISO 8601 texts; NaN for what is none."""
    dated = stamps.where(stamps.astype(str).str.match(r"(19|20|21)\d\d-"))  # pandas cannot coerce the year 1, or -1
    parsed = pd.to_datetime(dated, utc=True, format="ISO8601", errors="coerce")
    return (parsed - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)


def table_content(folder: Path, table: TableSchema) -> bytes | None:
    """Return a table of a run folder as CSV; None when it is not there. Raises as `open_table`."""
    file = open_table(folder / table.file)
    if file is None:
        return None
    with file:
        return file.read()


def _manifest(folder: Path) -> Manifest:
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; rooflens list runs lists the stored runs")
    path = folder / MANIFEST
    try:
        content = read_object(path)
    except FileNotFoundError:
        raise UsageError(f"{folder} is not the folder of a run: it has no {MANIFEST}") from None
    if "tune" in content:
        raise UsageError(f"{folder} is a tuned table: use it with rooflens run SUITE --tuned {folder}")
    return checked(content, path, _REQUIRED)


def _was_reference(name: str, role: str) -> bool:
    """Return whether an older run stored a reference under another role."""
    return role == _WAS_REFERENCE or (role == "stock_triton" and name in _WERE_STOCK)


def _check_commits_once(cells: pd.DataFrame, content: bytes, where: str) -> None:
    again = cells.duplicated(_KEY).to_numpy()
    if again.any():
        record = int(again.argmax())
        cell, number = cells.loc[record, _KEY]
        first = int(((cells["cell_id"] == cell) & (cells["round"] == number)).to_numpy().argmax())
        raise UsageError(
            f"{where} line {line_of(content, record)}, column round: round {number} of cell {cell} duplicates "
            f"line {line_of(content, first)}; delete one of them"
        )


def _units(rows: pd.DataFrame, cells: pd.DataFrame) -> Ints:
    """Position in `cells` of the commit row that each of `rows` belongs to by cell_id and round; -1 for none."""
    key, known = np.zeros(len(rows), dtype=np.int64), np.zeros(len(cells), dtype=np.int64)
    has_all = np.ones(len(rows), dtype=bool)
    for column in _KEY:
        known_codes, names = pd.factorize(cells[column])
        row_codes, values = pd.factorize(rows[column])  # few distinct values, of which each is looked up once
        found = pd.Index(names).get_indexer(pd.Index(values))[row_codes]
        has_all &= found >= 0
        key, known = key * len(names) + found, known * len(names) + known_codes
    # Searched, not looked up in a table of all keys: as many rounds as cells would make that the square of the rows.
    order = np.argsort(known, kind="stable")
    near = order[np.searchsorted(known, key, sorter=order).clip(max=len(known) - 1)]
    return np.where(has_all & (known[near] == key), near, -1)


def _check_sample_counts(cells: pd.DataFrame, samples: pd.DataFrame, units: Ints, content: bytes, folder: Path) -> None:
    """Compare what passed rounds announce with what is stored of them, and refuse a round in which nothing counts.

    `units` has the position in `cells` that each sample belongs to.
    """
    stored = np.bincount(units, minlength=len(cells))
    marked = np.bincount(units[(samples["discarded"] != "").to_numpy()], minlength=len(cells))
    announced = {
        "samples": cells["samples"].to_numpy(dtype=float, na_value=0),
        "discarded": cells["discarded"].fillna(pd.Series(marked, dtype="Int64")).to_numpy(dtype=float),
    }
    passed = (cells["verdict"] == Verdict.PASSED).to_numpy()
    way_out = "delete this line and its samples and measure again with rooflens run --resume"
    for column, found, verb in (("samples", stored, "has"), ("discarded", marked, "discards")):
        wrong = passed & ((found != announced[column]) | (stored == 0))
        if wrong.any():
            record = int(wrong.argmax())
            raise UsageError(
                f"{folder / CELLS.file} line {line_of(content, record)}, column {column}: "
                f"{announced[column][record]:.0f} announced, but {SAMPLES.file} {verb} {found[record]} for "
                f"{_named(cells, record)}; restore both files from a copy, or {way_out}"
            )
    idle = passed & (stored == marked)
    if idle.any():
        record = int(idle.argmax())
        raise UsageError(
            f"{folder / CELLS.file} line {line_of(content, record)}, column discarded: all {stored[record]} samples "
            f"of {_named(cells, record)} are discarded, so it cannot have passed; {way_out}"
        )


def _named(cells: pd.DataFrame, record: int) -> str:
    return f"round {cells['round'].iloc[record]} of cell {cells['cell_id'].iloc[record]}"
