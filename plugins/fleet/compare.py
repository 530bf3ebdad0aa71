"""Measuring a comparison on the devices of a fleet."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...api.planned import describe, manifest
from ...api.run_folders import how_to_resume
from ...api.selection import suite_of
from ...harness.compare.spec import CompareSpec, scratch_of, suite_hash
from ...harness.compare.worktrees import Repository
from ...shapes.errors import Interrupted, RooflensError, UsageError
from ...shapes.request import Request
from .run import FleetTarget, reopen_failed

if TYPE_CHECKING:
    from ...harness.compare.replay import Row
    from ...harness.sweep.events import Observer
    from ...shapes.suite import Suite
    from .engine.compare_worker import CompareWorkerSpec
    from .engine.fleet import Cluster


@dataclass
class Devices:
    """Measures on the devices of one architecture of a cluster that `target` asks for, chunk by chunk."""

    what: CompareSpec
    cluster: "Cluster"
    arch: str
    target: FleetTarget
    request: Request
    deadline: float | None
    observer: "Observer"
    unmeasured: str = ""

    def measure(self, folder: Path, what: CompareSpec, should_stop: Callable[[], bool]) -> bool:
        """Measure a comparison in `folder`; True when it is complete."""
        from .engine.compare_store import CompareStore
        from .engine.fleet import Fleet
        from .engine.job_queue import JobQueue
        from .engine.jobs import chunks_of

        if suite_hash(what.suite) != what.suite_hash:
            raise UsageError(f"suite {what.suite} has changed since the comparison began: compare anew")
        folder = folder.resolve()
        suite = _suite(what)
        chunks = chunks_of(_rows(what, suite), what.chunks, suite.name, what.rounds, len(what.commits))
        spec = self._spec(folder, what, suite)
        repository = Repository(Path(what.repository))
        repository.forget_worktrees(spec.place)  # of a call that was killed
        store = CompareStore(folder, what, spec.manifest, chunks)
        resuming = how_to_resume(folder)
        try:
            reopen_failed(store, self.request.retry, self.observer)
            queue = JobQueue(self.arch, store, spec, self.target.most, job_noun="parts of the suite")
            fleet = Fleet(queue, self.cluster, self.observer, should_stop, self.deadline, self.target.patience_s)
            complete = fleet.run()
            if unmeasured := fleet.unmeasured():
                self.unmeasured = f"{unmeasured}: {resuming}"
        except Interrupted:
            done = f"{len(store.done)} of {len(chunks)} parts of the suite are in {folder}"
            raise Interrupted(f"interrupted; {done}: {resuming}") from None
        except RooflensError as error:
            raise error.saying(f"{error}; {resuming}") from error
        finally:
            store.close()
            repository.forget_worktrees(spec.place)  # of workers that were lost
        return complete

    def _spec(self, folder: Path, what: CompareSpec, suite: "Suite") -> "CompareWorkerSpec":
        from ...harness.worker.messages import Setup
        from ...shapes.architectures import is_gpu
        from .engine.compare_worker import CompareWorkerSpec

        request = _request(what)
        device = "cuda" if is_gpu(self.arch) else "cpu"
        content = manifest(folder, suite, request)
        describe(content, suite, _cells(what, suite), request)
        # an arm sets these itself, or they depend on its providers
        content.id, content.folder, content.request, content.challengers = "", "", None, []
        content.repository = None
        content.tuning = suite.protocol.tuning
        setup = Setup(
            device=device,
            protocol=replace(suite.protocol, tuning="default"),  # it has no providers to tune
            providers=(),
            files=(),
        )
        return CompareWorkerSpec(
            setup=setup,
            manifest=content,
            what=replace(what, request=(what.request or {}) | {"device": device}),  # the fleet decides on the device
            place=f"comparison-{scratch_of(folder).name}",
            tables={path: Path(path).read_text(encoding="utf-8") for path in what.tables.values()},
            retry=self.request.retry,
        )


@contextmanager
def devices(
    request: Request, folder: Path, what: CompareSpec, deadline: float | None, observer: "Observer"
) -> Iterator[Devices]:
    """Start or join the cluster; the first call determines the number of chunks.

    Raises UsageError when the cluster does not have the architecture of the comparison so far.
    """
    from .engine.jobs import CHUNKS_PER_DEVICE, problems

    target = FleetTarget.of(request)
    with target.opened(request.device or "auto", folder / "base") as (cluster, arch):
        if not what.chunks:
            offered = cluster.offered()[arch]
            count = CHUNKS_PER_DEVICE * min(target.most or offered, offered)
            what = replace(what, chunks=min(problems(_rows(what, _suite(what))), count))
        yield Devices(what, cluster, arch, target, request, deadline, observer)


def _request(what: CompareSpec) -> Request:
    """Return what every run of an arm measures, without the user's providers: only arms can load those."""
    return replace(what.asked("run").with_settings(rounds=what.rounds), providers=())


def _suite(what: CompareSpec) -> "Suite":
    suite = suite_of(_request(what))
    return suite.override(protocol={"tuning": "pinned"}) if what.tables else suite


def _cells(what: CompareSpec, suite: "Suite") -> Any:
    """Plan the suite with its own providers. A filter on providers is left to the arms, which have others."""
    from ...harness.plan.plan import plan

    expression = _request(what).filter_expression or ""
    return plan(suite, "" if re.search(r"\bprovider\b", expression) else expression)


def _rows(what: CompareSpec, suite: "Suite") -> "tuple[Row, ...]":
    """Return what is to be divided: the cells of `what`, or all of the suite."""
    from .engine.jobs import rows_of

    return tuple(map(tuple, what.cells)) or rows_of(_cells(what, suite))
