"""Measure several versions of one repository in turn: rounds in fresh processes, into one folder per arm.

    FOLDER/compare.json   what is compared, and which (round, arm) are finished
    FOLDER/base, head     run folders as `rooflens run` writes them; with --null-arm also null, a second copy of base
    FOLDER/compare.log    what checkouts, --setup and the measuring processes printed

Checkouts, environments and caches lie elsewhere (`scratch_of`) until `Comparing.clean_up`.
"""

import ctypes
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from ..shapes import suite as suites
from ..shapes.errors import IncompleteError, Interrupted, RooflensError, UsageError
from . import arm_environment
from .arm_environment import ArmEnvironment
from .lock import locked
from .origin import Origin
from .schedule import balanced
from .tables import replace
from .worktrees import Repository

STATE = "compare.json"
LOG = "compare.log"
ORIGIN = "origin.json"

_POLL_S = 0.2
_STOP_S = 30.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared.

    commits  by arm. Arms of one version (what stands before a "+") share checkout and environment
    files    provider files by their paths in the repository
    options  of `rooflens run`
    tables   tuned tables by arm, for those that run given configurations
    only     file with the coordinates of the cells to measure (see `replay.keep_only`); "": all of the suite
    searches by arm of `commits`: search configurations so often first, into the folder that `tables` has for it
    """

    repository: str
    commits: Mapping[str, str]
    suite: str
    files: tuple[str, ...]
    options: tuple[str, ...]
    rounds: int
    setup: str
    suite_hash: str
    tables: Mapping[str, str] = field(default_factory=dict)
    only: str = ""
    searches: Mapping[str, int] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """The repository is rooflens, and its own kernels are what is compared."""
        return not self.files and (Path(self.repository) / "kernels" / "registry.py").is_file()


class Observer(Interface):
    """Whoever shows the progress."""

    def started(self, finished: int) -> None:
        """Tell how many (round, arm) an earlier call has finished."""

    def doing(self, what: str) -> None:
        """Tell what is prepared."""

    def measuring(self, arm: str, number: int, rows: int) -> None:
        """Tell which round of which arm runs, and how many units it has stored."""

    def finished(self, arm: str, number: int) -> None:
        """Tell that a round of an arm is complete."""


class Comparing:
    """One comparison in its folder, new or gone on with."""

    def __init__(self, folder: Path, what: Comparison, observer: Observer, scratch: Path | None = None) -> None:
        self.folder, self.what = folder.resolve(), what
        self._observer = observer
        self._repository = Repository(Path(what.repository))
        self._done: set[tuple[int, str]] = set()
        self._lock = -1
        self.scratch = scratch or scratch_of(self.folder)

    def run(self, should_stop: Callable[[], bool], deadline: float | None) -> bool:
        """Measure what is missing. True when everything is; False when the deadline came first.

        Raises Interrupted, and RooflensError or UsageError when an arm cannot be set up or measured.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = locked(self.folder)
        self._done = self._load_done()
        self._save()
        self._observer.started(len(self._done))
        order = [step for step in balanced(list(self.what.commits), self.what.rounds) if step not in self._done]
        if order:
            environments = self._environments()
            for arm, count in self.what.searches.items():
                if not self._tune(environments[arm], arm, count, should_stop, deadline):
                    return False
        for number, arm in order:
            if suite_hash(self.what.suite) != self.what.suite_hash:
                raise UsageError(f"suite {self.what.suite} has changed since the comparison began: compare anew")
            if deadline is not None and time.monotonic() >= deadline:
                return False
            if not self._measure(environments[arm], arm, number, should_stop, deadline):
                return False
            self._done.add((number, arm))
            self._save()
            self._observer.finished(arm, number)
        return True

    def _environments(self) -> dict[str, ArmEnvironment]:
        """Set all versions up; what cannot be set up leaves nothing behind."""
        try:
            return {arm: self._set_up(version(arm), self.what.commits[arm]) for arm in self.what.commits}
        except (RooflensError, OSError) as error:
            if not isinstance(error, Interrupted):
                self.clean_up()
            raise

    def clean_up(self) -> None:
        """Remove checkouts, environments and caches."""
        for name in dict.fromkeys(map(version, self.what.commits)):
            self._repository.remove_worktree(self.scratch / name / "tree")
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _set_up(self, name: str, commit: str) -> ArmEnvironment:
        """Check out the commit of a version and make its environment, unless an earlier attempt got that far."""
        folder = self.scratch / name
        environment = ArmEnvironment(folder, folder / "tree")
        stamp = folder / "ready"
        wanted = f"{commit} {self.what.setup}"
        if stamp.is_file() and stamp.read_text() == wanted:
            return environment
        self._observer.doing(f"check out {name}: {self._repository.describe(commit)}")
        self._repository.add_worktree(environment.tree, commit)
        for file in self.what.files:
            if not (environment.tree / file).is_file():
                raise UsageError(
                    f"--providers {file}: {name} ({commit[:12]}) has no such file; choose a commit that has it"
                )
        if self.what.ours:
            refuse_other_harness(environment.tree, name)
        if self.what.setup:
            self._observer.doing(f"set up {name}: {self.what.setup}")
        arm_environment.create(environment, self.what.setup, self.folder / LOG, self.what.ours)
        origin = Origin(environment.tree, environment.prefix, Path(self.what.repository), self.what.ours)
        replace(folder / ORIGIN, json.dumps(asdict(origin), default=str) + "\n")
        stamp.write_text(wanted)
        return environment

    def _tune(
        self, environment: ArmEnvironment, arm: str, count: int, should_stop: Callable[[], bool], deadline: float | None
    ) -> bool:
        """Search the configurations of an arm's kernels. False when the deadline ended it."""
        folder = Path(self.what.tables[arm])
        self._observer.doing(f"search configurations of {version(arm)}")
        command = [
            *("tune", self.what.suite, *_selecting(self.what.options), "-o", str(folder), "--searches", str(count)),
            *(["--resume"] if (folder / "run.json").is_file() else []),
        ]
        return self._run(f"searching for {arm}", environment, command, should_stop, deadline, lambda: None)

    def _measure(
        self,
        environment: ArmEnvironment,
        arm: str,
        number: int,
        should_stop: Callable[[], bool],
        deadline: float | None,
    ) -> bool:
        """Run one round of one arm in a process of its own. False when the deadline ended it."""
        folder = self.folder / arm
        command = [
            *("run", self.what.suite, *self.what.options, "-o", str(folder), "--rounds", str(number + 1)),
            *("--no-calibrate", "--no-report"),
            *(["--tuned", self.what.tables[arm]] if arm in self.what.tables else []),
            *(["--only", self.what.only] if self.what.only else []),
            *(["--resume"] if (folder / "run.json").is_file() else []),
        ]

        def look() -> None:
            self._observer.measuring(arm, number, _rows(folder / "cells.csv"))

        return self._run(f"{arm}, round {number}", environment, command, should_stop, deadline, look)

    def _run(
        self,
        what: str,
        environment: ArmEnvironment,
        command: Sequence[str],
        should_stop: Callable[[], bool],
        deadline: float | None,
        look: Callable[[], None],
    ) -> bool:
        """Run a command of rooflens in an environment; `look` is called while it runs."""
        whole = [
            # -P: where this is called from is the user's working tree, and must not be the first place to import from
            *(str(environment.python), "-P", "-m", "rooflens.cli", *command),
            *("--arm", str(environment.folder / ORIGIN)),
            *(part for file in self.what.files for part in ("--providers", str(environment.tree / file))),
            *(["--max-time", f"{max(1.0, deadline - time.monotonic()):.0f}s"] if deadline is not None else []),
        ]
        with (self.folder / LOG).open("a+b") as log:
            log.write(f"{what}\n".encode())
            log.flush()
            began = log.tell()
            process = subprocess.Popen(
                whole,
                cwd=environment.tree,
                env=environment.variables(bool(self.what.setup), self.what.ours),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
            )
            try:
                while process.poll() is None:
                    if should_stop():
                        raise Interrupted(f"interrupted; finished rounds are in {self.folder}")
                    look()
                    time.sleep(_POLL_S)
            finally:
                _stop(process)
            log.seek(began)
            said = log.read().decode(errors="replace").splitlines()
        if process.returncode == IncompleteError.exit_code:  # the next call goes on with it
            return False
        if process.returncode:
            raise self._explained(what, process.returncode, said)
        return True

    def _explained(self, what: str, code: int, said: list[str]) -> Exception:
        if code == Interrupted.exit_code:
            return Interrupted(f"interrupted; finished rounds are in {self.folder}")
        mark = "rooflens: error: "
        told = [line.partition(mark)[2] for line in said if mark in line] or said[-1:] or [f"exit code {code}"]
        kind = UsageError if code == UsageError.exit_code else RooflensError
        return kind(f"{what}: {told[-1]}; see {self.folder / LOG}")

    def _load_done(self) -> set[tuple[int, str]]:
        state = read_state(self.folder)
        return {(int(number), str(arm)) for number, arm in state["done"]} if state else set()

    def _save(self) -> None:
        replace(self.folder / STATE, json.dumps(asdict(self.what) | {"done": sorted(self._done)}, indent=1) + "\n")


