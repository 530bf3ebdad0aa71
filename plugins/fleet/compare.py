"""Measuring a comparison on the devices of a fleet."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ...api.planned import describe, manifest
from ...api.selection import suite_of
from ...cli.report.stored_comparison import go_on
from ...harness.compare.spec import CompareSpec, scratch_of, suite_hash
from ...harness.compare.worktrees import Repository
from ...shapes.errors import Interrupted, RooflensError, UsageError
from ...shapes.request import Request
from .progress import FleetProgress
from .run import FleetTarget, reopen_failed

if TYPE_CHECKING:
    from ...harness.compare.replay import Row
    from ...shapes.suite import Suite
    from .engine.compare_worker import CompareWorkerSpec
    from .engine.ray_cluster import RayCluster


@dataclass
class Devices:
    """Measures on the devices of one architecture of a cluster that `target` asks for, chunk by chunk."""

    cluster: "RayCluster"
    arch: str
    target: FleetTarget
    deadline: float | None
    retry: tuple[str, ...] = ()
    should_stop: Callable[[], bool] = lambda: False
    unmeasured: str = ""

    def divided(self, what: CompareSpec) -> CompareSpec:
        """Return the comparison with its number of chunks, which the first call determines."""
        from .engine.jobs import CHUNKS_PER_DEVICE, problems

        if what.chunks:
            return what
        offered = self.cluster.offered()[self.arch]
        count = min(self.target.most or offered, offered)
        return replace(what, chunks=min(problems(_rows(what, _suite(what))), CHUNKS_PER_DEVICE * count))

    def measure(self, folder: Path, what: CompareSpec) -> bool:
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
        resuming = f"resume with: {go_on(folder, True)}"
        try:
            reopen_failed(store, self.retry)
            queue = JobQueue(self.arch, store, spec, self.target.most, job_noun="parts of the suite")
            with FleetProgress(sys.stderr) as progress:
                patience_s = self.target.patience_s
                fleet = Fleet(queue, self.cluster, progress, self.should_stop, self.deadline, patience_s)
                complete = fleet.run()
            if unmeasured := fleet.unmeasured():
                self.unmeasured = f"{unmeasured}: {resuming}"
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
        from ...harness.worker.messages import Setup
        from ...shapes.architectures import is_gpu
        from .engine.compare_worker import CompareWorkerSpec

        request = _request(what)
        device = "cuda" if is_gpu(self.arch) else "cpu"
        content = manifest(folder, suite, request, sys.argv[1:])
        describe(content, suite, _cells(what, suite), request)
        # an arm sets these itself, or they depend on its providers
        content.id, content.folder, content.request, content.challengers = "", "", None, []
        content.repository = None
        content.tuning = suite.protocol.tuning
        setup = Setup(
            device=device,
            llc_bytes=request.llc,
            threads=request.threads,
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
            retry=self.retry,
        )


Opening: TypeAlias = Callable[[Path, CompareSpec, float | None, tuple[str, ...]], AbstractContextManager["Devices"]]


def target_of(request: Request) -> Opening:
    """Read --jobs, --address, --on and --wait: return what opens the devices that they name."""
    return partial(devices, FleetTarget.of(request))


@contextmanager
def devices(
    target: FleetTarget, folder: Path, what: CompareSpec, deadline: float | None, retry: tuple[str, ...] = ()
) -> Iterator[Devices]:
    """Start or join the cluster. Raises UsageError when it does not have the architecture of the comparison so far."""
    with target.opened(_request(what).device or "auto", folder / "base") as (cluster, arch):
        yield Devices(cluster, arch, target, deadline, retry)


def _request(what: CompareSpec) -> Request:
    """Return what every run of an arm measures, without the user's providers: only arms can load those."""
    return replace(Request.of_words([what.suite, *what.options]), rounds=what.rounds, providers=(), files=())


def _suite(what: CompareSpec) -> "Suite":
    suite = suite_of(_request(what))
    return suite.override(protocol={"tuning": "pinned"}) if what.tables else suite


def _cells(what: CompareSpec, suite: "Suite") -> Any:
    """Plan the suite with its own providers. A filter on providers is left to the arms, which have others."""
    from ...harness.plan.plan import plan

    expression = _request(what).filter_expression or ""
    return plan(suite, "" if re.search(r"\bprovider\b", expression) else expression)


def _rows(what: CompareSpec, suite: "Suite") -> "tuple[Row, ...]":
    """Return what is to be divided: the cells that `what.only` names, or all of the suite."""
    from ...harness.compare.replay import read_rows
    from .engine.jobs import rows_of

    return read_rows(Path(what.only)) if what.only else rows_of(_cells(what, suite))
