"""Who measures a comparison: one device of this machine, or the devices of a fleet."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...harness.compare.runner import Comparing
from ...harness.compare.spec import Comparison, scratch_of, suite_hash
from ...harness.compare.worktrees import Repository
from ...kernels.cache_folder import make_private
from ...shapes.errors import Interrupted, RooflensError, UsageError
from ...shapes.run_folder.manifest import COMPARISON, MANIFEST
from ..report.stored_comparison import go_on
from ..run.fleet_folder import refuse_another
from ..run.fleet_progress import FleetProgress
from ..run.fleet_run import Where, opened
from ..run.selection import completed, describe, manifest, suite_of
from ..shared import values
from .progress import Progress

if TYPE_CHECKING:
    from ...harness.compare.replay import Row
    from ...harness.fleet.compare_worker import ComparisonBrief
    from ...harness.fleet.ray_cluster import RayCluster
    from ...shapes.suite import Suite


class OneDevice:
    """Measures on this machine, in this process's environment. `left_out` stays empty: no device is lost."""

    left_out = ""

    def __init__(self, folder: Path, deadline: float | None, retry: tuple[str, ...]) -> None:
        self._folder, self._deadline, self._retry = folder, deadline, retry
        self._comparings: list[Comparing] = []
        self._scratch = scratch_of(folder.resolve())
        self.should_stop: Callable[[], bool] = lambda: False

    def divided(self, what: Comparison) -> Comparison:
        """Return the comparison as this measures it."""
        return what

    def measure(self, folder: Path, what: Comparison) -> bool:
        """See `replay.Measure`."""
        make_private(self._scratch, "ROOFLENS_CACHE")  # what is prepared there is run
        with Progress(sys.stderr, what) as progress:
            self._comparings.append(Comparing(folder, what, progress, self._scratch, self._retry))
            try:
                return self._comparings[-1].run(self.should_stop, self._deadline)
            except Interrupted as error:
                raise Interrupted(f"{error}; resume with: {go_on(self._folder, False)}") from None

    def end(self, complete: bool) -> None:
        """Remove checkouts and environments, unless a later call goes on with them."""
        if complete:
            self._comparings[0].clean_up()
        else:
            click.echo(f"until it goes on, checkouts and environments stay in {self._scratch}", err=True)


class Devices:
    """Measures on the devices of one architecture of a cluster, chunk by chunk."""

    def __init__(
        self, cluster: "RayCluster", arch: str, most: int, is_limited: bool, where: Where, deadline: float | None
    ) -> None:
        self._cluster, self._arch, self._most, self._limit = cluster, arch, most, most if is_limited else None
        self._patience_s, self._deadline = where.patience_s, deadline
        self.should_stop: Callable[[], bool] = lambda: False
        self.left_out = ""

    def divided(self, what: Comparison) -> Comparison:
        """Return the comparison as this measures it: the number of chunks is decided once, by the first call."""
        from ...harness.fleet.chunks import PER_DEVICE, problems

        if what.chunks:
            return what
        rows = _rows(what, _suite(what))
        return replace(what, chunks=min(problems(rows), PER_DEVICE * self._most))

    def measure(self, folder: Path, what: Comparison) -> bool:
        """See `replay.Measure`."""
        from ...harness.fleet.arch_queue import Lane
        from ...harness.fleet.chunks import chunks_of
        from ...harness.fleet.compare_store import Arms
        from ...harness.fleet.fleet import Fleet

        if suite_hash(what.suite) != what.suite_hash:
            raise UsageError(f"suite {what.suite} has changed since the comparison began: compare anew")
        folder = folder.resolve()
        suite = _suite(what)
        chunks = chunks_of(_rows(what, suite), what.chunks, suite.name, what.rounds, len(what.commits))
        brief = self._brief(folder, what, suite)
        place, repository = brief.place, Repository(Path(what.repository))
        repository.forget_worktrees(place)  # of a call that was killed
        arms = Arms(folder, what, brief.manifest, chunks)
        try:
            lane = Lane(self._arch, arms, brief, self._limit, jobs_are="parts of the suite")
            with FleetProgress(sys.stderr) as progress:
                fleet = Fleet([lane], self._cluster, progress, self.should_stop, self._deadline, self._patience_s)
                complete = fleet.run()
            self.left_out = "; ".join(fleet.left_out())
            if self.left_out:
                self.left_out += f": resume with: {go_on(folder, True)}"
        except Interrupted:
            done = f"{len(arms.done)} of {len(chunks)} parts of the suite are in {folder}"
            raise Interrupted(f"interrupted; {done}: resume with: {go_on(folder, True)}") from None
        except RooflensError as error:
            raise type(error)(f"{error}; resume with: {go_on(folder, True)}") from error
        finally:
            arms.close()
            repository.forget_worktrees(place)  # of stations that were lost
        return complete

    def end(self, complete: bool) -> None:
        """Nothing: stations clean up after themselves."""

    def _brief(self, folder: Path, what: Comparison, suite: "Suite") -> "ComparisonBrief":
        from ...harness.fleet.compare_worker import ComparisonBrief
        from ...harness.worker.messages import Setup
        from ...shapes.architectures import is_gpu

        request = _request(what)
        device = "cuda" if is_gpu(self._arch) else "cpu"
        said = manifest(folder, suite)
        describe(said, suite, _cells(what, suite), request)
        # Its own, or what its providers decide.
        said.id, said.folder, said.request, said.challengers = "", "", None, []
        said.tuning = suite.protocol.tuning
        setup = Setup(
            device=device,
            llc_bytes=values.size_bytes(request["llc"], "--llc") if request["llc"] else None,
            threads=request["threads"],
            protocol=replace(suite.protocol, tuning="default"),  # it has no providers to tune
            providers=(),
            files=(),
        )
        return ComparisonBrief(
            what=replace(what, options=(*_without_device(what.options), "--device", device)),
            setup=setup,
            manifest=said,
            place=f"comparison-{scratch_of(folder).name}",
            tables={path: Path(path).read_text(encoding="utf-8") for path in what.tables.values()},
        )


