"""What was compared: two commits and the files between them, as git reported them when the comparison began.

compare.json holds it under `identity`; git is not asked again, because the repository may be elsewhere by then.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...shapes.run_folder.manifest import ComparisonState


@dataclass(frozen=True, slots=True)
class Version:
    """A commit: the name that was given (a branch, say), its hash and the first line of its message."""

    name: str
    commit: str
    subject: str

    @property
    def label(self) -> str:
        """How a reader knows it: short hash and subject."""
        return " ".join(filter(None, (self.commit[:7], self.subject)))


ChangedFile: TypeAlias = tuple[str, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Identity:
    """The two commits; `commits` that head has and base has not (None: unknown).

    `files` that differ: path, and the lines that came and went, None of a binary file; None: unknown. `command`
    measures them again in a checkout of the repository; empty where compare.json does not say the suite.
    """

    base: Version
    head: Version
    commits: int | None = None
    files: tuple[ChangedFile, ...] | None = None
    command: tuple[str, ...] = ()

    @property
    def added(self) -> int:
        """Lines that came, over all files."""
        return sum(added or 0 for _, added, _ in self.files or ())

    @property
    def removed(self) -> int:
        """Lines that went, over all files."""
        return sum(removed or 0 for _, _, removed in self.files or ())


def identity_of(state: ComparisonState) -> Identity | None:
    """Read what compare.json says; without a sound `identity`, as in older ones, the hashes alone. None without any."""
    commits, stored = state.commits, state.identity
    if not {"base", "head"} <= set(commits):
        return None
    return Identity(
        _version(stored.get("base"), commits["base"]),
        _version(stored.get("head"), commits["head"]),
        between if isinstance(between := stored.get("commits"), int) else None,
        _changed(stored.get("files")),
        tuple(_command(state, state.words)) if state.suite and state.words is not None else (),
    )


def _command(state: ComparisonState, options: list[str]) -> Iterator[str]:
    yield from ("rooflens", "compare", "--git", f"{state.commits['base'][:12]}..{state.commits['head'][:12]}")
    yield state.suite
    for file in state.files:
        yield from ("--providers", file)
    yield from options
    if state.setup:
        yield from ("--setup", state.setup)
    if state.rounds:
        yield from ("--rounds", str(state.rounds))


def _changed(stored: Any) -> tuple[ChangedFile, ...] | None:
    try:
        files = tuple((str(path), came, went) for path, came, went in stored)
    except (TypeError, ValueError):
        return None
    is_sound = all(isinstance(lines, int | None) for _, *both in files for lines in both)
    return files if is_sound else None


def _version(stored: Any, commit: str) -> Version:
    found = stored if isinstance(stored, dict) else {}
    return Version(str(found.get("name") or ""), commit, str(found.get("subject") or ""))
