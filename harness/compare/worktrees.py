"""A git repository: its state, and commits of it that are checked out in separate folders."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...shapes.errors import RooflensError, UsageError, quote
from ...shapes.run_folder.manifest import StoredRepository

MOST_S = 10.0
"""Seconds that git may take to describe a repository: on a slow disk, a run begins without that."""

GIT_S = 600.0
"""Seconds that git may take for anything else, such as a checkout."""

LONGEST_SUBJECT = 200
"""Characters that are kept of the first line of a commit's message."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository, by the top folder of its working tree."""

    top: Path

    @classmethod
    def at(cls, folder: Path) -> "Repository":
        """Find the repository that `folder` belongs to. Raises UsageError when it belongs to none."""
        if not folder.is_dir():
            raise UsageError(f"--repo {folder}: no such folder")
        try:
            return cls(Path(_git(folder, "rev-parse", "--show-toplevel")).resolve())
        except RooflensError as error:
            raise UsageError(f"--repo {folder}: {error}") from None

    @property
    def is_rooflens(self) -> bool:
        """Tell whether it is rooflens itself, whose kernels need no provider file."""
        return (self.top / "kernels" / "registry.py").is_file()

    def state(self, files: Iterable[Path]) -> StoredRepository:
        """Describe what is checked out, and whether `files` and all else that git tracks are as in that commit.

        Raises RooflensError when git fails, or takes longer than `MOST_S`.
        """
        lines = self._read("status", "--porcelain=v2", "--branch", "--untracked-files=no").splitlines()
        found = dict(line.removeprefix("# branch.").split(" ", 1) for line in lines if line.startswith("# branch."))
        inside = [str(file) for file in files if file.is_relative_to(self.top)]
        is_dirty = any(not line.startswith("# ") for line in lines) or bool(
            inside and self._read("ls-files", "--others", "--", *inside)
        )
        state = StoredRepository(top=str(self.top), dirty=is_dirty)
        state.branch = "" if found["head"] == "(detached)" else found["head"]
        if found["oid"] != "(initial)":
            state.commit = found["oid"]
            told = self._read("log", "-1", "--no-show-signature", "--format=%cI%n%s")
            state.committed_at, _, subject = told.partition("\n")
            state.subject = subject[:LONGEST_SUBJECT]
        return state

    def commits(self, names: Sequence[str]) -> tuple[str, str]:
        """Hashes of base and head; an empty head means HEAD. Raises UsageError for anything else."""
        if len(names) != 2 or not names[0] or names[1].startswith("."):
            given = quote("..".join(names))
            raise UsageError(f"--git {given}: write BASE..HEAD, such as main..my-branch or HEAD~1..HEAD")
        return self._commit(names[0]), self._commit(names[1] or "HEAD")

    def has(self, commit: str) -> bool:
        """Tell whether the repository has a commit. Raises RooflensError when it is no repository."""
        _git(self.top, "rev-parse", "--git-dir")
        try:
            return bool(_git(self.top, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"))
        except RooflensError:
            return False

    def forget_worktrees(self, place: str) -> None:
        """Remove git's records of worktrees in folders of that name, left by processes that were killed.

        Unlike `git worktree prune`, it keeps other worktrees that are temporarily unavailable.
        """
        common = Path(_git(self.top, "rev-parse", "--path-format=absolute", "--git-common-dir"))
        for note in common.glob("worktrees/*/gitdir"):
            with suppress(OSError):  # git itself may be using it
                if place in Path(note.read_text(encoding="utf-8").strip()).parts:
                    shutil.rmtree(note.parent, ignore_errors=True)

    def describe(self, commit: str) -> str:
        """Short hash and subject of a commit."""
        return _git(self.top, "log", "-1", "--format=%h %s", commit)

    def identity(self, names: Sequence[str], base: str, head: str) -> dict[str, Any]:
        """Describe the commits of these names: their subjects, number of commits between, files with lines.

        Files are those that differ between the two trees: (path, added, removed), None for the lines of a binary file.
        """
        versions = {
            side: {"name": name or "HEAD", "commit": commit, "subject": self._subject(commit)}
            for side, name, commit in zip(("base", "head"), names, (base, head), strict=True)
        }
        lines = _git(self.top, "diff", "--numstat", "-z", "--no-renames", base, head).split("\0")
        files = [line.split("\t", 2) for line in lines if line.count("\t") >= 2]
        return versions | {
            "commits": int(_git(self.top, "rev-list", "--count", f"{base}..{head}")),
            "files": [[path, _lines(added), _lines(removed)] for added, removed, path in files],
        }

    def _subject(self, commit: str) -> str:
        return _git(self.top, "log", "-1", "--format=%s", commit)

    def is_dirty(self) -> bool:
        """Tell whether the working tree has changes that no commit has."""
        return bool(_git(self.top, "status", "--porcelain", "--untracked-files=no"))

    def add_worktree(self, folder: Path, commit: str) -> None:
        """Check `commit` out at `folder`, replacing what an earlier attempt left there.

        With its submodules, but for those that the user's working tree does without.
        """
        self.remove_worktree(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _git(self.top, "worktree", "add", "--detach", "--force", str(folder), commit)
        if (folder / ".gitmodules").is_file():
            wanted = sorted(_missing_submodules(folder) - _missing_submodules(self.top))
            if wanted:
                _git(folder, "submodule", "update", "--init", "--recursive", "--", *wanted)

    def remove_worktree(self, folder: Path) -> None:
        """Remove the folder and git's record of it, if they exist.

        Not by `git worktree prune`, which also forgets the user's own worktrees on a disk that is not mounted.
        """
        with suppress(RooflensError):  # git does not know it
            _git(self.top, "worktree", "remove", "--force", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)

    def _read(self, *arguments: str) -> str:
        """Return what git says without taking a lock, so that the user's own git is not disturbed."""
        return _git(self.top, "--no-optional-locks", *arguments, timeout_s=MOST_S)

    def _commit(self, name: str) -> str:
        try:
            return _git(self.top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        except RooflensError:
            raise UsageError(
                f"--git: {quote(name)} is not a commit of {self.top}: see git branch, git tag, git log"
            ) from None


def _missing_submodules(folder: Path) -> set[str]:
    """Paths of the submodules that a working tree has not checked out."""
    lines = _git(folder, "submodule", "status").splitlines()
    return {line.split(maxsplit=1)[1] for line in lines if line.startswith("-")}


def _lines(text: str) -> int | None:
    """Lines of --numstat; it writes "-" for a binary file."""
    return int(text) if text.isdigit() else None


_RUNS_NOTHING = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""Options with which git starts no program that the configuration of a repository names: it may be anybody's."""


def _git(folder: Path, *arguments: str, timeout_s: float = GIT_S) -> str:
    """Run git in `folder` and return its output. Raises RooflensError with the last line of its error message."""
    try:
        done = subprocess.run(
            ["git", *_RUNS_NOTHING, "-C", str(folder), *arguments],
            env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")},  # a hook's, say
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise RooflensError(f"git {arguments[0]}: no answer within {timeout_s:g} s") from None
    except FileNotFoundError:
        raise RooflensError("git is not installed: install it, or compare two stored runs") from None
    if done.returncode:
        message = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise RooflensError(f"git {arguments[0]}: {message}")
    return done.stdout.strip()
