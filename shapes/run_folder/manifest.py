"""run.json, and the other files of a run folder beside its tables.

`Manifest` is run.json as a value: `read_manifest` checks it, `to_text` writes it. What is unknown is "", an empty
list or None. docs/columns.md is generated from these classes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar

from ..device import Device
from ..errors import UsageError
from ..files.json_file import read_object
from ..files.record import Check, Keys, Number, Record, Scalar, Size, Whole, about
from ..request import Request, options
from ..shapeset import Shape

MANIFEST = "run.json"
EVENTS = "events.log"
WORKER_LOG = "worker.log"
TUNED_COPY = "tuned.csv"
"""The tuned table of a run: the original may change during the run."""

COMPARISON = "compare.json"
"""In the folder of a comparison of commits, which holds a run folder for each version."""

VERSION = 2
"""Version of the run folder. Before 2, the address of a cell depended on the device and the code that measured it."""

SHORT = 12
"""Digits of a commit's hash that are shown."""

Name = Annotated[str, Check("the name of a provider", lambda value: isinstance(value, str))]

_PLACE: dict[str, Any] = dict.fromkeys(("model", "layer", "op", "pass", "dtype", "scheme", "cache"), str)
_SIZES: dict[str, Any] = dict.fromkeys(("B", "E", "top_k", "M", "N", "K"), Size)

StoredRequest = Annotated[dict[str, Any], Keys({one.name: one.kind.stored for one in options().values() if one.stored})]
"""As `Request.stored` writes it."""


@dataclass(slots=True, kw_only=True)
class StoredProvider(Record):
    """A provider as run.json describes it."""

    role: str = about("as in the column `role`", "")
    source: str = about("hash of its source files", "")
    file: str = about("its source file", "")
    decoded: bool | None = about("true: it read decoded operands, so it counts as a reference", None)


@dataclass(slots=True, kw_only=True)
class StoredProtocol(Record):
    """How the run was to be measured; see `shapes.protocol.Protocol`."""

    rounds: Whole | None = about("measurement rounds per cell", None)
    target_ci: Number | None = about("half width of the interval of a median at which a round stops", None)
    min_samples: Whole | None = about("least samples per round", None)
    budget_s: Number | None = about("seconds per (cell, round) after which sampling stops", None)
    timeout_s: Number | None = about("seconds after which a cell counts as hung", None)
    build_timeout_s: Number | None = about("the same while a provider is imported or prepared", None)
    timer: str = about("requested timer", "")
    cold_by: str = about("requested way to a cold cache", "")
    tuning: str = about("default, pinned or cold", "")
    seed: Whole | None = about("seed of operands and order", None)
    caches: list[str] | None = about("cache states", None)
    threads: Whole | None = about("requested CPU threads", None)
    llc_bytes: Whole | None = about("requested last-level cache", None)
    refine_to: Number | None = about("requested end of --refine, as a fraction of M", None)
    refine_most: Whole | None = about("requested most M of --refine", None)


@dataclass(slots=True, kw_only=True)
class StoredRefinement(Record):
    """What --refine added to the plan."""

    always: ClassVar[tuple[str, ...]] = ("challenger", "added")

    of: str = about("what is refined: crossover", "")
    challenger: Name = about("provider whose crossover is refined", "")
    incumbent: Name = about("provider that it is compared with", "")
    ratio: Number | None = about("last over first M of a bracket that is narrow enough", None)
    most: Whole | None = about("most added M per shape and setting", None)
    complete: bool = about("true once nothing is left to add", False)
    added: list[Annotated[dict[str, Any], Keys(_PLACE | _SIZES | {"providers": list[Name]}, required=True)]] = about(
        "added M, each with the columns that identify its shape, and its `providers`"
    )

    @property
    def pair(self) -> tuple[str, str] | None:
        """Challenger and incumbent, None where one of them is unknown."""
        return (self.challenger, self.incumbent) if self.challenger and self.incumbent else None


@dataclass(slots=True, kw_only=True)
class StoredScan(Record):
    """What --scan varied."""

    axis: str = about("N or K", "")
    text: str = about("the option as given", "")
    sizes: list[Whole] | None = about("all sizes", None)
    of: list[dict[str, Scalar]] | None = about("model, layer, N and K of the shapes that were varied", None)


