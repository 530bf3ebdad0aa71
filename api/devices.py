"""The devices that a request means: those of this machine, and those of a cluster, which a plugin finds."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from ..harness.sweep.cluster import PATIENCE_S, Target, chosen, local_cluster
from ..shapes.architectures import parse_devices
from ..shapes.plugins import Hook, provided
from ..shapes.request import Request
from ..shapes.run_folder.manifest import StoredFleet


@contextmanager
def target(request: Request, stored_arch: str, should_stop: Callable[[], bool]) -> Iterator[Target]:
    """Find the devices that --jobs, --address, --on and --wait mean; `stored_arch` is that of a run to resume, or "".

    Raises UsageError when there are none such.
    """
    arch, most = parse_devices(request.on or "", "--on")
    patience_s = PATIENCE_S if request.wait is None else request.wait
    with ExitStack() as held:
        if request.address:
            places = held.enter_context(provided(Hook.PLACES)(request.address))
        else:
            places = local_cluster(request.device or "auto", _slots(request), should_stop)
        yield Target(places, chosen(arch, most, places.offered(), stored_arch), most, patience_s)


def stored(request: Request) -> StoredFleet:
    """Return what run.json keeps of the devices that are meant."""
    return StoredFleet(address=request.address or "", slots=_slots(request))


def _slots(request: Request) -> int | None:
    return int((request.jobs or "").partition(":")[2] or 0) or None
