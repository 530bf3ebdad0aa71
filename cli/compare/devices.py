"""Measuring a comparison on one device of this machine, or on the devices of a fleet."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from ...harness.compare.runner import CompareRunner
from ...harness.compare.spec import CompareSpec, scratch_of, suite_hash
from ...harness.compare.worktrees import Repository
from ...kernels.cache_folder import make_private
from ...shapes.errors import Interrupted, RooflensError, UsageError
from ...shapes.run_folder.manifest import COMPARISON, MANIFEST
from ..report.stored_comparison import go_on
from ..run.fleet_folder import refuse_another
from ..run.fleet_progress import FleetProgress
from ..run.fleet_run import FleetTarget, reopen_failed
from ..run.run_request import llc_bytes
from ..run.selection import Options, completed, describe, manifest, suite_of
from ..shared import values
from ..shared.progress import CountedProgress

if TYPE_CHECKING:
    from ...harness.compare.replay import Row
    from ...harness.fleet.compare_worker import CompareWorkerSpec
    from ...harness.fleet.ray_cluster import RayCluster
    from ...shapes.suite import Suite


class CompareProgress(CountedProgress):
    """Observer of `harness.compare.runner`: a bar on a terminal, a line per finished round elsewhere."""

    def __init__(self, stream: IO[str], what: CompareSpec) -> None:
        super().__init__(stream, what.rounds * len(what.commits), "[dim]{task.description}")
        self._began = time.monotonic()

    def started(self, finished: int) -> None:
        """Show how many rounds an earlier call has finished."""
        self._count(finished)
        if finished:
            self.remark(f"{finished} of {self._total} rounds are stored already")

    def doing(self, what: str) -> None:
        """Show what is prepared."""
        self._describe(what)
        self.remark(what)

    def measuring(self, arm: str, number: int, rows: int) -> None:
        """Show which round of which version runs."""
        self._describe(f"round {number + 1} of {arm}: {rows} units stored")

    def finished(self, arm: str, number: int) -> None:
        """Count a round."""
        self._count(self._done + 1)
        if not self._console.is_terminal:
            elapsed = time.monotonic() - self._began
            self.remark(f"{self._done} of {self._total}: round {number + 1} of {arm}, {elapsed:.0f} s")


class OneDevice:
    """Measures on this machine, in the environment of this process. `unmeasured` stays "": no device is lost."""

    unmeasured = ""

    def __init__(self, folder: Path, deadline: float | None, retry: tuple[str, ...]) -> None:
        self._folder, self._deadline, self._retry = folder, deadline, retry
        self._runners: list[CompareRunner] = []
        self._scratch = scratch_of(folder.resolve())
        self.should_stop: Callable[[], bool] = lambda: False

    def divided(self, what: CompareSpec) -> CompareSpec:
        """Return the comparison undivided."""
        return what

    def measure(self, folder: Path, what: CompareSpec) -> bool:
        """Measure a comparison in `folder`; True when it is complete."""
        make_private(self._scratch, "ROOFLENS_CACHE")  # programs are run from there
        with CompareProgress(sys.stderr, what) as progress:
            self._runners.append(CompareRunner(folder, what, progress, self._scratch, self._retry))
            try:
                return self._runners[-1].run(self.should_stop, self._deadline)
            except Interrupted as error:
                raise Interrupted(f"{error}; resume with: {go_on(self._folder, False)}") from None

    def end(self, complete: bool) -> None:
        """Remove checkouts and environments, unless a later call resumes the comparison."""
        if complete:
            self._runners[0].clean_up()
        else:
            click.echo(f"checkouts and environments stay in {self._scratch} until it is resumed", err=True)


class Devices:
    """Measures on at most `limit` devices of one architecture of a cluster, chunk by chunk; `count` are expected."""

    def __init__(
        self,
        cluster: "RayCluster",
        arch: str,
        count: int,
        limit: int | None,
        patience_s: float,
        deadline: float | None,
        retry: tuple[str, ...] = (),
    ) -> None:
        self._cluster, self._arch, self._count, self._limit = cluster, arch, count, limit
        self._patience_s, self._deadline, self._retry = patience_s, deadline, retry
        self.should_stop: Callable[[], bool] = lambda: False
        self.unmeasured = ""

    def divided(self, what: CompareSpec) -> CompareSpec:
        """Return the comparison with its number of chunks, which the first call determines."""
        from ...harness.fleet.jobs import CHUNKS_PER_DEVICE, problems

        if what.chunks:
            return what
        rows = _rows(what, _suite(what))
        return replace(what, chunks=min(problems(rows), CHUNKS_PER_DEVICE * self._count))

    def measure(self, folder: Path, what: CompareSpec) -> bool:
        """Measure a comparison in `folder`; True when it is complete."""
        from ...harness.fleet.arch_queue import ArchQueue
        from ...harness.fleet.compare_store import CompareStore
        from ...harness.fleet.fleet import Fleet
        from ...harness.fleet.jobs import chunks_of

        if suite_hash(what.suite) != what.suite_hash:
            raise UsageError(f"suite {what.suite} has changed since the comparison began: compare anew")
        folder = folder.resolve()
        suite = _suite(what)
        chunks = chunks_of(_rows(what, suite), what.chunks, suite.name, what.rounds, len(what.commits))
        spec = self._spec(folder, what, suite)
        repository = Repository(Path(what.repository))
        repository.forget_worktrees(spec.place)  # of a call that was killed
        store = CompareStore(folder, what, spec.manifest, chunks)
        resuming = f"resume with: {go_on(folder, True)}"
        try:
            reopen_failed(store, self._retry)
            queue = ArchQueue(self._arch, store, spec, self._limit, job_noun="parts of the suite")
            with FleetProgress(sys.stderr) as progress:
                fleet = Fleet([queue], self._cluster, progress, self.should_stop, self._deadline, self._patience_s)
                complete = fleet.run()
            self.unmeasured = "; ".join(fleet.unmeasured())
            if self.unmeasured:
                self.unmeasured += f": {resuming}"
        except Interrupted:
            done = f"{len(store.done)} of {len(chunks)} parts of the suite are in {folder}"
            raise Interrupted(f"interrupted; {done}: {resuming}") from None
        except RooflensError as error:
            raise type(error)(f"{error}; {resuming}") from error
        finally:
            store.close()
            repository.forget_worktrees(spec.place)  # of workers that were lost
        return complete

    def end(self, complete: bool) -> None:
        """Do nothing: workers clean up after themselves."""

    def _spec(self, folder: Path, what: CompareSpec, suite: "Suite") -> "CompareWorkerSpec":
        from ...harness.fleet.compare_worker import CompareWorkerSpec
        from ...harness.worker.messages import Setup
        from ...shapes.architectures import is_gpu

        options = _options(what)
        device = "cuda" if is_gpu(self._arch) else "cpu"
        content = manifest(folder, suite)
        describe(content, suite, _cells(what, suite), options)
        # an arm sets these itself, or they depend on its providers
        content.id, content.folder, content.request, content.challengers = "", "", None, []
        content.repository = None
        content.tuning = suite.protocol.tuning
        setup = Setup(
            device=device,
            llc_bytes=llc_bytes(options),
            threads=options["threads"],
            protocol=replace(suite.protocol, tuning="default"),  # it has no providers to tune
            providers=(),
            files=(),
        )
        # the fleet decides on the device
        pairs = zip(what.options[::2], what.options[1::2], strict=True)
        others = [part for name, value in pairs if name != "--device" for part in (name, value)]
        return CompareWorkerSpec(
            setup=setup,
            manifest=content,
            what=replace(what, options=[*others, "--device", device]),
            place=f"comparison-{scratch_of(folder).name}",
            tables={path: Path(path).read_text(encoding="utf-8") for path in what.tables.values()},
            retry=self._retry,
        )


def target_of(options: Mapping[str, Any]) -> FleetTarget | None:
    """Read --jobs, --address, --on and --wait; None is this process alone, as without them."""
    from ...shapes.architectures import parse_devices

    if options["jobs"] and options["address"]:
        raise UsageError("--jobs measures on this machine, --address on a cluster of Ray: omit one of them")
    on, patience_s = parse_devices(options["on"], "--on"), values.seconds(options["wait"], "--wait")
    if options["address"]:
        return FleetTarget(options["address"], on=on, patience_s=patience_s)
    if options["jobs"]:
        return replace(FleetTarget.of_jobs(options["jobs"]), on=on, patience_s=patience_s)
    if on:
        raise UsageError("--on selects an architecture of a cluster: add --address, or --jobs")
    return None


@contextmanager
def devices(
    target: FleetTarget, folder: Path, what: CompareSpec, deadline: float | None, retry: tuple[str, ...] = ()
) -> Iterator[Devices]:
    """Start or join the cluster. Raises UsageError when it does not have one architecture, or another than before."""
    with target.opened(_options(what)["device"] or "auto") as (cluster, limits):
        if len(limits) > 1:
            names = list(limits)
            raise UsageError(
                f"a comparison is of one architecture, and this cluster has {' and '.join(names)}: add --on {names[0]}"
            )
        if (folder / COMPARISON).exists() and (folder / "base" / MANIFEST).is_file():
            refuse_another(folder / "base", list(limits))
        ((arch, limit),) = limits.items()
        offered = cluster.offered()[arch]
        yield Devices(cluster, arch, min(limit or offered, offered), limit, target.patience_s, deadline, retry)


def _options(what: CompareSpec) -> Options:
    """Return the options of every run of an arm, without the user's providers: only arms can load those."""
    from ..run.run import run
    from ..run.run_request import OF_THIS_CALL

    with run.make_context("run", [what.suite, *what.options, "--rounds", str(what.rounds)]) as context:
        given = {name: value for name, value in context.params.items() if name not in OF_THIS_CALL}
    return completed(given | {"providers": (), "files": ()})


def _suite(what: CompareSpec) -> "Suite":
    suite = suite_of(_options(what))
    return suite.override(protocol={"tuning": "pinned"}) if what.tables else suite


def _cells(what: CompareSpec, suite: "Suite") -> Any:
    """Plan the suite with its own providers. A filter on providers is left to the arms, which have others."""
    from ...harness.plan.plan import plan

    expression: str = _options(what)["filter_expression"]
    return plan(suite, "" if re.search(r"\bprovider\b", expression) else expression)


def _rows(what: CompareSpec, suite: "Suite") -> "tuple[Row, ...]":
    """Return what is to be divided: the cells that `what.only` names, or all of the suite."""
    from ...harness.compare.replay import read_rows
    from ...harness.fleet.jobs import rows_of

    return read_rows(Path(what.only)) if what.only else rows_of(_cells(what, suite))