@dataclass(slots=True, kw_only=True)
class StoredFleet(Record):
    """Which devices measure a run of several."""

    address: str = about("address of the Ray cluster", "")
    slots: Whole | None = about("N of --jobs local:N", None)


@dataclass(slots=True, kw_only=True)
class MergedShard(Record):
    """A run that was merged into this one. Keys of its run.json that differ from those of the merged run follow."""

    folder: str = about("its folder", "")
    units: Whole | None = about("finished (cell, round) rows that it contributed", None)
    first_process: Whole = about("added to its values of the column `process`", 0)
    refine: StoredRefinement | None = about("what --refine added to it", None)


@dataclass(slots=True, kw_only=True)
class StoredRepository(Record):
    """The git repository of the measured kernels, as it was when the run began."""

    top: str = about("top folder of its working tree", "")
    commit: str = about("hash of the commit that was checked out; absent before the first one", "")
    branch: str = about("its branch; absent where HEAD is detached", "")
    subject: str = about("first line of the commit's message", "")
    committed_at: str = about("time of the commit, ISO 8601 with its time zone", "")
    dirty: bool = about(
        "true: the commit is not exactly what was measured (tracked files had changes, a provider file is not tracked, "
        "or the run was resumed at another commit)",
        False,
    )

    @property
    def label(self) -> str:
        """Name the state in a few words: "abc123456789 on main, with uncommitted changes"."""
        where = f" on {self.branch}" if self.branch else ""
        return f"{self.commit[:SHORT] or 'no commit yet'}{where}{', with uncommitted changes' * self.dirty}"


@dataclass(slots=True, kw_only=True)
class Manifest(Record):
    """run.json: what was measured, where and how."""

    always: ClassVar[tuple[str, ...]] = ("challengers", "shapes", "environment", "providers")

    version: Whole | None = about(f"version of this file: {VERSION}; absent in earlier ones", None)
    id: str = about("name of the run", "")
    folder: str = about("folder that it was written to", "")
    created_at: str = about("UTC time at which it began", "")
    command: list[str] = about("command line", make=list)
    suite: str = about("suite name", "")
    seed: Whole | None = about("seed of operands and order", None)
    shapes: list[Shape] = about("weight shapes of the plan", make=list)
    request: StoredRequest | None = about("options of `rooflens run`, as --resume repeats them", None)
    tune: StoredRequest | None = about(
        "those of `rooflens tune`; such a folder holds a tuned table and is no run", None
    )
    description: str = about("description of the suite", "")
    baseline: Name = about("provider that speedups are relative to", "")
    challengers: list[Name] = about("providers whose speedup is of interest, the most interesting first", make=list)
    rounds: Whole | None = about("measurement rounds per cell", None)
    protocol: StoredProtocol = about("how it was to be measured", make=StoredProtocol)
    planned_units: Whole | None = about("planned (cell, round) rows of cells.csv", None)
    planned_searches: Whole | None = about("of a tuned table: planned searches", None)
    complete_searches: Whole | None = about("of a tuned table: its searches, once all of them are there", None)
    device: Device | None = about("the device; of several, what they have in common", None)
    device_spec: str = about("its row in the table of published peaks", "")
    devices: list[Device] = about("of several devices: each of them", make=list)
    environment: dict[str, Scalar] = about("versions and settings that timings depend on", make=dict)
    providers: dict[str, StoredProvider] = about("providers by name", make=dict)
    repository: StoredRepository | None = about(
        "git repository of the (first) provider file, or without one of the working directory", None
    )
    timer: str = about("timer that was used", "")
    cold_by: str = about("way to a cold cache that was used", "")
    tuning: str = about("where configurations came from", "")
    tuned: str = about("hash of the tuned table that the run pins", "")
    telemetry: str = about("source of telemetry.csv", "")
    threads: Whole | None = about("CPU threads", None)
    processes: Whole = about("worker processes so far", 0)
    canary_drift: dict[str, Number] = about("of earlier versions: range of each part of the canary", make=dict)
    scan: StoredScan | None = about("what --scan varied", None)
    refine: StoredRefinement | None = about("what --refine added", None)
    fleet: StoredFleet | None = about("of a run of several devices: which", None)
    shards: list[MergedShard] = about("of a merged run: what it was merged from", make=list)

    @property
    def made_at(self) -> float:
        """Seconds since 1970 by which runs are ordered; -inf for what is no time."""
        return made_at(self.created_at)

    @property
    def is_current(self) -> bool:
        """Tell whether its cells have the addresses of today, so that it can be resumed."""
        return (self.version or 0) >= VERSION

    @property
    def of_device(self) -> Device:
        """The device, once it is known."""
        assert self.device
        return self.device

    @property
    def refinements(self) -> list[StoredRefinement]:
        """What --refine added to this run, or to the runs that it was merged from."""
        return [part for part in (self.refine, *(shard.refine for shard in self.shards)) if part]


