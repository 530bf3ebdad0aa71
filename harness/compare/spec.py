"""What `rooflens compare --git` compares, and the file that records it.

FOLDER/compare.json   a `ComparisonState`: what, which (round, arm) are finished, and why no case is left to measure
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace as with_fields
from pathlib import Path

from ...kernels.cache_folder import cache_folder
from ...shapes import suite as suites
from ...shapes.errors import UsageError, quote
from ...shapes.files.json_file import read_object
from ...shapes.run_folder.columns import CELLS
from ...shapes.run_folder.manifest import COMPARISON, ComparisonState
from ...shapes.verdict import Verdict
from ..plan.plan import MODEL_FIELDS
from ..storage.tables import replace, rows_of
from .replay import Row, is_of
from .worktrees import Repository


def balanced(arms: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield (round, arm): each round has every arm once; every second round goes backwards, then the start moves on.

    Two arms: AB BA AB BA, so that a drift in straight lines cancels over two rounds. More: each arm comes first
    equally often over 2 * len(arms) rounds.
    """
    count = len(arms)
    for number in range(rounds):
        turn = number // 2 % count if count > 2 else 0
        order = [*arms[turn:], *arms[:turn]]
        for arm in reversed(order) if number % 2 else order:
            yield number, arm


def is_ours(what: ComparisonState) -> bool:
    """Tell whether the repository is rooflens, and its own kernels are what is compared."""
    return not what.files and Repository(Path(what.repository)).is_rooflens


def place(file: str) -> str:
    """Where a provider file is in a checkout. One from outside of the repository is copied to a folder of its own.

    What is beside a provider file is imported first; beside a copy at the top, that would be the sources of a package
    that --setup has built.
    """
    return f".rooflens/{Path(file).name}" if Path(file).is_absolute() else file


def version(arm: str) -> str:
    """Version that an arm is of: "base+head-config" is of base."""
    return arm.partition("+")[0]


def suite_hash(name: str) -> str:
    """Hash of all that a suite says, shapes included."""
    return hashlib.sha256(repr(suites.load(name)).encode()).hexdigest()[:16]


def write_state(folder: Path, what: ComparisonState, done: Collection[tuple[int, str]], ended: str = "") -> None:
    """Record what is compared and which (round, arm) are finished; a kill leaves the former file or this one.

    `ended` says why further rounds would measure nothing, "" if they would.
    """
    replace(folder / COMPARISON, with_fields(what, done=sorted(done), ended=ended).to_text())


_REQUIRED = ("repository", "commits", "suite", "files", "rounds", "setup", "suite_hash", "done")


def read_state(folder: Path) -> ComparisonState | None:
    """Return what compare.json of a folder holds, None when there is none. Raises UsageError when it cannot be read."""
    try:
        content = read_object(folder / COMPARISON)
    except FileNotFoundError:
        return None
    return ComparisonState.read(content, folder / COMPARISON, _REQUIRED)


def stored(folder: Path) -> ComparisonState:
    """Return the comparison that `folder` was started with. Raises UsageError when it holds none."""
    state = read_state(folder)
    if state is None:
        raise UsageError(f"no comparison to resume: {folder / COMPARISON} does not exist; name its folder with -o")
    if state.unknown or state.options:
        unknown = quote(next(iter(state.unknown), "options"))
        raise UsageError(f"{folder / COMPARISON} is not of this version of rooflens (key {unknown}); compare anew")
    return with_fields(state, done=[], ended="")


def nothing_left(folder: Path, rounds: int, part: Sequence[Row] = ()) -> str:
    """Say why further rounds would compare nothing; "" while there is a case that neither base nor head has failed.

    `part` are the cells that count; none: all.
    """
    tables = {side: folder / side / CELLS.file for side in ("base", "head")}
    if not all(path.is_file() for path in tables.values()):  # the next round reports what is wrong
        return ""
    stored = {side: [row for _, row in rows_of(path) if is_of(row, part)] for side, path in tables.items()}
    verdicts = {
        side: {_place(row): row["verdict"] for row in sorted(rows, key=lambda row: row["verdict"] != Verdict.PASSED)}
        for side, rows in stored.items()
    }
    live = ({place for place, word in found.items() if word == Verdict.PASSED} for found in verdicts.values())
    if set.intersection(*live):
        return ""
    finished = 1 + max((int(row["round"]) for rows in stored.values() for row in rows), default=-1)
    counted = "; ".join(
        f"{side}: " + (", ".join(f"{count} {word}" for word, count in Counter(found.values()).items()) or "no cell")
        for side, found in verdicts.items()
    )
    return f"ended after round {finished} of {rounds}, because no case is left that passed in base and head ({counted})"


def _place(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in MODEL_FIELDS)


def scratch_of(folder: Path) -> Path:
    """Folder for checkouts, environments and caches of the comparison in `folder`; the same one every time."""
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    return cache_folder().expanduser().resolve() / "compare" / name
