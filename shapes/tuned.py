"""The tuned table: which configuration a search chose for one problem on one kind of device.

It is `tuning.csv` of a run folder, or a copy of it. Nothing is interpolated: a problem that was not tuned on a device
of the same architecture and size has no entry.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .device import Device
from .errors import UsageError, quote
from .files import csv_file
from .files.file_text import decoded, read_content
from .files.json_file import parse_value
from .problem import Problem
from .run_folder.columns import TUNING
from .scheme import Scheme
from .suite import Cache

HELD = "held"
"""Verdict of a row whose configuration was given, not searched: a winner without a time."""


class Key(NamedTuple):
    """What a configuration was chosen for; columns of TUNING."""

    arch: str
    compute_units: int
    op: str
    pass_: str
    B: int
    E: int
    top_k: int
    M: int
    N: int
    K: int
    dtype: str
    scheme: str
    provider: str
    cache: str

    @classmethod
    def of(cls, device: Device, problem: Problem, scheme: Scheme, provider: str, cache: Cache) -> "Key":
        """Build the key of one cell on `device`."""
        return cls(
            arch=device.arch,
            compute_units=device.compute_units,
            op=problem.op.value,
            pass_=problem.pass_.value,
            B=problem.B,
            E=problem.E,
            top_k=problem.top_k,
            M=problem.M,
            N=problem.N,
            K=problem.K,
            dtype=scheme.dtype.value,
            scheme=scheme.name,
            provider=provider,
            cache=cache.value,
        )


@dataclass(frozen=True, slots=True)
class TunedConfiguration:
    """The configuration that most searches chose: the winner of `agreed` of `searches`.

    `time_s` is the mean of its medians in all of them (NaN of a held one), `candidate` its position in the provider's
    list, `source` the hash of the provider's source then, `error_ratio` as in TUNING. `candidate` and `error_ratio` are
    None when unknown.
    """

    config: Mapping[str, Any]
    time_s: float
    candidate: int | None
    searches: int
    agreed: int
    source: str
    error_ratio: float | None


@dataclass(frozen=True, slots=True)
class TunedTable:
    """What `load` read from `path`."""

    path: Path
    choices: Mapping[Key, TunedConfiguration]

    def lookup(
        self, device: Device, problem: Problem, scheme: Scheme, provider: str, cache: Cache
    ) -> Mapping[str, Any] | None:
        """Return the stored configuration of exactly this cell on exactly this kind of device, None when there is none.

        Another M, cache state, or number of compute units is another cell.
        """
        choice = self.choices.get(Key.of(device, problem, scheme, provider, cache))
        return choice.config if choice else None


def load(path: Path) -> TunedTable:
    """Read a tuned table: a CSV file with the columns of TUNING, or the folder of a run that holds one.

    Of several searches for one cell the configuration that won most of them is taken, of equals the one with the least
    mean time over all of them. Searches of an older state of the provider's source do not count once there are newer
    ones. A last line without line break is what an interrupted writer left, and is ignored. Raises UsageError with
    file, line and column of what is wrong.
    """
    file = path / TUNING.file if path.is_dir() else path
    try:
        text = decoded(read_content(file, _WAY_OUT), file, _WAY_OUT)
    except FileNotFoundError:
        raise UsageError(f"{file}: no such tuned table; make one with rooflens tune SUITE -o RUN") from None
    rows: dict[Key, list[_Row]] = {}
    for row in _rows(text[: text.rfind("\n") + 1], str(file)):
        rows.setdefault(row.key, []).append(row)
    choices = {key: choice for key, group in rows.items() if (choice := _choose(group))}
    if not choices:
        raise UsageError(f"{file}: no search in it has a winner; tune again with rooflens tune SUITE")
    return TunedTable(file, choices)


class _Row(NamedTuple):
    key: Key
    search: tuple[str, int]
    candidate: int
    config: str
    time_s: float
    winner: bool
    source: str
    error_ratio: float | None


def _choose(rows: Sequence[_Row]) -> TunedConfiguration | None:
    """Take a vote among the searches of one cell; None when none of them has a winner."""
    rows = [row for row in rows if row.source == rows[-1].source]
    votes = Counter(row.config for row in rows if row.winner)
    if not votes:
        return None
    times: dict[str, list[float]] = {}
    for row in rows:
        times.setdefault(row.config, []).append(row.time_s)
    means = {config: math.fsum(values) / len(values) for config, values in times.items()}
    chosen = min(votes, key=lambda config: (-votes[config], means[config]))
    last = [row for row in rows if row.config == chosen][-1]
    return TunedConfiguration(
        config=json.loads(chosen),
        time_s=means[chosen],
        candidate=last.candidate,
        searches=len({row.search for row in rows}),
        agreed=votes[chosen],
        source=last.source,
        error_ratio=last.error_ratio,
    )


_WAY_OUT = f"give the {TUNING.file} of rooflens tune"

_NUMBERS = ("compute_units", "B", "M", "N", "K")
_NEWER = ("E", "top_k")
"""Sizes that older tables do not have; they were 1."""
_TEXTS = ("arch", "op", "pass", "dtype", "scheme", "provider", "cache")
_NEEDED = ("cell_id", "search", "candidate", *_TEXTS, *_NUMBERS, "config", "time_s", "winner", "source")


def _rows(text: str, where: str) -> "list[_Row]":
    """Rows that have a time, checked."""
    found = []
    for line, row in csv_file.rows(text, where, _NEEDED, way_out=_WAY_OUT):
        at = f"{where} line {line}"
        if row["time_s"] or row.get("verdict") == HELD:
            found.append(_row(row, at))
        elif row["winner"] == "true":
            raise UsageError(f"{at}, column time_s: empty, but a winner has a time; delete the line, or tune again")
    return found


def _row(row: Mapping[str, str], at: str) -> _Row:
    numbers = {name: _whole(row, name, at) for name in _NUMBERS}
    numbers |= {name: _whole(row, name, at) if name in row else 1 for name in _NEWER}
    texts = {name: row[name] for name in _TEXTS}
    if row["winner"] not in ("true", "false"):
        raise _fault(at, "winner", row, "is neither true nor false")
    return _Row(
        key=Key(**numbers, pass_=texts.pop("pass"), **texts),  # type: ignore[arg-type]
        search=(row["cell_id"], _whole(row, "search", at)),
        candidate=_whole(row, "candidate", at),
        config=_config(row, at),
        time_s=_positive(row, "time_s", at) if row["time_s"] else math.nan,
        winner=row["winner"] == "true",
        source=row["source"],
        error_ratio=_share(row, "error_ratio", at) if row.get("error_ratio") else None,
    )


def _config(row: Mapping[str, str], at: str) -> str:
    """Canonical text of the configuration."""
    try:
        value = parse_value(row["config"])
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _fault(at, "config", row, "is not a JSON object")
    return json.dumps(value, sort_keys=True)


def _whole(row: Mapping[str, str], column: str, at: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", row[column]):
        raise _fault(at, column, row, "is not a whole number")
    return int(row[column])


def _positive(row: Mapping[str, str], column: str, at: str) -> float:
    value = _float(row[column])
    if not 0 < value < math.inf:
        raise _fault(at, column, row, "is not a positive number")
    return value


def _share(row: Mapping[str, str], column: str, at: str) -> float:
    value = _float(row[column])
    if not 0 <= value <= 1:
        raise _fault(at, column, row, "is not from 0 to 1")
    return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _fault(at: str, column: str, row: Mapping[str, str], what: str) -> UsageError:
    return UsageError(f"{at}, column {column}: {quote(row[column])} {what}; delete the line, or tune again")
