"""The versions of a comparison on a machine: their checkouts and environments."""

import shutil
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ...kernels.cache_folder import make_private
from ...shapes.errors import Interrupted, RooflensError, UsageError
from ...shapes.run_folder.manifest import ComparisonState
from . import environments
from .environments import PreparedVersion, VersionEnvironment, refuse_other_harness
from .spec import is_ours, place, suite_hash, version
from .worktrees import Repository


@dataclass(slots=True)
class Checkouts:
    """Those of `what`, in `scratch`; `log` gets the output of --setup, and `tell` what is begun."""

    what: ComparisonState
    scratch: Path
    log: Path
    tell: Callable[[str], object] = lambda text: None
    should_stop: Callable[[], bool] = lambda: False

    def make(self) -> dict[str, PreparedVersion]:
        """Make what an earlier call has not; return the version of each arm.

        Raises RooflensError or UsageError when an arm cannot be set up; then nothing stays.
        """
        make_private(self.scratch, "ROOFLENS_CACHE")  # programs are run from there
        try:
            return {arm: self._version(version(arm), commit) for arm, commit in self.what.commits.items()}
        except (RooflensError, OSError) as error:
            if not isinstance(error, Interrupted):
                self.remove()
            raise

    def remove(self) -> None:
        """Remove checkouts, environments and caches."""
        for name in dict.fromkeys(map(version, self.what.commits)):
            Repository(Path(self.what.repository)).remove_worktree(self.scratch / name / "tree")
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _version(self, name: str, commit: str) -> PreparedVersion:
        environment = self._set_up(name, commit)
        return environment, environment.variables(bool(self.what.setup), is_ours(self.what))

    def _set_up(self, name: str, commit: str) -> VersionEnvironment:
        """Check out the commit of a version and create its environment, unless an earlier attempt did."""
        folder = self.scratch / name
        environment = VersionEnvironment(folder, folder / "tree")
        stamp = folder / "ready"
        wanted = f"{commit} {self.what.setup}"
        if stamp.is_file() and stamp.read_text() == wanted:
            return environment
        repository = Repository(Path(self.what.repository))
        self.tell(f"check out {name}: {repository.describe(commit)}")
        repository.add_worktree(environment.tree, commit)
        for file in self.what.files:
            self._provide(file, environment.tree, f"{name} ({commit[:12]})")
        if is_ours(self.what):
            refuse_other_harness(environment.tree, name)
        if self.what.setup:
            self.tell(f"set up {name}: {self.what.setup}")
        environments.create(environment, self.what.setup, self.log, is_ours(self.what), self.should_stop)
        stamp.write_text(wanted)
        return environment

    def _provide(self, file: str, tree: Path, version: str) -> None:
        """Ensure that a checkout has a provider file: its own, or a copy of one from outside of the repository."""
        path = tree / place(file)
        if not Path(file).is_absolute():
            if not path.is_file():
                raise UsageError(
                    f"--providers {file}: {version} has no such file: choose commits that have it, or name a copy "
                    "outside of the repository, which both versions get"
                )
        elif path.exists():
            raise UsageError(f"--providers {file}: {version} has another {path.name}; rename the file")
        else:
            path.parent.mkdir(exist_ok=True)
            try:
                shutil.copy(file, path)
            except OSError as error:  # another node of a fleet
                raise UsageError(f"--providers {file}: {error.strerror}") from None


def versions_there(
    what: ComparisonState, name: str, folder: Path, held: ExitStack
) -> tuple[dict[str, PreparedVersion], str]:
    """Make the versions of a comparison in a folder of this machine, until `held` ends; and what --setup has printed.

    Raises RooflensError where the repository, its commits or the suite are others than on the machine of the call.
    """
    top, host = Path(what.repository), socket.gethostname()
    if not top.is_dir():
        raise RooflensError(
            f"the repository {top} is not on {host}: every node must reach it by the same path, as on a shared file "
            "system"
        )
    for arm, commit in what.commits.items():
        if not Repository(top).has(commit):
            raise RooflensError(
                f"{top} on {host} lacks {version(arm)} ({commit[:12]}): it is another clone; fetch the commit "
                "there, or share one repository"
            )
    if suite_hash(what.suite) != what.suite_hash:
        raise RooflensError(f"suite {what.suite} is another one on {host}: share the file, or copy it there")
    log = folder / "setup.log"
    checkouts = Checkouts(what, folder / name, log)
    held.callback(checkouts.remove)
    try:
        found = checkouts.make()
    except RooflensError as error:  # the log is gone when somebody reads this
        raise error.saying(str(error).replace(str(log), "its log")) from None
    return found, log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