def _selecting(options: Sequence[str]) -> list[str]:
    """Options of `rooflens run` without those that `rooflens tune` does not have."""
    pairs = zip(options[::2], options[1::2], strict=True)
    return [part for name, value in pairs if name not in ("--target-ci", "--budget") for part in (name, value)]


def version(arm: str) -> str:
    """Version that an arm is of: "base+head-config" is of base."""
    return arm.partition("+")[0]


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return what compare.json of a folder holds, None when there is none. Raises UsageError when it cannot be read."""
    try:
        content: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / STATE}: {error}; compare anew with another -o") from None
    return content


def stored(folder: Path) -> Comparison:
    """Return the comparison that `folder` was started with. Raises UsageError when it holds none."""
    state = read_state(folder)
    if state is None:
        raise UsageError(f"no comparison to go on with: {folder / STATE} does not exist; name its folder with -o")
    state.pop("done")
    try:
        return Comparison(**state | {"files": tuple(state["files"]), "options": tuple(state["options"])})
    except (KeyError, TypeError) as error:
        raise UsageError(f"{folder / STATE} is not of this version of rooflens ({error}); compare anew") from None


def scratch_of(folder: Path) -> Path:
    """Folder for checkouts, environments and caches of the comparison in `folder`; the same one every time."""
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    home = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", tempfile.gettempdir())) / ".cache"
    return Path(home).expanduser().resolve() / "rooflens" / "compare" / name


def refuse_other_harness(tree: Path, arm: str) -> None:
    """Raise UsageError when rooflens' own checkout measures, or describes problems, in another way than this one."""
    root = Path(__file__).resolve().parents[1]
    for name in ("harness", "shapes"):
        if folder_hash(tree / name) != folder_hash(root / name):
            raise UsageError(
                f"{arm}: its {name}/ is not that of the rooflens that compares, so that a difference would not be the "
                "kernels'; run rooflens compare from a checkout with the same one, or compare two stored runs"
            )


def suite_hash(name: str) -> str:
    """Hash of all that a suite says, shapes included."""
    return hashlib.sha256(repr(suites.load(name)).encode()).hexdigest()[:16]


def folder_hash(folder: Path) -> str:
    """Hash the sources below a folder: names and contents."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.suffix in _SOURCES and path.is_file()):
        digest.update(f"{file.relative_to(folder).as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


_SOURCES = (".py", ".toml", ".csv")


def _rows(path: Path) -> int:
    """Lines of a CSV file without its header."""
    try:
        return max(0, path.read_bytes().count(b"\n") - 1)
    except FileNotFoundError:
        return 0


def _end_with_parent() -> None:
    """Ask Linux for a SIGTERM when the parent dies: the run then ends as at Ctrl-C, and keeps what it has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a run that is still going, and wait until it has stored what it has."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