def where_of(options: Mapping[str, Any]) -> Where | None:
    """Read --jobs, --address, --on and --wait; None is this machine alone, as without them."""
    from ...shapes.architectures import parse_devices

    if options["jobs"] and options["address"]:
        raise UsageError("--jobs measures on this machine, --address on a cluster of Ray: leave one of them out")
    on, patience_s = parse_devices(options["on"], "--on"), values.seconds(options["wait"], "--wait")
    if options["address"]:
        return Where(options["address"], on=on, patience_s=patience_s)
    if options["jobs"]:
        return replace(Where.of_jobs(options["jobs"]), on=on, patience_s=patience_s)
    if on:
        raise UsageError("--on chooses an architecture of a cluster: add --address, or --jobs")
    return None


@contextmanager
def devices(where: Where, folder: Path, what: Comparison, deadline: float | None) -> Iterator[Devices]:
    """Start or join the cluster. Raises UsageError when it does not have one architecture, or another than before."""
    with opened(where, _request(what)["device"] or "auto") as (cluster, limits):
        if len(limits) > 1:
            names = list(limits)
            raise UsageError(
                f"a comparison is of one architecture, and this cluster has {' and '.join(names)}: add --on {names[0]}"
            )
        if (folder / COMPARISON).exists() and (folder / "base" / MANIFEST).is_file():
            refuse_another(folder / "base", list(limits))
        ((arch, limit),) = limits.items()
        offered = cluster.offered()[arch]
        yield Devices(cluster, arch, min(limit or offered, offered), limit is not None, where, deadline)


def _request(what: Comparison) -> dict[str, Any]:
    """Read the options that every run of an arm gets, without the user's providers: only arms can load those."""
    from ..run.run import run
    from ..run.run_request import OF_THIS_CALL

    with run.make_context("run", [what.suite, *what.options, "--rounds", str(what.rounds)]) as context:
        given = {name: value for name, value in context.params.items() if name not in OF_THIS_CALL}
    return completed(given | {"providers": (), "files": ()})


def _suite(what: Comparison) -> "Suite":
    suite = suite_of(_request(what))
    return suite.override(protocol={"tuning": "pinned"}) if what.tables else suite


def _cells(what: Comparison, suite: "Suite") -> Any:
    """Plan the suite with its own providers. A filter that speaks of providers is left to the arms, who have others."""
    from ...harness.plan.plan import plan

    expression: str = _request(what)["filter_expression"]
    return plan(suite, "" if re.search(r"\bprovider\b", expression) else expression)


def _rows(what: Comparison, suite: "Suite") -> "tuple[Row, ...]":
    """Return what is to be divided: the cells that `what.only` names, or all of the suite."""
    from ...harness.compare.replay import read_rows
    from ...harness.fleet.chunks import rows_of

    return read_rows(Path(what.only)) if what.only else rows_of(_cells(what, suite))


def _without_device(options: tuple[str, ...]) -> Iterator[str]:
    """Leave --device out: which one it is was decided by who got the job."""
    for name, value in zip(options[::2], options[1::2], strict=True):
        if name != "--device":
            yield from (name, value)