@dataclass(slots=True, kw_only=True)
class StoredPart(Record):
    """How far one device is with a part of a comparison."""

    device: str = about("the device that measures it", "")
    done: list[tuple[int, str]] = about("finished (round, version)", make=list)


_SELECTING = {one.name for one in options().values() if {"run", "compare"} <= {*one.commands}} - {"files"}


@dataclass(slots=True, kw_only=True)
class ComparisonState(Record):
    """compare.json: a comparison of commits, and how far it is."""

    always: ClassVar[tuple[str, ...]] = (
        *("commits", "files", "setup", "suite_hash", "done", "tables", "searches", "identity"),
    )

    repository: str = about("top of the repository", "")
    commits: dict[str, str] = about("commit by version", make=dict)
    suite: str = about("suite", "")
    files: list[str] = about("provider files in the repository", make=list)
    request: StoredRequest | None = about("options of `rooflens compare`", None)
    options: list[str] = about("the same in earlier versions", make=list)
    rounds: Size = about("rounds", 0)
    setup: str = about("command that prepares a checkout", "")
    suite_hash: str = about("hash of all that the suite says", "")
    tables: dict[str, str] = about("tuned table by version", make=dict)
    cells: list[Any] = about("of a replay: the cells to measure", make=list)
    searches: dict[str, Whole] = about("searches by version", make=dict)
    identity: dict[str, Any] = about("what git says of base and head", make=dict)
    chunks: Whole = about("parts that several devices divide the suite into", 0)
    parts: dict[str, StoredPart] = about("those that have begun, by number", make=dict)
    done: list[tuple[int, str]] = about("finished (round, version)", make=list)
    ended: str = about("why it ended before its last round", "")

    @property
    def is_complete(self) -> bool:
        """Return whether every round of every version is finished."""
        return len(self.done) >= self.rounds * len(self.commits)

    def asked(self, command: str) -> Request:
        """What `rooflens run` or tune is asked for in every arm, but for provider files and folder."""
        return replace(Request.read(self.request or {}).of(command), suite=self.suite, files=())

    @property
    def words(self) -> list[str] | None:
        """Options of a command line that say which cells are measured, and how; None where this version has others."""
        try:
            return self.options or Request.read(self.request or {}).with_settings(rounds=None).words(_SELECTING)
        except UsageError:
            return None


def read_manifest(path: Path, required: Sequence[str] = ()) -> Manifest:
    """Read a run.json. Raises FileNotFoundError, and UsageError for anything else that is wrong with it."""
    return checked(read_object(path), path, required)


def checked(content: Mapping[str, Any], where: object, required: Sequence[str] = ()) -> Manifest:
    """Return the content of a run.json as a value. Raises UsageError, see `Record.read`; `where` names the file."""
    manifest = Manifest.read(content, where, required)
    if manifest.version and manifest.version > VERSION:
        raise UsageError(
            f"{where} is of version {manifest.version}, and this rooflens reads {VERSION}: read it with the rooflens "
            "version that wrote it"
        )
    return manifest


def glance(folder: Path) -> Manifest:
    """Return what can be made out of the run.json of a folder; its user reports what is wrong with it."""
    try:
        return Manifest.glance(read_object(folder / MANIFEST))
    except (OSError, UsageError):
        return Manifest()


def made_at(stamp: str) -> float:
    """Seconds since 1970 of an ISO 8601 text, in UTC unless it says otherwise; -inf for what is none."""
    try:
        found = datetime.fromisoformat(stamp)
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return -math.inf
